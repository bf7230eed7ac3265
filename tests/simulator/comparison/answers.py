"""Answers of a member in a form that can be compared: without what differs from one run to the next."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from apps.simulator.catalogue import DEFINITIONS, Catalogue
from apps.simulator.objects import Objects
from apps.simulator.requests import Request, target_of
from apps.simulator.rest import Rest
from apps.simulator.store import Change, Store
from controlplane.apimachinery.errors import StatusError
from controlplane.wire.status import status_of
from controlplane.wire.watch import DELETED
from tests.simulator.comparison import cases, pods, specs
from tests.simulator.comparison.cases import BOATS, LIVE, NAMESPACE, Case, Document, Step

RECORDED = Path(__file__).with_name("answers.json.gz")
_VARYING = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp")
_ADDRESS = re.compile(r"^10\.96\.(?!77\.77$)\d+\.\d+$")
_TOKEN_VOLUME = re.compile(r"^kube-api-access-\w+$")
# The recorded kube-apiserver is of a distribution that adds this source to the volume of every pod's token. Upstream
# Kubernetes does not. No case writes such a source, so leaving it out on both sides hides nothing else.
_DISTRIBUTION_SOURCE = {
    "configMap": {"name": "openshift-service-ca.crt", "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}
}

Send = Callable[[Step], tuple[int, Document]]


def generated() -> list[Case]:
    """Return all cases."""
    sources = (cases.of_every_kind, pods.of_deployments, pods.of_others, specs.of_each_kind, specs.of_patches)
    return [case for source in sources for case in source()]


def answers_of(send: Send, chosen: list[Case]) -> Iterator[tuple[str, list[Document]]]:
    """Yield the name of each case with the answers to its steps."""
    prepare(send)
    for case in chosen:
        version = ""
        answers = []
        for step in case.steps:
            status, body = send(_with_version(step, version))
            version = (body.get("metadata") or {}).get("resourceVersion", "") or version if status < 300 else version
            answers.append(comparable(status, body))
        yield case.name, answers


def prepare(send: Send) -> None:
    """Create what the cases need: the namespace, its service accounts, and the custom kind."""
    send(Step("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
    for name in ("default", "runner"):
        send(Step("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}))
    send(Step("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", BOATS))


def comparable(status: int, body: Document) -> Document:
    """Return status and reason of a refusal, or the object without what differs from run to run."""
    if body.get("kind") == "Status":
        return {"code": status, "reason": body.get("reason", "")}
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name not in _VARYING}
    document = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    uid = (body.get("metadata") or {}).get("uid", "")
    return {"code": status, "object": _plain({"metadata": metadata, **document}, uid)}


def _plain(value: Any, uid: str) -> Any:
    if isinstance(value, dict):
        return {
            name: 30000 if name in ("nodePort", "healthCheckNodePort") and item != 30080 else _plain(item, uid)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_plain(item, uid) for item in value if item != _DISTRIBUTION_SOURCE]
    if isinstance(value, str):
        if uid and value == uid:
            return "(uid)"
        if _ADDRESS.match(value):
            return "(address)"
        if _TOKEN_VOLUME.match(value):
            return "kube-api-access"
    return value


def _with_version(step: Step, version: str) -> Step:
    body = step.body
    if (
        isinstance(body, dict)
        and isinstance(body.get("metadata"), dict)
        and body["metadata"].get("resourceVersion") == LIVE
    ):
        return step._replace(body={**body, "metadata": {**body["metadata"], "resourceVersion": version}})
    return step


def encoded(step: Step) -> bytes:
    """Return the bytes of a step's body; text is sent as it stands where it is no patch."""
    if step.body is None:
        return b""
    return step.body.encode() if step.body == "{" else json.dumps(step.body).encode()


class Real(NamedTuple):
    """A real API server."""

    connection: http.client.HTTPSConnection
    token: str

    @classmethod
    def at(cls, host: str, port: int, *, ca: str, token: str) -> Real:
        return cls(http.client.HTTPSConnection(host, port, context=ssl.create_default_context(cadata=ca)), token)

    def send(self, step: Step) -> tuple[int, Document]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": step.content_type, "User-Agent": "lab/1"}
        self.connection.request(step.method, step.path, encoded(step), headers)
        response = self.connection.getresponse()
        raw = response.read()
        try:
            return response.status, json.loads(raw)
        except ValueError:
            return response.status, {"kind": "Status", "message": raw.decode(errors="replace")}


class Simulated:
    """The API of a simulated member without its controllers, as a real API server runs without them."""

    def __init__(self) -> None:
        store, catalogue = Store(), Catalogue()
        self.rest = Rest(Objects(store, catalogue), tokens=set())
        self.catalogue = catalogue
        store.on_change.append(self._noticed)
        self.send(Step("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}))

    def _noticed(self, kind: str, change: Change) -> None:
        if kind == DEFINITIONS:
            (self.catalogue.forget if change.event == DELETED else self.catalogue.define)(change.new.document)

    def send(self, step: Step) -> tuple[int, Document]:
        """Answer one request."""
        url = urlsplit(step.path)
        try:
            request = Request(
                method=step.method,
                target=target_of([unquote(part) for part in url.path.split("/") if part], self.catalogue),
                query=dict(parse_qsl(url.query)),
                content_type=step.content_type,
                user_agent="lab/1",
                body=encoded(step),
            )
            answer = self.rest.answer(request)
        except StatusError as error:
            return error.code, status_of(error)
        except Exception as error:  # noqa: BLE001  # over HTTP a defect is a 500, and one case ends no comparison
            return 500, {"kind": "Status", "reason": f"defect: {type(error).__name__}: {error}"}
        return answer.status, json.loads(answer.body)


def recorded() -> dict[str, Any]:
    """Return the cases and the answers of a real member."""
    return json.loads(gzip.decompress(RECORDED.read_bytes()))  # type: ignore[no-any-return]

"""Definitions with several versions, and requests through each of them."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

from tests.admission.asking import Ask, Reply
from tests.admission.policy_cases import Node

GROUP = "versions.example.com"
DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: Node = {"type": "string"}


class Step(NamedTuple):
    """A request. `url` follows the version and the plural, for example v1/a; "": the definition itself."""

    method: str
    url: str
    body: Any = None


class VersionCase(NamedTuple):
    """The path of a conversion webhook ("": only the apiVersion changes), and requests."""

    path: str
    steps: tuple[Step, ...]


def thing(version: str, name: str = "a", **spec: Any) -> Node:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "KIND", "metadata": {"name": name}, "spec": spec}


RENAMED = (
    Step("POST", "v1", thing("v1", x=1, old="a")),
    Step("GET", "v1/a"),
    Step("GET", "v2/a"),
    Step("PUT", "v2/a", thing("v2", x=2, new="b")),
    Step("GET", "v1/a"),
    Step("GET", "v2/a"),
    Step("PATCH", "v2/a", {"spec": {"x": 3}}),
    Step("PATCH", "v2/a?fieldManager=me&force=true", thing("v2", x=4)),
    Step("GET", "v1/a"),
    Step("POST", "v2", thing("v2", "b", x="text")),
    Step("POST", "v2", thing("v2", "b", x=7, new="c")),
    Step("POST", "v2", thing("v1", "c", x=7)),
    Step("POST", "v2", thing("v2", "d", x=99)),
    Step("POST", "v1", thing("v1", "d", x=99)),
    Step("GET", "v2"),
    Step("GET", "v1"),
    Step("GET", "v3/a"),
    Step("PATCH", "v2/a/status", {"status": {"ready": True}}),
    Step("GET", "v1/a"),
    Step("GET", ""),
    Step("DELETE", "v2/b"),
)
WEBHOOK = (
    Step("POST", "v1", thing("v1", address="host:80")),
    Step("GET", "v2/a"),
    Step("PUT", "v2/a", thing("v2", host="other", port="81")),
    Step("GET", "v1/a"),
    Step("PATCH", "v2/a", {"spec": {"port": "82"}}),
    Step("GET", "v1/a"),
    Step("PATCH", "v2/a?fieldManager=me&force=true", thing("v2", host="mine")),
    Step("GET", "v1/a"),
    Step("POST", "v2", thing("v2", "b", host="b", port="1")),
    Step("GET", "v1"),
    Step("GET", "v2"),
    Step("DELETE", "v2/b"),
)
FAILING = (
    Step("POST", "v1", thing("v1", address="host:80")),
    Step("GET", "v1/a"),
    Step("GET", "v2/a"),
    Step("GET", "v2"),
    Step("POST", "v2", thing("v2", "b", host="b", port="1")),
)
VERSIONS = (
    VersionCase("", RENAMED),
    VersionCase("convert", WEBHOOK),
    *(
        VersionCase(f"convert-{wrong}", FAILING)
        for wrong in (
            *("refuse", "refuse-silently", "uid", "none", "version", "kind", "name", "identity", "labels", "empty"),
        )
    ),
)


def definition(case: int, server: Any) -> Node:
    """Return the definition of a case."""
    plural, kind, path = f"things{case}", f"Thing{case}", VERSIONS[case].path
    names = {"plural": plural, "singular": f"thing{case}", "kind": kind}
    known = {"v1": {"x": {"type": "integer"}, "old": TEXT, "address": TEXT, "d": {**TEXT, "default": "one"}}}
    known["v2"] = {"x": {"type": "integer", "maximum": 50}, "new": TEXT, "host": TEXT, "port": TEXT}
    known["v2"]["e"] = {**TEXT, "default": "two"}
    known["v3"] = known["v2"]
    if path:
        for fields in known.values():
            fields.pop("d", None)
            fields.pop("e", None)
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    versions = [
        {
            "name": version,
            "served": version != "v3",
            "storage": version == "v1",
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": fields}, "status": status},
                }
            },
        }
        for version, fields in known.items()
    ]
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": versions}
    if path:
        client = {"url": f"{server.url}/{path}", "caBundle": server.bundle}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    kind_of = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind_of, "metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


def answers(ask: Ask, case: int, server: Any) -> list[Node]:
    """Return the answers to the requests of a case, whose definition is stored and removed again."""
    made = definition(case, server)
    assert ask("POST", DEFINED, made).status == 201
    plural, kind = made["spec"]["names"]["plural"], made["spec"]["names"]["kind"]
    for _ in range(100):  # until the kind is served
        if ask("GET", f"/apis/{GROUP}/v1/{plural}", None).status == 200:
            break
        time.sleep(0.1)
    try:
        found = []
        for step in VERSIONS[case].steps:
            version, _, rest = step.url.partition("/")
            name = f"/{rest}" if rest else ""
            version = version.partition("?")[0]
            url = f"/apis/{GROUP}/{version}/{plural}{name}" if version else f"{DEFINED}/{plural}.{GROUP}"
            body = {**step.body, "kind": kind} if isinstance(step.body, dict) and "kind" in step.body else step.body
            if step.method == "PUT":
                stored = ask("GET", url, None).body.get("metadata", {})
                body = {**body, "metadata": {**body["metadata"], "resourceVersion": stored.get("resourceVersion")}}
            found.append(_shown(ask(step.method, url, body)))
        return found
    finally:
        for name in ("a", "b", "c", "d"):
            ask("DELETE", f"/apis/{GROUP}/v1/{plural}/{name}", None)
        ask("DELETE", f"{DEFINED}/{plural}.{GROUP}", None)


def _shown(reply: Reply) -> Node:
    """Return what is compared of an answer."""
    body = reply.body
    if reply.status >= 400:
        causes = [[one.get("reason"), one.get("field")] for one in (body.get("details") or {}).get("causes") or []]
        shown = {"status": reply.status, "causes": causes}
        message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", body.get("message") or "")
        return shown | ({"message": message} if reply.status == 500 else {})
    if body["kind"] == "CustomResourceDefinition":
        return {"status": reply.status, "storedVersions": body["status"]["storedVersions"]}
    if "items" in body:
        items = [_object(one) for one in body["items"]]
        return {"status": reply.status, "apiVersion": body["apiVersion"], "items": items}
    return {"status": reply.status, **(_object(body) if body["kind"] != "Status" else {})}


def _object(document: Node) -> Node:
    metadata = document["metadata"]
    owned = [
        [one["manager"], one["operation"], one["apiVersion"], sorted({*one["fieldsV1"].get("f:spec", {})} - {"."})]
        for one in metadata.get("managedFields", ())
        if one["manager"] == "me"
    ]
    shown = {"apiVersion": document["apiVersion"], "spec": document.get("spec"), "state": document.get("status")}
    known = {key: metadata.get(key) for key in ("name", "labels", "generation", "finalizers")}
    return {**shown, **known, "owned": sorted(owned)}

"""Requests from a seed: the request with a number is always the same."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, urlencode

from controlplane.kind import Kind
from controlplane.kinds import KINDS
from controlplane.wire.resource import Resource
from tests.fuzz import bodies, values

ADMIN, PERSON, ANONYMOUS, STRANGER = "admin", "person", "anonymous", "stranger"
# A stored object of these kinds changes the answer to each later write.
ONLY_TRIED = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding"}
VIRTUAL = (
    *("/apis/failover.lifeboat.io/v1alpha1/failoverrecords", "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses"),
    *("/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses", "/apis/failover.lifeboat.io/v1alpha1/interpretations"),
    *("/apis/failover.lifeboat.io/v1alpha1/placementreviews", "/apis/failover.lifeboat.io/v1alpha1/whatifs"),
    *("/apis/identity.lifeboat.io/v1alpha1/credentials", "/apis/authentication.k8s.io/v1/tokenreviews"),
    *("/apis/authentication.k8s.io/v1/selfsubjectreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    *(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    ),
    *("/apis/authorization.k8s.io/v1/namespaces/fuzz-a/localsubjectaccessreviews", "/apis/metrics.k8s.io/v1beta1/pods"),
    *("/apis/autoscaling/v1/namespaces/fuzz-a/horizontalpodautoscalers", "/apis/batch/v1beta1/cronjobs"),
    *("/apis/events.k8s.io/v1/namespaces/fuzz-a/events", "/apis/example.org/v1/namespaces/fuzz-a/things"),
    "/apis/policy/v1/namespaces/fuzz-a/pods/one/eviction",
)
PLAIN = (
    *("/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.org", "/version", "/openapi/v2"),
    *("/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/apis/x/y", "/metrics", "/livez"),
    *("/readyz", "/healthz", "/debug/controllers", "/api/v2", "/apis/apps/v9/x", "/swagger", "//api//v1", "/api/v1/"),
    *("/robots.txt", "/favicon.ico", "/static/console/console.css", "/static/../x", "/static/%2e%2e/settings.py"),
)
ACCEPTS = (
    *(
        "application/json",
        "application/yaml",
        "*/*",
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "image/png",
        "",
    ),
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    *(
        ";;;",
        "a",
        "application/json;q=x",
        "application/json;q=0",
        "text/html;q=0.1,application/yaml",
        "," * 50,
        "*/json",
    ),
)
READABLE = tuple(
    accept for accept in ACCEPTS if accept.startswith(("application/json;as", "text/html", "application/y"))
)
SELECTORS = (
    *(
        "app=one",
        "app",
        "!app",
        "app in (a,b)",
        "app notin ()",
        "a=b,c!=d",
        "a==b",
        "app in (a",
        "=",
        ",",
        "a b",
        "(",
        "x" * 300,
    ),
    *(
        "metadata.name=one",
        "metadata.namespace=fuzz-a",
        "status.phase!=Running",
        "spec.x=y",
        "metadata.name!=one",
        "a=b=c",
    ),
    *("metadata.name=%00", "ä=ü", "a>1", "a<x", "\0=\0", "involvedObject.name=one", "type=Opaque", "spec.nodeName="),
)
_BOOLEANS = ("true", "false", "1", "0", "", "x", "TRUE")
_QUERY: dict[str, tuple[str, ...]] = {
    "labelSelector": SELECTORS,
    "fieldSelector": SELECTORS,
    "limit": ("1", "0", "-1", "500", "x", "9" * 30, "1.5", ""),
    "continue": ("x", "eyJ2IjoibWV0YSJ9", "", "%%%", "ä", "\0", "e30", "bnVsbA", "W10"),
    "resourceVersion": ("0", "1", "-1", "x", "9" * 20, ""),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "dryRun": ("All", "None", "", "all"),
    "fieldManager": ("kubectl", "", "x" * 200, "\0", "ä", "a b"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": _BOOLEANS,
    "pretty": _BOOLEANS,
    "allowWatchBookmarks": _BOOLEANS,
    "sendInitialEvents": _BOOLEANS,
    "propagationPolicy": ("Orphan", "Foreground", "Background", "x"),
    "gracePeriodSeconds": ("0", "-1", "x", "30", "9" * 30),
    "orphanDependents": _BOOLEANS,
    "includeObject": ("Metadata", "None", "Object", "x"),
    "timeoutSeconds": ("1", "0", "-1", "x", "9" * 30),
    "format": ("json", "yaml", "api", "x"),
    "ä\0": ("\0",),
}
_SUBRESOURCES = (
    "status",
    "scale",
    "token",
    "explain",
    "readiness",
    "fence",
    "hold",
    "release",
    "skip",
    "expedite",
    "revert",
)
_SUBRESOURCES_MORE = (
    "approval",
    "finalize",
    "eviction",
    "log",
    "exec",
    "attach",
    "portforward",
    "proxy",
    "binding",
    "x",
    "",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ODD_METHODS = ("HEAD", "OPTIONS", "TRACE", "PROPFIND")  # of others the HTTP server says that they are no HTTP


class Request(NamedTuple):
    """A request, and by whose credentials it is sent. `number`: its place in the run."""

    number: int
    who: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    @property
    def is_stream(self) -> bool:
        """Whether the answer may go on for ever; its beginning is judged then."""
        return "watch=" in self.path or "follow=" in self.path or self.path.partition("?")[0] in ("/stream", "/stream/")

    def __str__(self) -> str:
        shown = json.dumps({**self._asdict(), "body": repr(self.body)}, ensure_ascii=True)
        return shown if len(shown) < 3000 else f"{shown[:3000]}…"


@cache
def kinds() -> list[Kind]:
    return list(KINDS)


def request(seed: int, number: int) -> Request:
    """Return the request with this number of a seed, to the API or another URL without pages."""
    chance = random.Random(f"{seed} {number}")
    who = chance.choices((ADMIN, STRANGER, ANONYMOUS), (90, 5, 5))[0]
    method = chance.choices(METHODS, (30, 30, 10, 25, 8))[0] if chance.random() < 0.97 else chance.choice(ODD_METHODS)
    where = chance.random()
    if where < 0.06:
        path, query, headers, body = chance.choice(PLAIN), {}, {}, None
        method = "GET" if chance.random() < 0.8 else method
    elif where < 0.13:
        path, query, headers, body = _virtual(chance, method)
    else:
        path, query, headers, body = _of_kind(chance, method)
    query |= _query(chance)
    _describe(chance, headers)
    if body is not None and chance.random() < 0.06:
        headers["Content-Encoding"], body = bodies.packed(chance, body)
    return Request(number, who, method, _url(chance, path, query), headers, body)


def _of_kind(chance: random.Random, method: str) -> tuple[str, dict[str, str], dict[str, str], bytes | None]:
    kind = chance.choice(kinds())
    resource = kind.resource
    namespace = chance.choice(values.NAMESPACES) if chance.random() < 0.95 else values.name(chance)
    name = values.name(chance)
    everywhere = method == "GET" and chance.random() < 0.2
    path, query = collection(resource, "" if everywhere else namespace), dict[str, str]()
    is_one = method in ("PUT", "PATCH") or (method in ("GET", "DELETE") and chance.random() < 0.75)
    if is_one:
        path += f"/{_quoted(name)}"
    if chance.random() < 0.15:
        more = (*resource.subresources, *_SUBRESOURCES) if chance.random() < 0.8 else _SUBRESOURCES_MORE
        path += f"{'' if is_one else f'/{_quoted(name)}'}/{chance.choice(more)}"
    if "/proxy" in path:
        path += f"/{_quoted(chance.choice(values.TEXTS[:40]))}"
    if kind.resource.kind in ONLY_TRIED or (method == "DELETE" and (not is_one or name == values.NAMES[0])):
        query["dryRun"] = "All"
    if method == "GET" and not is_one and chance.random() < 0.2:
        query |= {"watch": chance.choice(("true", "1", "x")), "timeoutSeconds": "1"}
    if method == "PATCH":
        query |= {"fieldManager": "fuzz"} if chance.random() < 0.9 else {}
        media, body = bodies.patch(chance, kind, namespace, name)
    elif method in ("POST", "PUT"):
        media, body = bodies.encoded(chance, bodies.document(chance, kind, namespace, name))
    elif method == "DELETE" and chance.random() < 0.5:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}, "gracePeriodSeconds": 0}
        media, body = bodies.encoded(chance, values.bent(chance, options, 2))
    else:
        return path, query, {}, None
    media = media if chance.random() < 0.97 else chance.choice((*bodies.ODD_TYPES, *bodies.PATCHES))
    return path, query, {"Content-Type": media}, body


def collection(resource: Resource, namespace: str) -> str:
    """Return the URL of a collection; namespace "" is all namespaces."""
    root = f"/apis/{resource.api_version}" if resource.group else "/api/v1"
    inside = f"/namespaces/{_quoted(namespace)}" if resource.namespaced and namespace else ""
    return f"{root}{inside}/{resource.plural}"


def _virtual(chance: random.Random, method: str) -> tuple[str, dict[str, str], dict[str, str], bytes | None]:
    path = chance.choice(VIRTUAL)
    if chance.random() < 0.4:
        path += f"/{_quoted(values.name(chance))}"
    if method not in ("POST", "PUT", "PATCH"):
        return path, {}, {}, None
    attributes = {"verb": "get", "resource": "pods", "namespace": "fuzz-a", "group": "", "name": "one"}
    spec = {
        "resourceAttributes": attributes,
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "eva",
        "groups": ["team"],
        "extra": {"a": ["b"]},
        "namespace": "fuzz-a",
        "token": "x",
        "clusters": ["one"],
        "failed": ["one"],
        "operation": "GetReplicas",
    }
    content = values.bent(chance, {"apiVersion": "v1", "kind": "X", "metadata": {"name": "one"}, "spec": spec}, 3)
    if path.count("/") > 2 and chance.random() < 0.8:
        _, group, version, *_ = path.removeprefix("/").split("/")
        content = {**content, "apiVersion": f"{group}/{version}"}
        content.pop("kind", None)
    media, body = bodies.encoded(chance, content)
    return path, {}, {"Content-Type": media}, body


def _query(chance: random.Random) -> dict[str, str]:
    chosen = chance.sample(sorted(_QUERY), chance.choice((0, 0, 0, 0, 1, 1, 2)))
    return {name: chance.choice(_QUERY[name]) for name in chosen}


def _describe(chance: random.Random, headers: dict[str, str]) -> None:
    """Add headers that say how the answer shall be, and as whom the request is made."""
    if chance.random() < 0.4:
        headers["Accept"] = chance.choice(ACCEPTS if chance.random() < 0.3 else READABLE)
    if chance.random() < 0.05:
        headers["Impersonate-User"] = chance.choice(
            ("eva", "", "system:serviceaccount:fuzz-a:ci", "ä", "system:anonymous")
        )
        headers[
            chance.choice(("Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-%zz", "Impersonate-Extra-a"))
        ] = "x"
    if chance.random() < 0.05:
        name = chance.choice(
            ("If-Match", "If-None-Match", "If-Modified-Since", "Range", "Accept-Encoding", "Expect", "Cookie")
        )
        headers[name] = chance.choice(
            ('"x"', "*", "W/", "bytes=0-1", "gzip", "x;q=2", "sessionid=x; csrftoken=\\", "{}")
        )
    if chance.random() < 0.02:
        name = chance.choice(
            ("X-Forwarded-For", "X-Forwarded-Proto", "Host", "Authorization", "traceparent", "X-Request-Id")
        )
        headers[name] = chance.choice(
            ("x", "127.0.0.1", "Bearer", "Basic eDp5", "Bearer x.y.z", "Bearer \xff", "00-0-0-0")
        )
    if chance.random() < 0.02:
        headers["Content-Type"] = chance.choice(bodies.ODD_TYPES)


def _url(chance: random.Random, path: str, query: dict[str, str]) -> str:
    if chance.random() < 0.01:
        text = quote(chance.choice(values.TEXTS), safe="&=%", errors="surrogatepass")[:2000]
        return f"{path}?{text.replace('%', '%' * chance.randint(1, 2))}"
    return f"{path}?{urlencode(query, errors='surrogatepass')}" if query else path


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")

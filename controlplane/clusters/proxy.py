"""The proxy to members: which request a member gets for the request of a caller, and which answer the caller gets
[proxy-to-members].

The member sees the token of the cluster's impersonator and the name of the caller. It never sees credentials of the
caller. A browser gets answers of members in a sandbox, because they come from the control plane's own address.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import BadRequest
from controlplane.authorization.attributes import AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED, Caller
from controlplane.clusters.questions import Target, endpoint_of
from controlplane.kinds.cluster import PULL, Cluster

Header = tuple[str, str]

_PATH = re.compile(r"/apis/cluster\.karmada\.io/v1alpha1/clusters/(?P<cluster>[^/]+)/proxy(?P<path>/.*)?", re.DOTALL)
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_NOT_MODIFIED: Final = 304
_HOP_BY_HOP: Final = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    ]
)
_OF_THE_CALLER: Final = frozenset(
    ("authorization", "cookie", "host", "content-length", "forwarded", "origin", "referer", "x-csrftoken", "via")
)
_PREFIXES_OF_THE_CALLER: Final = (
    "impersonate-",
    "x-remote-",
    "x-forwarded-",
    "sec-fetch-",
    "cf-",
    "x-real-",
    "x-ssl-",
    "ssl-",
)
_WEBSOCKET_TOKEN: Final = "base64url.bearer.authorization.k8s.io."  # a bearer token, as browsers send it to Kubernetes

# Headers of an answer that have no effect on the control plane's address in a browser, nor on a proxy before it.
_RETURNED: Final = frozenset(
    [
        "accept-ranges",
        "age",
        "allow",
        "audit-id",
        "cache-control",
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
        "deprecation",
        "etag",
        "expires",
        "last-modified",
        "retry-after",
        "vary",
        "warning",
        "x-stream-protocol-version",
    ]
)
_RETURNED_PREFIXES: Final = ("x-kubernetes-", "sec-websocket-")
_SANDBOX: Final[tuple[Header, ...]] = (
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
    ("cross-origin-resource-policy", "same-origin"),
)
_SHOWN: Final = frozenset(("application/json", "application/yaml", "text/plain"))  # types that a browser shows as text


def parsed(raw_path: str) -> tuple[str, str] | None:
    """Return the cluster and the path on the member that a URL path names, still percent-encoded.

    None: it is not a path of the proxy.
    """
    found = _PATH.fullmatch(raw_path)
    return None if found is None else (found["cluster"], found["path"] or "/")


def check_path(path: str) -> None:
    """Raise BadRequest for a path with `.` or `..`: it could leave the path of the member's apiEndpoint."""
    if any(_DOTS.fullmatch(segment) for segment in re.split(r"/|%2f|\\|%5c", path, flags=re.IGNORECASE)):
        raise BadRequest('the path on the member contains "." or "..": write it without them')


def target(cluster: Cluster, secret: Any, impersonator: Any) -> Target:
    """Return how to reach a member with the token of its impersonator.

    `secret`, `impersonator`: the Secrets of spec.secretRef and spec.impersonatorSecretRef; None: there is none. Raises
    BadRequest with the reason and the way out if the member cannot be reached in this way. The credentials of secretRef
    are never used for requests of users.
    """
    name, spec = cluster.metadata.name, cluster.spec
    if spec.sync_mode == PULL:
        raise BadRequest(
            f"cluster {name} is joined with spec.syncMode Pull: its agent connects to the control plane, and the "
            "control plane cannot connect to it. Use a kubeconfig of the cluster itself"
        )
    if not spec.api_endpoint:
        raise BadRequest(
            f"cluster {name} has no spec.apiEndpoint, so it cannot be called: kubectl edit clusters {name}"
        )
    again = f"join it again: manage.py join {name} --kubeconfig FILE"
    if spec.impersonator_secret_ref is None:
        raise BadRequest(f"cluster {name} has no spec.impersonatorSecretRef, which requests of users need; {again}")
    place = f"{spec.impersonator_secret_ref.namespace}/{spec.impersonator_secret_ref.name}"
    if impersonator is None:
        raise BadRequest(f"the Secret {place} of spec.impersonatorSecretRef of cluster {name} does not exist; {again}")
    reached, own = endpoint_of(cluster, secret), endpoint_of(cluster, impersonator)
    if not own.token:
        raise BadRequest(
            f"the Secret {place} of spec.impersonatorSecretRef of cluster {name} has no token that can be read; {again}"
        )
    return replace(own, ca=own.ca or reached.ca)


def impersonation(caller: Caller, granted: Collection[str]) -> list[Header]:
    """Return the headers with which the impersonator acts as the caller.

    `granted`: the groups that the impersonator may use in the member; other groups of the caller are left out. The
    member adds the groups of ServiceAccounts and system:authenticated itself.
    """
    headers = [("Impersonate-User", caller.name)]
    if not caller.name.startswith(SERVICE_ACCOUNT):
        named = (group for group in caller.groups if group not in (AUTHENTICATED, UNAUTHENTICATED))
        headers += [("Impersonate-Group", group) for group in named if group in granted]
    if caller.uid:
        headers.append(("Impersonate-Uid", caller.uid))
    for key, values in caller.extra.items():
        headers += [(f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    return headers


def forwarded(headers: Iterable[Header]) -> Iterator[Header]:
    """Yield the headers of a request that the member gets. Names are in lower case.

    Left out are credentials of the caller, headers of the connection, and what proxies before the control plane added.
    A name with an underscore is left out, because some servers read it as one with a hyphen.
    """
    given = list(headers)
    dropped = _HOP_BY_HOP | _OF_THE_CALLER | _listed(given)
    for name, value in given:
        if name in dropped or name.startswith(_PREFIXES_OF_THE_CALLER) or "_" in name:
            continue
        if name == "sec-websocket-protocol":
            value = ", ".join(word for word in _words(value) if not word.startswith(_WEBSOCKET_TOKEN))
            if not value:
                continue
        yield name, value


def returned(headers: Iterable[Header], *, status: int = 200) -> list[Header]:
    """Return the headers of a member's answer that the caller gets, and those that keep a browser safe.

    A page of a member would have the control plane's own address. It is therefore sandboxed, its type is not guessed,
    and a browser saves everything that is not plain text or data. A 304 without a content type stays so, because a
    client's cache copies the headers of a 304 over those of the answer that it keeps.
    """
    given = [(name.lower(), value) for name, value in headers if not _CONTROL.search(value)]
    kept = [(name, value) for name, value in given if name in _RETURNED or name.startswith(_RETURNED_PREFIXES)]
    type_ = next((value for name, value in kept if name == "content-type"), "")
    if not type_ and status == _NOT_MODIFIED:
        return [*kept, *_SANDBOX]
    if not type_:
        kept.append(("content-type", "application/octet-stream"))
    shown = type_.partition(";")[0].strip().lower() in _SHOWN
    return [*kept, *_SANDBOX, ("content-disposition", "inline" if shown else "attachment")]


def upgrade(headers: Iterable[Header]) -> str:
    """Return the protocol to which a request or an answer switches its connection; "": none."""
    given = list(headers)
    protocol = next((value for name, value in given if name.lower() == "upgrade"), "")
    return protocol if "upgrade" in _listed(given) else ""


def _listed(headers: Iterable[Header]) -> set[str]:
    """Return the words of the header Connection: the names of headers that concern only this connection."""
    return {word.lower() for name, value in headers if name.lower() == "connection" for word in _words(value)}


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def _escaped(key: str) -> str:
    """Return the key of an extra value as a part of a header's name: percent-encoded, except letters and digits."""
    parts = (chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in key.encode())
    return "".join(parts)

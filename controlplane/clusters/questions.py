"""What may be asked of a member cluster and what it answers: the outside world as data.

A controller that deals with members returns a question per snapshot; whoever holds the connections (the `members`
process over HTTP, the simulator in memory) answers it; `decide` then sees the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, overload

import msgspec

from controlplane import interpret
from controlplane.apimachinery.base64 import decoded

FIELD_MANAGER = "lifeboat"
NOT_OURS = "NotOurs"  # reason of an answer: an object of that name exists and does not carry our mark
REMOVING = 202  # code of the answer to a Discard whose object the member is still deleting


class Target(msgspec.Struct, frozen=True, gc=False):
    """How a member is reached. The token is a secret: it has no place in text of any kind."""

    cluster: str
    endpoint: str
    token: str = ""
    ca: str = ""  # PEM
    insecure: bool = False
    proxy: str = ""
    proxy_headers: dict[str, str] = {}  # what the proxy is told besides, when a connection is asked for

    def __repr__(self) -> str:
        return f"Target({self.cluster} at {self.endpoint})"


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Is the member ready? GET /readyz, on 404 /healthz (semantics 2.1); no answer within `seconds` is one too."""

    target: Target
    seconds: float = 10.0


class Collect(msgspec.Struct, frozen=True, gc=False):
    """Read version, APIs, nodes and pods."""

    target: Target
    resources: bool  # False: nodes and pods are not read at all (D16)


class Packed(Sequence[dict[str, Any]]):
    """Objects of a list, kept as JSON until they are looked at: a tenth of the memory."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(msgspec.json.decode, self.texts)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Packed: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Packed:
        if isinstance(index, slice):
            return Packed(self.texts[index])
        found: dict[str, Any] = msgspec.json.decode(self.texts[index])
        return found


class Ensure(msgspec.Struct, frozen=True, gc=False):
    """Bring an object to the member. `overwrite`: also over one that is not ours."""

    target: Target
    manifest: dict[str, Any]
    overwrite: bool

    @property
    def looks_first(self) -> bool:
        """Test whether what the member holds decides what it is sent."""
        return not self.overwrite or self._rule is not None

    def over(self, held: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest with what the member itself decided about the object it holds (semantics 2.10, 4)."""
        return self.manifest if self._rule is None else self._rule(self.manifest, held)

    @property
    def _rule(self) -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None:
        return interpret.interpreter_for(self.manifest.get("apiVersion", ""), self.manifest.get("kind", "")).retain


class Discard(msgspec.Struct, frozen=True, gc=False):
    """Delete an object of ours from the member; `release` only strips our marks and leaves it there."""

    target: Target
    manifest: dict[str, Any]
    release: bool = False


class Observe(msgspec.Struct, frozen=True, gc=False):
    """What does the member hold of this manifest now? Answered from the watch cache."""

    cluster: str
    manifest: dict[str, Any]


Question = Probe | Collect | Ensure | Discard | Observe


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A member's answer.

    `code`: HTTP status, 0 when there was none (refused, timed out, TLS). `problem` says what went wrong, for people and
    never with a secret. `access`: the member is there but does not let us in (401, 403, TLS, our own fault; D22), and
    `reason` is why, where more is known than that we are refused. `note`: what a person should know of a good answer.
    `exceeded`: the limit that the member exceeded, with this answer or with a watch since the last Collect.
    """

    code: int
    body: Any = None
    problem: str = ""
    access: bool = False
    reason: str = ""
    exceeded: str = ""
    at: datetime | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300


def endpoint_of(cluster: Any, secret: Any) -> Target:
    """Return how a Cluster is reached, with the credentials of its Secret (None: it has none)."""
    data = {} if secret is None else secret.content.get("data", {})
    return Target(
        cluster=cluster.metadata.name,
        endpoint=cluster.spec.api_endpoint,
        token=_plain(data.get("token", "")),
        ca=_plain(data.get("caBundle", "")),
        insecure=cluster.spec.insecure_skip_tls_verification,
        proxy=cluster.spec.proxy_url,
        proxy_headers=cluster.spec.proxy_header,
    )


def _plain(encoded: str) -> str:
    try:
        return decoded(encoded).decode()
    except ValueError:
        return ""

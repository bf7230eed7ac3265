"""Questions to member clusters and their answers, as data.

A controller that works with members returns a question for each snapshot. The `members` process answers it over HTTP,
and the simulator answers it in memory. The answer is an input of the controller's `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, overload

import msgspec

from controlplane import interpret
from controlplane.apimachinery.base64 import decoded
from controlplane.apimachinery.names import OUR_PREFIXES
from controlplane.interpret import retain

FIELD_MANAGER = "lifeboat"
NOT_OURS = "NotOurs"  # reason of an answer: an object of that name exists and is not managed by this control plane
NOT_FOUND = "NotFound"  # reason of an answer 404: the API server says that it has no such object or kind
SAME, MARKS, DIFFERENT, MISSING = "Same", "Marks", "Different", "Missing"  # reasons of the answer to a Compare
REMOVING = 202  # code of the answer to a Discard whose object the member is still deleting


class Target(msgspec.Struct, frozen=True, gc=False):
    """How to reach a member. `token` is secret and must never appear in a message or a log.

    `certificate`: the path of a PEM file with a client certificate and its private key; "": there is none.
    """

    cluster: str
    endpoint: str
    token: str = ""
    ca: str = ""  # PEM
    insecure: bool = False
    proxy: str = ""
    proxy_headers: dict[str, str] = {}  # sent to the proxy with a CONNECT request
    certificate: str = ""

    def __repr__(self) -> str:
        return f"Target({self.cluster} at {self.endpoint})"


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Ask whether the member is ready: GET /readyz, and /healthz after a 404. No answer within `seconds` is an answer
    too."""

    target: Target
    seconds: float = 10.0


class Collect(msgspec.Struct, frozen=True, gc=False):
    """Read the version, the APIs, the nodes, the pods and the ResourceQuotas of a member."""

    target: Target
    resources: bool  # False: nodes and pods are not read [resource-models]
    quotas: bool = False  # False: ResourceQuotas are not read
    single_nodes: bool = False  # False: labels and taints of nodes are not kept [node-estimate]


class Packed(Sequence[dict[str, Any]]):
    """The objects of a list as JSON texts. They are decoded one by one when they are read, which saves much memory."""

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


def retaining(manifest: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the fields that a member itself sets on its object (`held`) [resource-interpreter]."""
    rule = _retains(manifest)
    return manifest if rule is None else _marked(rule(manifest, held), manifest)


def _marked(kept: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the marks of the control plane that its manifest has, whatever a rule of a user made of
    them.

    Without them the object could be neither updated nor removed later.
    """
    metadata, wanted = kept.get("metadata") or {}, manifest.get("metadata") or {}
    parts = {part: metadata.get(part) for part in ("labels", "annotations")}
    marked = {
        part: {**(found if isinstance(found, dict) else {}), **ours}
        for part, found in parts.items()
        if (ours := {name: text for name, text in (wanted.get(part) or {}).items() if name.startswith(OUR_PREFIXES)})
    }
    if all(parts[part] == whole for part, whole in marked.items()):
        return kept
    return {**kept, "metadata": {**metadata, **marked}}


def _retains(manifest: dict[str, Any]) -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None:
    """Return the rule for the fields that a member itself sets; None: there are none.

    An object of a kind without a rule keeps its replicas if its label leaves them to the member [scaled-workloads].
    """
    rule = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).retain
    return retain.replicas if rule is None and retain.leaves_replicas(manifest) else rule


class Ensure(msgspec.Struct, frozen=True, gc=False):
    """Create or update an object on the member. `overwrite`: also if the object there is not managed by us."""

    target: Target
    manifest: dict[str, Any]
    overwrite: bool

    @property
    def looks_first(self) -> bool:
        """Test whether the member's object has to be read before the manifest is sent."""
        return not self.overwrite or _retains(self.manifest) is not None

    def over(self, held: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest with the fields that the member itself sets on its object (`held`)
        [resource-interpreter]."""
        return retaining(self.manifest, held)


class Compare(msgspec.Struct, frozen=True, gc=False):
    """Ask what an Ensure would change on the member, without changing it [observed-clusters].

    The note of the answer describes it; the reason is one of SAME, MARKS, DIFFERENT and MISSING.
    """

    ensure: Ensure

    @property
    def target(self) -> Target:
        return self.ensure.target


class Discard(msgspec.Struct, frozen=True, gc=False):
    """Delete an object that we manage from the member. `release`: keep it there, without our labels."""

    target: Target
    manifest: dict[str, Any]
    release: bool = False


class Observe(msgspec.Struct, frozen=True, gc=False):
    """Read the member's object of this manifest from the watch cache.

    `asks`: if the object differs from the manifest, the member may be asked whether an apply would change it.
    """

    cluster: str
    manifest: dict[str, Any]
    asks: bool = False


Question = Probe | Collect | Ensure | Compare | Discard | Observe


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A member's answer.

    `code`: the HTTP status; 0: there was none (connection refused, timeout, TLS). `problem`: the error in words,
    without secrets. `access`: the member answers but refuses access (401, 403, TLS) [lost-access]; `reason` then says
    why, as far as that is known. `note`: what a user should know although the answer is a success. `exceeded`: the
    limit that the member exceeded, with this answer or with a watch since the last Collect. `drift`: how the observed
    object differs from its manifest, in words [member-drift]. `unchanged`: an apply changed nothing on the member.
    """

    code: int
    body: Any = None
    problem: str = ""
    access: bool = False
    reason: str = ""
    exceeded: str = ""
    at: datetime | None = None
    note: str = ""
    drift: str = ""
    unchanged: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300


def endpoint_of(cluster: Any, secret: Any) -> Target:
    """Return how to reach the member of a Cluster, with the credentials of its Secret (None: it has no Secret)."""
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

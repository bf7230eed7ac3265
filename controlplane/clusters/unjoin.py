"""Unjoining: a Cluster that is being deleted stays until nothing of ours is left on it (D20, semantics 2.13).

Bindings leave first: by a Drain, or through the eviction queue where `compat.terminating_taint` asks for that. Until
then a deletion is refused, unless its user has said in the annotation `failover.lifeboat.io/unjoin` what becomes of
what runs there: `keep` lets it go on without us, `delete` removes it. With the Cluster goes the Secret that joining it
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import CREDENTIALS_ANNOTATION, UNJOIN_ANNOTATION
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, CLUSTER, KINDS
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.cluster.rules import UNJOIN_DELETE, UNJOIN_KEEP
from controlplane.kinds.template import Template
from controlplane.settings import Settings

SHOWN: Final = 5  # bindings named where a cluster is not empty


def forced(cluster: Cluster) -> bool:
    """Test whether the cluster goes although bindings are placed on it."""
    return cluster.metadata.annotations.get(UNJOIN_ANNOTATION) in (UNJOIN_KEEP, UNJOIN_DELETE)


def keeps(cluster: Cluster) -> bool:
    """Test whether what runs on the cluster goes on there when it leaves."""
    return cluster.metadata.annotations.get(UNJOIN_ANNOTATION) == UNJOIN_KEEP


def evicts(settings: Settings) -> bool:
    """Test whether a deleted cluster is emptied through the eviction queue (D20)."""
    return settings.compat.terminating_taint and settings.gate("Failover")


def placed_on(state: State, cluster: str) -> list[Ref]:
    """Return the first bindings that have a copy on a cluster, or are about to leave it."""
    return [ref for kind in BINDINGS for ref in state.refs_by_index(kind, "placed", cluster, limit=SHOWN)]


def named(bindings: Sequence[Ref]) -> str:
    """Return bindings as a message names them."""
    shown = ", ".join(f"{ref.namespace}/{ref.name}".lstrip("/") for ref in bindings[:SHOWN])
    return f"{shown}, …" if len(bindings) >= SHOWN else shown


def credentials(cluster: Cluster, secret: Template | None, others: Iterable[Cluster]) -> Template | None:
    """Return the Secret to delete with a cluster: the Secret that joining made; None if it has to stay.

    The annotation alone proves nothing, because everybody who may write Secrets may write it. The Cluster has to name
    the Secret as well, and no other Cluster may name it.
    """
    if secret is None or secret.metadata.annotations.get(CREDENTIALS_ANNOTATION) != cluster.metadata.name:
        return None
    place = (secret.metadata.namespace, secret.metadata.name)
    if place not in _secrets(cluster):
        return None
    used = {ref for one in others if one.ref != cluster.ref for ref in _secrets(one)}
    return None if place in used else secret


def _secrets(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for ref in (cluster.spec.secret_ref, cluster.spec.impersonator_secret_ref):
        if ref is not None:
            yield ref.namespace, ref.name


def check(state: State, objects: Iterable[Object], settings: Settings) -> None:
    """Raise Conflict where one of the objects to delete is a Cluster with bindings on it and nobody has said what
    becomes of them. Two queries for any number of clusters, besides those that say why not."""
    asked = [one for one in objects if isinstance(one, Cluster) and not one.terminating and not forced(one)]
    if not asked or evicts(settings):
        return
    names = [one.metadata.name for one in asked]
    left = {ref for kind in BINDINGS for ref in state.refs_by_index(kind, "placed", names, limit=SHOWN)}
    if not left:
        return
    bindings: dict[Ref, Binding] = state.get(sorted(left))
    resource = KINDS[CLUSTER].resource
    for name in names:
        here = [ref for ref, one in bindings.items() if one.spec.target(name) or one.spec.task(name)]
        if here:
            raise Conflict.of(resource.plural, name, group=resource.group, why=_refusal(here, settings))


def _refusal(here: Sequence[Ref], settings: Settings) -> str:
    queue = ""
    if settings.compat.terminating_taint:
        queue = "; compat.terminating_taint would empty it through the eviction queue, but the gate Failover is closed"
    return (
        f"bindings are still placed on it ({named(here)}): empty it with a Drain first, or annotate it with "
        f"{UNJOIN_ANNOTATION}: {UNJOIN_KEEP} to leave what runs there behind, {UNJOIN_DELETE} to remove it{queue}"
    )

"""Unjoining: the deletion of a Cluster, which ends when nothing that we manage is left on the member
[unjoin-and-drain] [cluster-deletion].

The bindings have to be moved first: by a Drain, or by the eviction queue with `compat.terminating_taint`. Until then
the deletion is refused, unless the annotation `failover.lifeboat.io/unjoin` of the Cluster says what happens to the
copies: `keep` leaves them running on the member, `delete` removes them. The Secret that joining made is deleted with
the Cluster.
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

SHOWN: Final = 5  # how many bindings a refusal lists


def forced(cluster: Cluster) -> bool:
    """Test whether the cluster may be deleted although bindings are placed on it."""
    return cluster.metadata.annotations.get(UNJOIN_ANNOTATION) in (UNJOIN_KEEP, UNJOIN_DELETE)


def keeps(cluster: Cluster) -> bool:
    """Test whether the copies on the member are left running when the cluster is unjoined."""
    return cluster.metadata.annotations.get(UNJOIN_ANNOTATION) == UNJOIN_KEEP


def evicts(settings: Settings) -> bool:
    """Test whether the eviction queue empties a deleted cluster [unjoin-and-drain]."""
    return settings.compat.terminating_taint and settings.gate("Failover")


def placed_on(state: State, cluster: str) -> list[Ref]:
    """Return references of bindings with a target or eviction task on a cluster: at most SHOWN + 1 of a kind."""
    return [ref for kind in BINDINGS for ref in state.refs_by_index(kind, "placed", cluster, limit=SHOWN + 1)]


def named(bindings: Sequence[Ref]) -> str:
    """Return the names of bindings for a message, at most SHOWN."""
    shown = ", ".join(f"{ref.namespace}/{ref.name}".lstrip("/") for ref in bindings[:SHOWN])
    return f"{shown}, …" if len(bindings) > SHOWN else shown


def credentials(cluster: Cluster, secrets: Iterable[Template], others: Iterable[Cluster]) -> tuple[Template, ...]:
    """Return the Secrets to delete with a cluster: those that joining made and that do not have to stay.

    The annotation of a Secret alone is no proof, because every user who may write Secrets may write it. The Cluster
    has to refer to the Secret too, and no other Cluster may refer to it. All stay while another Cluster cannot be read.
    """
    others = tuple(others)
    if any(other.unreadable for other in others):
        return ()
    used = {ref for other in others if other.ref != cluster.ref for ref in _secrets(other)}
    wanted = {*_secrets(cluster)} - used
    return tuple(
        secret
        for secret in secrets
        if secret.metadata.annotations.get(CREDENTIALS_ANNOTATION) == cluster.metadata.name
        and (secret.metadata.namespace, secret.metadata.name) in wanted
    )


def _secrets(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for ref in (cluster.spec.secret_ref, cluster.spec.impersonator_secret_ref):
        if ref is not None:
            yield ref.namespace, ref.name


def check(state: State, objects: Iterable[Object], settings: Settings) -> None:
    """Raise Conflict if one of the objects to delete is a Cluster with bindings, without the annotation that allows it.

    This takes two queries for any number of clusters, and more only for the message of a refusal.
    """
    clusters = [each for each in objects if isinstance(each, Cluster) and not each.terminating and not forced(each)]
    if not clusters or evicts(settings):
        return
    names = [cluster.metadata.name for cluster in clusters]
    placed = {ref for kind in BINDINGS for ref in state.refs_by_index(kind, "placed", names, limit=SHOWN + 1)}
    if not placed:
        return
    bindings: dict[Ref, Binding] = state.get(sorted(placed))
    resource = KINDS[CLUSTER].resource
    for name in names:
        here = [ref for ref, binding in bindings.items() if binding.spec.target(name) or binding.spec.task(name)]
        if here:
            raise Conflict.of(resource.plural, name, group=resource.group, why=_refusal(here, settings))


def _refusal(here: Sequence[Ref], settings: Settings) -> str:
    queue = ""
    if settings.compat.terminating_taint:
        queue = "; compat.terminating_taint has no effect while the feature gate Failover is off"
    return (
        f"bindings are still placed on it ({named(here)}): empty it with a Drain first, or annotate it with "
        f"{UNJOIN_ANNOTATION}={UNJOIN_KEEP} to leave its copies running, or ={UNJOIN_DELETE} to delete them{queue}"
    )

"""What the deletion of one object takes along, as sentences for the page that asks before it."""

from __future__ import annotations

from apps.objects.store import DjangoStore
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import cluster_of_execution_namespace
from controlplane.kind import Kind
from controlplane.propagation import bindings

COUNTED = 1000  # bindings
NAMED = 10  # clusters


def goes_along(reading: DjangoStore, kind: Kind, ref: Ref) -> list[str]:
    """Return what goes with an object. At most three queries."""
    if ref.kind == kinds.CLUSTER:
        return _of_cluster(reading, ref.name)
    if ref.kind in kinds.POLICIES:
        found = [one for key in kinds.BINDINGS for one in _indexed(reading, key, "policy", str(ref))]
        return [f"{_counted(len(found))} placed by this policy lose it; what runs stays until another policy matches"]
    if ref.kind == kinds.WORK:
        cluster = cluster_of_execution_namespace(ref.namespace)
        return [f"the object of this Work on cluster {cluster}"] if cluster else []
    if ref.kind in kinds.BINDINGS:
        return _of_binding(reading, ref)
    if kind.resource.group.endswith((".lifeboat.io", "karmada.io")):
        return []
    own = bindings.binding_ref(ref)
    return [f"the binding {own.name}", *_of_binding(reading, own)] if reading.get([own]) else []


def _of_cluster(reading: DjangoStore, name: str) -> list[str]:
    placed = sum(len(_indexed(reading, key, "placed", name)) for key in kinds.BINDINGS)
    if not placed:
        return ["the membership of the cluster; no binding is placed there"]
    return [
        f"{_counted(placed)} placed on this cluster: the deletion is refused as long as there are any (Drain empties "
        "a cluster; the annotation failover.lifeboat.io/unjoin: keep leaves behind what runs there)"
    ]


def _of_binding(reading: DjangoStore, ref: Ref) -> list[str]:
    works = reading.by_index(kinds.WORK, "binding", [str(ref)]).get(str(ref), ())
    names = sorted({work.cluster for work in works if work.cluster})
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"{len(works)} Works, and with them the copies on {', '.join(names[:NAMED])}{more}"]


def _indexed(reading: DjangoStore, kind: str, index: str, value: str) -> list[Ref]:
    return list(reading.refs_by_index(kind, index, value, limit=COUNTED))


def _counted(number: int) -> str:
    return f"{number} or more bindings" if number >= COUNTED else f"{number} bindings"

"""Effects of a deletion: the sentences that the browsable API shows before it deletes an object."""

from __future__ import annotations

from apps.objects.store import DjangoStore
from apps.objects.tallies import bindings_on
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import cluster_of_execution_namespace, is_execution_namespace
from controlplane.kind import Kind
from controlplane.propagation import bindings

MAX_COUNTED = 1000  # bindings
MAX_NAMED = 10  # clusters


def deletion_effects(store: DjangoStore, kind: Kind, ref: Ref) -> list[str]:
    """Return what the deletion of an object also removes or changes. At most three queries."""
    if ref.kind == kinds.CLUSTER:
        return _of_cluster(ref.name)
    if ref.kind in kinds.POLICIES:
        count = sum(len(_indexed(store, key, "policy", str(ref))) for key in kinds.BINDINGS)
        return [f"{_counted(count)} placed by this policy: their copies keep running until another policy matches"]
    if ref.kind == kinds.WORK:
        if not is_execution_namespace(ref.namespace):
            return []  # no cluster reads the Works of other namespaces
        cluster = cluster_of_execution_namespace(ref.namespace)
        return [f"the object that this Work describes, on cluster {cluster}"]
    if ref.kind in kinds.BINDINGS:
        return _of_binding(store, ref)
    if kind.resource.group.endswith((".lifeboat.io", "karmada.io")):
        return []
    binding = bindings.binding_ref(ref)
    return [f"the binding {binding.name}", *_of_binding(store, binding)] if store.get([binding]) else []


def _of_cluster(name: str) -> list[str]:
    count = bindings_on(name)
    if not count:
        return ["the membership of the cluster; no binding is placed on it"]
    return [
        f"{_counted(count)} placed on this cluster: the deletion is refused while any binding is placed on it. A Drain "
        "empties the cluster. The annotation failover.lifeboat.io/unjoin: keep allows the deletion and leaves the "
        "copies running on the cluster"
    ]


def _of_binding(store: DjangoStore, ref: Ref) -> list[str]:
    works = store.by_index(kinds.WORK, "binding", [str(ref)]).get(str(ref), ())
    clusters = sorted({work.cluster for work in works if work.cluster})
    if not clusters:
        return []
    more = f" and {len(clusters) - MAX_NAMED} more" if len(clusters) > MAX_NAMED else ""
    return [f"{len(works)} Works, and with them the copies on {', '.join(clusters[:MAX_NAMED])}{more}"]


def _indexed(store: DjangoStore, kind: str, index: str, value: str) -> list[Ref]:
    return list(store.refs_by_index(kind, index, value, limit=MAX_COUNTED))


def _counted(count: int) -> str:
    if count == 1:
        return "1 binding"
    return f"{count} or more bindings" if count >= MAX_COUNTED else f"{count} bindings"

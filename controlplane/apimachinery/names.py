"""How derived objects are called, and every label, annotation and finalizer the product writes (semantics 1.7)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

# Namespaces and finalizers of the original are kept: manifests, scripts and member objects carry them already.
EXECUTION_NAMESPACE_PREFIX: Final = "karmada-es-"
SYSTEM_NAMESPACE: Final = "karmada-system"
CLUSTER_NAMESPACE: Final = "karmada-cluster"
KUBE_SYSTEM_NAMESPACE: Final = "kube-system"  # of bootstrap tokens; members have one of their own
"""Holds the credentials and heartbeat Leases of clusters."""

# Permanent ids: copied from policy to binding, from binding to Work and manifest, and used to find them again.
PROPAGATION_POLICY_ID_LABEL: Final = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_PROPAGATION_POLICY_ID_LABEL: Final = "clusterpropagationpolicy.karmada.io/permanent-id"
RESOURCE_BINDING_ID_LABEL: Final = "resourcebinding.karmada.io/permanent-id"
CLUSTER_RESOURCE_BINDING_ID_LABEL: Final = "clusterresourcebinding.karmada.io/permanent-id"
WORK_ID_LABEL: Final = "work.karmada.io/permanent-id"

# Claims: which policy a template and its binding belong to.
PROPAGATION_POLICY_NAMESPACE_ANNOTATION: Final = "propagationpolicy.karmada.io/namespace"
PROPAGATION_POLICY_NAME_ANNOTATION: Final = "propagationpolicy.karmada.io/name"
CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: Final = "clusterpropagationpolicy.karmada.io/name"

DEPENDENCIES_ANNOTATION: Final = "resourcebinding.karmada.io/dependencies"
DEPENDED_BY_LABEL_PREFIX: Final = "resourcebinding.karmada.io/depended-by-"

# On the objects in member clusters.
MANAGED_LABEL: Final = "karmada.io/managed"
MANAGED_LABEL_VALUE: Final = "true"
WORK_NAMESPACE_ANNOTATION: Final = "work.karmada.io/namespace"
WORK_NAME_ANNOTATION: Final = "work.karmada.io/name"
CONFLICT_RESOLUTION_ANNOTATION: Final = "work.karmada.io/conflict-resolution"
TEMPLATE_UID_ANNOTATION: Final = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION_ANNOTATION: Final = "resourcetemplate.karmada.io/generation"
MANAGED_LABELS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-annotations"
RETAIN_REPLICAS_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"
RETAIN_REPLICAS_LABEL_VALUE: Final = "true"

SKIP_AUTO_PROPAGATION_LABEL: Final = "namespace.karmada.io/skip-auto-propagation"
"""On a Namespace: ``true`` keeps it off the member clusters."""

CLUSTER_FINALIZER: Final = "karmada.io/cluster-controller"
WORK_FINALIZER: Final = "karmada.io/execution-controller"
BINDING_FINALIZER: Final = "karmada.io/binding-controller"
CLUSTER_BINDING_FINALIZER: Final = "karmada.io/cluster-resource-binding-controller"
PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/propagation-policy-controller"
CLUSTER_PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/cluster-propagation-policy-controller"
NAMESPACE_CONTENT_FINALIZER: Final = "failover.lifeboat.io/namespace-content"
"""Holds a deleted Namespace until what is in it is gone."""

# Taint keys beside those of a cluster's own condition, which `kinds.cluster` has (D20, semantics 2.3).
TERMINATING_TAINT: Final = "cluster.karmada.io/terminating"
UNSCHEDULABLE_TAINT: Final = "cluster.karmada.io/unschedulable"

DIRECTLY_UNREACHABLE_ANNOTATION: Final = "failover.lifeboat.io/directly-unreachable"
"""On a policy: ``After=<seconds>`` lets a Directly eviction go on although the old cluster is unreachable (D14)."""

FENCE_ANNOTATION: Final = "failover.lifeboat.io/fence"
"""On a Cluster: an operator confirmed that it is down (controlplane/clusters/fence.py)."""

PLACED_BY_HAND_ANNOTATION: Final = "failover.lifeboat.io/placed-by-hand"
"""On a binding: somebody wrote its present placement (controlplane/kinds/manual_placement.py)."""

TOGETHER_ANNOTATION: Final = "failover.lifeboat.io/together"
"""On a policy: whether what it places on exactly one cluster goes to the same one (``true`` or ``false``; without it a
PropagationPolicy's does, a ClusterPropagationPolicy's does not)."""

BEFORE_FAILOVER_ANNOTATION: Final = "failover.lifeboat.io/before-failover"
"""On a binding: where it was before it failed over, and which of that it has left (controlplane/kinds/origin.py)."""

EVICTION_ORDERS_ANNOTATION: Final = "failover.lifeboat.io/eviction-orders"
"""On a binding: the orders given for its evictions: author, time, reason (controlplane/eviction/operator_orders.py)."""

UNJOIN_ANNOTATION: Final = "failover.lifeboat.io/unjoin"
"""On a Cluster: lets it be deleted although bindings are placed on it; what runs there stays (``keep``) or is removed
(``delete``; D20)."""

RECEIVED_ANNOTATION: Final = "failover.lifeboat.io/received-at"
"""On a heartbeat Lease: when its latest renewal was received, by the database's clock (clusters/heartbeats.py)."""

BINDING_ANNOTATION: Final = "work.lifeboat.io/binding"
LEFTOVER_ANNOTATION: Final = "work.lifeboat.io/leftover"
"""On a Work: its copy was let go while its cluster could not be reached (controlplane/eviction/leftovers.py)."""

CREDENTIALS_ANNOTATION: Final = "cluster.lifeboat.io/credentials-of"
"""On a Secret that joining a cluster made: the cluster. It goes when the cluster does (clusters/unjoin.py)."""

REDUCED_ANNOTATION: Final = "work.lifeboat.io/reduced-at"
"""On a Work of a Divided workload: when it was last given fewer replicas (controlplane/eviction/leftovers.py)."""

_SAFE_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


class ForeignNamespace(ValueError):
    """A namespace that is not the execution namespace of any cluster."""


def fnv1a32(text: str) -> int:
    """Return the 32-bit FNV-1a hash of the text's UTF-8 bytes."""
    hashed = _FNV_OFFSET
    for byte in text.encode():
        hashed = ((hashed ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return hashed


def binding_name(kind: str, name: str) -> str:
    """Return the name of the (Cluster)ResourceBinding of an object; colons are not allowed in names and become dots."""
    return _lowered(f"{name.replace(':', '.')}-{kind}")


@lru_cache(maxsize=65_536)
def work_name(kind: str, name: str, namespace: str = "") -> str:
    """Return the name of the Work that carries an object; ``namespace`` is empty for cluster-scoped kinds."""
    name = name.replace(":", ".")
    identity = f"{namespace}-{name}-{kind}" if namespace else f"{name}-{kind}"
    return f"{_lowered(name)}-{safe_hash(_lowered(identity))}"


def _lowered(text: str) -> str:
    """Return a text in small letters, each character for itself: as Go does, whatever stands beside it."""
    return text.lower() if text.isascii() else "".join(character.lower()[0] for character in text)


def safe_hash(text: str) -> str:
    """Return a short hash of a text out of letters and digits that never spell a word."""
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(fnv1a32(text)))


def depended_by_label(namespace: str, name: str) -> str:
    """Return the label an attached binding carries for the binding ``namespace``/``name`` that needs it."""
    return DEPENDED_BY_LABEL_PREFIX + safe_hash(_lowered(f"{namespace}-{name}" if namespace else name))


def execution_namespace(cluster: str) -> str:
    """Return the namespace that holds the Works of a cluster."""
    return EXECUTION_NAMESPACE_PREFIX + cluster


def is_execution_namespace(namespace: str) -> bool:
    return namespace.startswith(EXECUTION_NAMESPACE_PREFIX)


def cluster_of_execution_namespace(namespace: str) -> str:
    """Return the cluster whose Works a namespace holds. Raise ForeignNamespace for any other namespace."""
    if not is_execution_namespace(namespace):
        raise ForeignNamespace(
            f'namespace "{namespace}" holds no Works: those are called {EXECUTION_NAMESPACE_PREFIX}…'
        )
    return namespace[len(EXECUTION_NAMESPACE_PREFIX) :]


def is_reserved_namespace(namespace: str) -> bool:
    """Return whether nothing in this namespace is ever propagated (semantics 1.7)."""
    return namespace in (SYSTEM_NAMESPACE, CLUSTER_NAMESPACE) or is_execution_namespace(namespace)


def derived_service_name(service: str) -> str:
    """Return the Service a ServiceImport stands for in a member cluster."""
    return f"derived-{service}"


def imported_endpoint_slice_name(cluster: str, endpoint_slice: str) -> str:
    """Return what an EndpointSlice that came from ``cluster`` is called elsewhere."""
    return f"imported-{cluster}-{endpoint_slice}"


def service_account_name(cluster: str) -> str:
    """Return the ServiceAccount, made in a member cluster, that the control plane acts as."""
    return f"karmada-{cluster}"


def impersonation_secret_name(cluster: str) -> str:
    """Return the Secret that holds the token used to act in a cluster on behalf of a user."""
    return f"{cluster}-impersonator"

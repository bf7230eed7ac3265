"""Names of derived objects, and every label, annotation and finalizer that the product writes [derived-names]."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

# Namespaces and finalizers are those of Karmada, because existing manifests, scripts and member objects contain them.
EXECUTION_NAMESPACE_PREFIX: Final = "karmada-es-"
SYSTEM_NAMESPACE: Final = "karmada-system"
CLUSTER_NAMESPACE: Final = "karmada-cluster"
"""Contains the credentials and the heartbeat Leases of clusters."""
IMPERSONATOR: Final = "karmada-impersonator"
"""The ServiceAccount, ClusterRole and ClusterRoleBinding in members with which requests of users are sent."""
KUBE_SYSTEM_NAMESPACE: Final = "kube-system"  # contains the bootstrap tokens
KUBE_PUBLIC_NAMESPACE: Final = "kube-public"  # contains what everyone may read: the address of the API

# Permanent ids. A policy's id is copied to its bindings, a binding's id to its Works and manifests, to find them.
PROPAGATION_POLICY_ID_LABEL: Final = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_PROPAGATION_POLICY_ID_LABEL: Final = "clusterpropagationpolicy.karmada.io/permanent-id"
RESOURCE_BINDING_ID_LABEL: Final = "resourcebinding.karmada.io/permanent-id"
CLUSTER_RESOURCE_BINDING_ID_LABEL: Final = "clusterresourcebinding.karmada.io/permanent-id"
WORK_ID_LABEL: Final = "work.karmada.io/permanent-id"
QUOTA_NAMESPACE_LABEL: Final = "federatedresourcequota.karmada.io/namespace"
QUOTA_NAME_LABEL: Final = "federatedresourcequota.karmada.io/name"

# Claims: the policy that a template and its binding belong to.
PROPAGATION_POLICY_NAMESPACE_ANNOTATION: Final = "propagationpolicy.karmada.io/namespace"
PROPAGATION_POLICY_NAME_ANNOTATION: Final = "propagationpolicy.karmada.io/name"
CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: Final = "clusterpropagationpolicy.karmada.io/name"

DEPENDENCIES_ANNOTATION: Final = "resourcebinding.karmada.io/dependencies"
DEPENDED_BY_LABEL_PREFIX: Final = "resourcebinding.karmada.io/depended-by-"

# On objects in member clusters.
OUR_PREFIXES: Final = (
    *("karmada.io/", "work.karmada.io/", "resourcetemplate.karmada.io/"),
    *("resourcebinding.karmada.io/", "clusterresourcebinding.karmada.io/"),
    *("propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"),
)
"""Of annotations and labels with which Lifeboat marks an object; they are removed when an object is released."""
MANAGED_LABEL: Final = "karmada.io/managed"
MANAGED_LABEL_VALUE: Final = "true"
WORK_NAMESPACE_ANNOTATION: Final = "work.karmada.io/namespace"
WORK_NAME_ANNOTATION: Final = "work.karmada.io/name"
CONFLICT_RESOLUTION_ANNOTATION: Final = "work.karmada.io/conflict-resolution"
TEMPLATE_UID_ANNOTATION: Final = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION_ANNOTATION: Final = "resourcetemplate.karmada.io/generation"
MANAGED_LABELS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS_ANNOTATION: Final = "resourcetemplate.karmada.io/managed-annotations"
APPLIED_OVERRIDES: Final = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER_OVERRIDES: Final = "policy.karmada.io/applied-cluster-overrides"
DELETION_PROTECTED_LABEL: Final = "resourcetemplate.karmada.io/deletion-protected"
DELETION_PROTECTED: Final = "Always"
RETAIN_REPLICAS_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"
RETAIN_REPLICAS_LABEL_VALUE: Final = "true"

SKIP_AUTO_PROPAGATION_LABEL: Final = "namespace.karmada.io/skip-auto-propagation"
"""On a Namespace: ``true`` means that the Namespace is not created on member clusters."""

CLUSTER_FINALIZER: Final = "karmada.io/cluster-controller"
WORK_FINALIZER: Final = "karmada.io/execution-controller"
BINDING_FINALIZER: Final = "karmada.io/binding-controller"
CLUSTER_BINDING_FINALIZER: Final = "karmada.io/cluster-resource-binding-controller"
PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/propagation-policy-controller"
CLUSTER_PROPAGATION_POLICY_FINALIZER: Final = "karmada.io/cluster-propagation-policy-controller"
NAMESPACE_CONTENT_FINALIZER: Final = "failover.lifeboat.io/namespace-content"
"""Keeps a deleted Namespace until all objects in it are gone."""

# Taint keys. Those of a cluster's condition Ready are in `kinds.cluster` [automatic-taints] [unjoin-and-drain].
TERMINATING_TAINT: Final = "cluster.karmada.io/terminating"
UNSCHEDULABLE_TAINT: Final = "cluster.karmada.io/unschedulable"

DIRECTLY_UNREACHABLE_ANNOTATION: Final = "failover.lifeboat.io/directly-unreachable"
"""On a policy: after ``After=<seconds>`` a Directly eviction continues although its cluster is unreachable
[directly-unreachable]."""

DRIFT_ANNOTATION: Final = "failover.lifeboat.io/drift"
"""On a policy or a template: ``Repair`` puts back what was changed on a member, ``Report`` only reports it
[member-drift]."""

FENCE_ANNOTATION: Final = "failover.lifeboat.io/fence"
"""On a Cluster: an operator confirmed that the cluster is down (controlplane/clusters/fence.py)."""

OBSERVE_ANNOTATION: Final = "failover.lifeboat.io/observe"
"""On a Cluster, "true": the member is read and compared, and never written to [observed-clusters]."""

PLACED_BY_HAND_ANNOTATION: Final = "failover.lifeboat.io/placed-by-hand"
"""On a binding: a user wrote its present targets (controlplane/kinds/binding/manual_placement.py)."""

TOGETHER_ANNOTATION: Final = "failover.lifeboat.io/together"
"""On a policy that places each workload on exactly one cluster: ``true`` places all of them on the same cluster.

Without the annotation it is ``true`` for a PropagationPolicy and ``false`` for a ClusterPropagationPolicy."""

BEFORE_FAILOVER_ANNOTATION: Final = "failover.lifeboat.io/before-failover"
"""On a binding: its targets before its failover, and which of them it has left
(controlplane/kinds/binding/origin.py)."""

EVICTION_ORDERS_ANNOTATION: Final = "failover.lifeboat.io/eviction-orders"
"""On a binding: orders of operators for its evictions, with author, time and reason
(controlplane/eviction/operator_orders.py)."""

UNJOIN_ANNOTATION: Final = "failover.lifeboat.io/unjoin"
"""On a Cluster: allows its deletion while bindings are placed on it. Their copies on it stay (``keep``) or are removed
(``delete``) [unjoin-and-drain]."""

RECEIVED_ANNOTATION: Final = "failover.lifeboat.io/received-at"
"""On a heartbeat Lease: when its latest renewal was received, by the clock of the database
(controlplane/clusters/heartbeats.py)."""

BINDING_ANNOTATION: Final = "work.lifeboat.io/binding"
LEFTOVER_ANNOTATION: Final = "work.lifeboat.io/leftover"
HELD_ANNOTATION: Final = "work.lifeboat.io/removal-held"
"""On a Work of a Pull cluster that is being deleted: its agent waits with the removal
(controlplane/controllers/execution.py)."""

COMPLETIONS_ANNOTATION: Final = "work.lifeboat.io/completions"
"""On the Work of a divided Job: the share of completions that its copy was made with
(controlplane/propagation/job_shares.py)."""

UNREADABLE_ANNOTATION: Final = "work.lifeboat.io/values-unreadable"
"""On a Work as its agent gets it, and not in the database: values of it cannot be decrypted
(apps/objects/encryption.py)."""

REPLICAS_HELD_ANNOTATION: Final = "work.lifeboat.io/replicas-held"
"""On a Work of a Pull cluster: its agent keeps so many replicas for now, although the Work asks for fewer
(controlplane/clusters/held_changes.py)."""

LEFT_COPIES_ANNOTATION: Final = "work.lifeboat.io/left-copies"
"""On a Namespace of a member: copies of deleted templates were left in it, so it is left as well."""
"""On a Work: its copy was released while its cluster could not be reached (controlplane/eviction/leftovers.py)."""

SCALED_BY_ANNOTATION: Final = "work.lifeboat.io/scaled-by"
"""On a workload: the autoscaler because of which it has RETAIN_REPLICAS_LABEL
(controlplane/propagation/scaled_replicas.py)."""

POLICY_CONFLICT_ANNOTATION: Final = "work.lifeboat.io/policy-conflict"
"""On an attached binding: in which fields the policies of the workloads that need its object differ
(controlplane/propagation/attached_bindings.py)."""

CREDENTIALS_ANNOTATION: Final = "cluster.lifeboat.io/credentials-of"
"""On a Secret that was created when a cluster joined: the cluster. The Secret is deleted with the cluster
(controlplane/clusters/unjoin.py)."""

IMPORTED_ID_ANNOTATION: Final = "policy.lifeboat.io/imported-id"
"""On a new policy: the permanent id that it has in the control plane from which it is imported. Admission makes it the
permanent id here and removes the annotation (controlplane/kinds/policy/rules.py)."""

WANTED_AGAIN_ANNOTATION: Final = "work.lifeboat.io/wanted-again"
"""On a Work that is being deleted: the binding that wants a copy there again, so that the deletion is looked at at once
(controlplane/eviction/leftovers.py)."""

REDUCED_ANNOTATION: Final = "work.lifeboat.io/reduced-at"
"""On a Work of a Divided workload: when its replicas were last reduced (controlplane/eviction/leftovers.py)."""

_SAFE_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


class ForeignNamespace(ValueError):
    """A namespace is not the execution namespace of a cluster."""


def fnv1a32(text: str) -> int:
    """Return the 32-bit FNV-1a hash of the text's UTF-8 bytes."""
    hashed = FNV_OFFSET
    for byte in text.encode():
        hashed = ((hashed ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return hashed


def binding_name(kind: str, name: str) -> str:
    """Return the name of the binding of an object: name-kind in lower case. A colon in the name becomes a dot."""
    return _lowered(f"{name.replace(':', '.')}-{kind}")


@lru_cache(maxsize=65_536)
def work_name(kind: str, name: str, namespace: str = "") -> str:
    """Return the name of the Work that contains an object. ``namespace`` is "" for cluster-scoped kinds."""
    name = name.replace(":", ".")
    identity = f"{namespace}-{name}-{kind}" if namespace else f"{name}-{kind}"
    return f"{_lowered(name)}-{safe_hash(_lowered(identity))}"


def _lowered(text: str) -> str:
    """Return a text in lower case. Each character is converted by itself, as Go does it, without regard to its
    neighbours."""
    return text.lower() if text.isascii() else "".join(character.lower()[0] for character in text)


def safe_hash(text: str) -> str:
    """Return a short hash of a text. Its alphabet has no vowels, so that it cannot contain words."""
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(fnv1a32(text)))


def depended_by_label(namespace: str, name: str) -> str:
    """Return the label that an attached binding has for the binding ``namespace``/``name`` that needs it."""
    return DEPENDED_BY_LABEL_PREFIX + safe_hash(_lowered(f"{namespace}-{name}" if namespace else name))


def execution_namespace(cluster: str) -> str:
    """Return the namespace that contains the Works of a cluster."""
    return EXECUTION_NAMESPACE_PREFIX + cluster


def is_execution_namespace(namespace: str) -> bool:
    return namespace.startswith(EXECUTION_NAMESPACE_PREFIX)


def cluster_of_execution_namespace(namespace: str) -> str:
    """Return the cluster whose Works a namespace contains. Raises ForeignNamespace for any other namespace."""
    if not is_execution_namespace(namespace):
        raise ForeignNamespace(
            f'namespace "{namespace}" contains no Works: their namespaces begin with {EXECUTION_NAMESPACE_PREFIX}'
        )
    return namespace[len(EXECUTION_NAMESPACE_PREFIX) :]


def is_reserved_namespace(namespace: str) -> bool:
    """Test whether the objects of a namespace are never propagated."""
    return namespace in (SYSTEM_NAMESPACE, CLUSTER_NAMESPACE) or is_execution_namespace(namespace)


def derived_service_name(service: str) -> str:
    """Return the name of the Service that is created in member clusters for a ServiceImport."""
    return f"derived-{service}"


def imported_endpoint_slice_name(cluster: str, endpoint_slice: str) -> str:
    """Return the name that an EndpointSlice of ``cluster`` has in other clusters."""
    return f"imported-{cluster}-{endpoint_slice}"


def service_account_name(cluster: str) -> str:
    """Return the name of the ServiceAccount in a member cluster with whose rights the control plane calls it."""
    return f"karmada-{cluster}"


def impersonation_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the token that impersonates users in a cluster."""
    return f"{cluster}-impersonator"

"""Differences between kinds in kube-apiserver: generations, finalizers, and answers to deletions."""

from __future__ import annotations

from typing import Any

from apps.simulator.store import Stored
from controlplane.wire.resource import Resource

Document = dict[str, Any]

_ADMISSION = "admissionregistration.k8s.io"

# Kinds with a status but no generation, and kinds with a generation but no status. All others have both or neither.
_NOT_COUNTED = frozenset(
    (
        *("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "Service"),
        *("apiregistration.k8s.io/APIService", "autoscaling/HorizontalPodAutoscaler"),
        *("certificates.k8s.io/CertificateSigningRequest", "storage.k8s.io/VolumeAttachment"),
    )
)
_COUNTED = frozenset(
    (
        *("Pod", "PodTemplate", "discovery.k8s.io/EndpointSlice"),
        *("networking.k8s.io/IngressClass", "networking.k8s.io/NetworkPolicy", "scheduling.k8s.io/PriorityClass"),
        *(f"{_ADMISSION}/MutatingWebhookConfiguration", f"{_ADMISSION}/ValidatingWebhookConfiguration"),
        f"{_ADMISSION}/ValidatingAdmissionPolicyBinding",
    )
)

# Kinds whose generation does not change until their deletion.
_COUNTED_ONCE = frozenset({"scheduling.k8s.io/PriorityClass"})

# Finalizers that new objects get.
FINALIZERS = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}

# Kinds whose deletion is answered with the deleted object instead of a Status.
RETURNED = frozenset(
    ("PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota", "Service", "ServiceAccount")
)

# Kinds whose dependents are orphaned by a deletion without propagationPolicy.
ORPHANING = frozenset(("ReplicationController", "batch/Job"))


def has_generation(resource: Resource) -> bool:
    """Test whether objects of a kind have a generation, as most kinds with a status do."""
    if resource.key in _COUNTED:
        return True
    return "status" in resource.subresources and resource.key not in _NOT_COUNTED


def intent(resource: Resource, document: Document) -> Document:
    """Return the part of an object whose change raises the generation. For Deployments it includes annotations."""
    if resource.key in _COUNTED_ONCE:
        return {}
    found = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    if resource.key == "apps/Deployment":
        found["annotations"] = document["metadata"].get("annotations") or {}
    return found


def deleted(resource: Resource, stored: Stored) -> Stored:
    """Return a deleted object as the answer shows it: a Pod with a deletionTimestamp."""
    if resource.key != "Pod":
        return stored
    metadata = stored.document["metadata"]
    marks = {"deletionGracePeriodSeconds": 0, "generation": metadata.get("generation", 0) + 1}
    return stored._replace(document={**stored.document, "metadata": {**metadata, **marks}}, text=b"")

"""The roles with which a new member registers itself: of everyone, of holders of a bootstrap token, and of agents."""

from __future__ import annotations

from typing import Any, Final

from controlplane.apimachinery.names import KUBE_PUBLIC_NAMESPACE
from controlplane.authorization.attributes import ANONYMOUS
from controlplane.authorization.policy import GROUP

Document = dict[str, Any]

CLUSTER_INFO_ROLE: Final = "karmada:bootstrap-signer-clusterinfo"
"""Allows everyone to read the address and the authority of the API. Delete its RoleBinding to end that."""
BOOTSTRAPPER_ROLE: Final = "system:node-bootstrapper"
BOOTSTRAP_GROUP: Final = "system:bootstrappers:karmada:default-cluster-token"
"""The group of the tokens that `karmadactl token create` makes."""
_METADATA: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {f"{GROUP}/autoupdate": "true"},
}


def documents() -> list[Document]:
    """Return the roles and bindings."""
    info = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}
    requests = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    }
    return [
        _role(BOOTSTRAPPER_ROLE, requests),
        _binding("karmada:agent-bootstrap", ("Group", BOOTSTRAP_GROUP), role=BOOTSTRAPPER_ROLE),
        _role(CLUSTER_INFO_ROLE, info, namespace=KUBE_PUBLIC_NAMESPACE),
        _binding(CLUSTER_INFO_ROLE, ("User", ANONYMOUS), namespace=KUBE_PUBLIC_NAMESPACE),
    ]


def _role(name: str, *rules: Document, namespace: str = "") -> Document:
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": _metadata(name, namespace), "rules": [*rules]}


def _binding(name: str, *subjects: tuple[str, str], namespace: str = "", role: str = "") -> Document:
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role or name},
        "subjects": [{"apiGroup": GROUP, "kind": kind_, "name": subject} for kind_, subject in subjects],
    }


def _metadata(name: str, namespace: str) -> Document:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **_METADATA}

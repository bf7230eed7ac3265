"""The roles with which a new member registers itself: of everyone, of holders of a bootstrap token, and of agents."""

from __future__ import annotations

from typing import Any, Final

from controlplane.apimachinery.names import KUBE_PUBLIC_NAMESPACE
from controlplane.authorization.agent_roles import REGISTRAR
from controlplane.authorization.attributes import ANONYMOUS
from controlplane.authorization.policy import GROUP

Document = dict[str, Any]

CLUSTER_INFO_ROLE: Final = "karmada:bootstrap-signer-clusterinfo"
"""Allows everyone to read the address and the authority of the API. Delete its RoleBinding to end that."""
BOOTSTRAPPER_ROLE: Final = "system:node-bootstrapper"
BOOTSTRAP_GROUP: Final = "system:bootstrappers:karmada:default-cluster-token"
"""The group of the tokens that `karmadactl token create` makes."""
AGENTS_GROUP: Final = "system:karmada:agents"
OWN_AGENTS_GROUP: Final = "system:lifeboat:agents"
_CERTIFICATES: Final = "certificates.k8s.io"
_APPROVALS: Final = "system:certificates.k8s.io:certificatesigningrequests:"
_METADATA: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {f"{GROUP}/autoupdate": "true"},
}


def documents() -> list[Document]:
    """Return the roles and bindings with which clusters register."""
    info = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}
    requests = {
        "apiGroups": [_CERTIFICATES],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    }
    return [
        _role(BOOTSTRAPPER_ROLE, requests),
        _binding("karmada:agent-bootstrap", ("Group", BOOTSTRAP_GROUP), role=BOOTSTRAPPER_ROLE),
        _approval("clusteragent"),
        _binding("karmada:agent-autoapprove-bootstrap", ("Group", BOOTSTRAP_GROUP), role=_APPROVALS + "clusteragent"),
        _approval("selfclusteragent"),
        _binding(
            "karmada:agent-autoapprove-certificate-rotation",
            ("Group", AGENTS_GROUP),
            ("Group", OWN_AGENTS_GROUP),
            role=_APPROVALS + "selfclusteragent",
        ),
        _approver("kube-apiserver-client"),
        _approver("kube-apiserver-client-kubelet"),
        _role("system:karmada:agent-rbac-generator", *_registering()),
        _binding("system:karmada:agent-rbac-generator", ("User", REGISTRAR)),
        _role(CLUSTER_INFO_ROLE, info, namespace=KUBE_PUBLIC_NAMESPACE),
        _binding(CLUSTER_INFO_ROLE, ("User", ANONYMOUS), namespace=KUBE_PUBLIC_NAMESPACE),
    ]


def _approval(name: str) -> Document:
    """Return the role for requests of the class `name`: `controllers.signing_requests` approves those of its users."""
    resources = [f"certificatesigningrequests/{name}"]
    return _role(_APPROVALS + name, {"apiGroups": [_CERTIFICATES], "resources": resources, "verbs": ["create"]})


def _approver(name: str) -> Document:
    """Return Kubernetes' role for users who approve requests of a signer."""
    signer = {"resources": ["signers"], "resourceNames": [f"kubernetes.io/{name}"], "verbs": ["approve"]}
    return _role(f"system:certificates.k8s.io:{name}-approver", {"apiGroups": [_CERTIFICATES], **signer})


def _registering() -> list[Document]:
    """Return the rules of the user who registers agents. Which roles it may write: `agent_roles`."""
    roles = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
    return [
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["get"]},
        {"apiGroups": [GROUP], "resources": roles, "verbs": ["create", "get"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "get"]},
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

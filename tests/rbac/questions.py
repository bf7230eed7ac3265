"""Roles, bindings, questions and writes of roles, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
ADMISSION, FLOWS = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
SEED = 20261123
NAMESPACES = ("default", "kube-system")
USERS = ("eva", "bob", "system:serviceaccount:default:ci", "system:serviceaccount:kube-system:ci")
GROUPS = ("team", "ops", "system:serviceaccounts")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
API_GROUPS = ("", "apps", "policy.karmada.io", "*")
RESOURCES = ("pods", "pods/log", "deployments", "deployments/scale", "secrets", "*", "*/log", "*/scale", "configmaps/*")
NAMES = ("web", "api")
URLS = ("/metrics", "/apis/*", "/healthz*", "*", "/a/*/b")
ASKED_RESOURCES = (("pods", ""), ("pods", "log"), ("deployments", ""), ("deployments", "scale"), ("secrets", ""))
PATHS = ("/metrics", "/metrics/x", "/apis/apps", "/healthz", "/healthzz", "/a/x/b", "/")
# Kinds of the default roles: group, resource, subresource.
DEFAULT_KINDS = (
    *(("", name, "") for name in ("configmaps", "pods", "secrets", "services", "serviceaccounts", "endpoints")),
    *(("", name, "") for name in ("persistentvolumeclaims", "replicationcontrollers", "events", "limitranges")),
    *(("", name, "") for name in ("resourcequotas", "namespaces", "nodes", "persistentvolumes", "bindings")),
    *(("", "pods", sub) for sub in ("log", "status")),
    ("", "serviceaccounts", "token"),
    *(("apps", name, "") for name in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    *(("apps", name, "scale") for name in ("deployments", "replicasets", "statefulsets")),
    *(("apps", name, "status") for name in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    *(("batch", name, sub) for name in ("cronjobs", "jobs") for sub in ("", "status")),
    *(("autoscaling", "horizontalpodautoscalers", sub) for sub in ("", "status")),
    *(("networking.k8s.io", name, "") for name in ("ingresses", "networkpolicies", "ingressclasses")),
    *(("policy", "poddisruptionbudgets", sub) for sub in ("", "status")),
    *((GROUP, name, "") for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
    *(("authorization.k8s.io", name, "") for name in ("localsubjectaccessreviews", "selfsubjectaccessreviews")),
    ("authorization.k8s.io", "subjectaccessreviews", ""),
    *(("storage.k8s.io", name, "") for name in ("storageclasses", "csinodes")),
    ("apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("coordination.k8s.io", "leases", ""),
    *(("", "namespaces", sub) for sub in ("status", "finalize")),
    *(("", name, "status") for name in ("nodes", "persistentvolumes", "persistentvolumeclaims", "services")),
    *(("", name, "status") for name in ("replicationcontrollers", "resourcequotas")),
    ("", "replicationcontrollers", "scale"),
    ("", "podtemplates", ""),
    ("apps", "controllerrevisions", ""),
    ("networking.k8s.io", "ingresses", "status"),
    *(("storage.k8s.io", name, "") for name in ("csidrivers", "csistoragecapacities", "volumeattachments")),
    ("storage.k8s.io", "volumeattachments", "status"),
    ("discovery.k8s.io", "endpointslices", ""),
    ("scheduling.k8s.io", "priorityclasses", ""),
    *((ADMISSION, f"{name}webhookconfigurations", "") for name in ("mutating", "validating")),
    *((ADMISSION, "validatingadmissionpolicies", sub) for sub in ("", "status")),
    (ADMISSION, "validatingadmissionpolicybindings", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", "status"),
    *(("apiregistration.k8s.io", "apiservices", sub) for sub in ("", "status")),
    *(("certificates.k8s.io", "certificatesigningrequests", sub) for sub in ("", "status", "approval")),
    ("node.k8s.io", "runtimeclasses", ""),
    *((FLOWS, name, sub) for name in ("flowschemas", "prioritylevelconfigurations") for sub in ("", "status")),
)
DEFAULT_ROLES = ("view", "edit", "admin", "cluster-admin")


def _some(chance: random.Random, values: tuple[str, ...], most: int = 2) -> list[str]:
    return chance.sample(values, chance.randint(1, most))


def _rule(chance: random.Random, *, urls: bool) -> Document:
    if urls and chance.random() < 0.2:
        return {"verbs": _some(chance, ("get", "post", "*")), "nonResourceURLs": _some(chance, URLS)}
    rule: Document = {"verbs": _some(chance, VERBS, 3), "apiGroups": _some(chance, API_GROUPS)}
    rule["resources"] = _some(chance, RESOURCES)
    return rule | ({"resourceNames": _some(chance, NAMES, 1)} if chance.random() < 0.25 else {})


def _metadata(name: str, namespace: str = "") -> Document:
    return {"name": name} | ({"namespace": namespace} if namespace else {})


def _subject(chance: random.Random) -> Document:
    kind = chance.choice(("User", "Group", "ServiceAccount"))
    if kind == "ServiceAccount":
        return {"kind": kind, "name": "ci", "namespace": chance.choice(NAMESPACES)}
    return {"kind": kind, "name": chance.choice(USERS if kind == "User" else GROUPS), "apiGroup": GROUP}


def stored() -> list[Document]:
    """Return the roles and bindings that the questions are about."""
    chance = random.Random(SEED)
    documents: list[Document] = []
    for number in range(12):
        name = f"test-{number}"
        rules = [_rule(chance, urls=True) for _ in range(chance.randint(1, 3))]
        documents.append({"kind": "ClusterRole", "metadata": _metadata(name), "rules": rules})
        for namespace in NAMESPACES:
            own = [_rule(chance, urls=False)]
            documents.append({"kind": "Role", "metadata": _metadata(name, namespace), "rules": own})
    for number in range(10):
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": f"test-{chance.randrange(13)}"}  # 12 does not exist
        metadata, subjects = _metadata(f"test-{number}"), [_subject(chance)]
        if number < 3:
            documents.append({"kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": ref, "subjects": subjects})
        for namespace in NAMESPACES:
            kind = chance.choice(("Role", "ClusterRole"))
            documents.append(
                {
                    "kind": "RoleBinding",
                    "metadata": _metadata(f"test-{number}", namespace),
                    "roleRef": {**ref, "kind": kind, "name": f"test-{chance.randrange(13)}"},
                    "subjects": [_subject(chance)],
                }
            )
    return [*documents, *_default_bindings()]


def _default_bindings() -> Iterator[Document]:
    for role in DEFAULT_ROLES:
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
        subjects = [{"kind": "User", "name": f"user-{role}", "apiGroup": GROUP}]
        yield {
            "kind": "RoleBinding",
            "metadata": _metadata(f"test-{role}", "default"),
            "roleRef": ref,
            "subjects": subjects,
        }
        everywhere = [{**subjects[0], "name": f"fleet-{role}"}]
        yield {
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(f"test-{role}"),
            "roleRef": ref,
            "subjects": everywhere,
        }


def questions() -> list[Document]:
    """Return the questions, as specs of SubjectAccessReviews."""
    chance = random.Random(SEED + 1)
    found: list[Document] = []
    for _ in range(1500):
        who = {"user": chance.choice(USERS), "groups": chance.sample(GROUPS, chance.randint(0, 2))}
        if chance.random() < 0.15:
            asked = {"path": chance.choice(PATHS), "verb": chance.choice(("get", "post"))}
            found.append({**who, "nonResourceAttributes": asked})
            continue
        resource, subresource = chance.choice(ASKED_RESOURCES)
        attributes = {
            "verb": chance.choice(VERBS[:-1]),
            "group": chance.choice(("", "apps")),
            "resource": resource,
            "subresource": subresource,
            "namespace": chance.choice((*NAMESPACES, "")),
            "name": chance.choice(("", *NAMES, "other")),
        }
        found.append({**who, "resourceAttributes": attributes})
    for role in DEFAULT_ROLES:
        for group, resource, subresource in DEFAULT_KINDS:
            for verb in VERBS[:-1]:
                for user, namespace in ((f"user-{role}", "default"), (f"fleet-{role}", "")):
                    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
                    attributes["namespace"] = namespace
                    found.append({"user": user, "groups": [], "resourceAttributes": attributes})
    return found


def writes() -> list[Document]:
    """Return writes of roles and bindings by users who may write all of them: `user`, `document`."""
    chance = random.Random(SEED + 2)
    found: list[Document] = []
    for number in range(150):
        namespace = chance.choice((*NAMESPACES, ""))
        user = chance.choice(USERS[:2])
        if chance.random() < 0.6:
            rules = [_rule(chance, urls=not namespace) for _ in range(chance.randint(1, 2))]
            kind = "Role" if namespace else "ClusterRole"
            document = {"kind": kind, "metadata": _metadata(f"new-{number}", namespace), "rules": rules}
        else:
            of_namespace = bool(namespace) and chance.random() < 0.5
            role = {"apiGroup": GROUP, "kind": "Role" if of_namespace else "ClusterRole"}
            document = {
                "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
                "metadata": _metadata(f"new-{number}", namespace),
                "roleRef": {**role, "name": f"test-{chance.randrange(12)}"},
                "subjects": [{"kind": "User", "name": "someone", "apiGroup": GROUP}],
            }
        found.append({"user": user, "document": document})
    return found


WRITERS: list[Document] = [
    {
        "kind": "ClusterRole",
        "metadata": _metadata("test-writer"),
        "rules": [{"verbs": ["create"], "apiGroups": [GROUP], "resources": ["*"]}],
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": _metadata("test-writer"),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "test-writer"},
        "subjects": [{"kind": "User", "name": name, "apiGroup": GROUP} for name in USERS[:2]],
    },
]

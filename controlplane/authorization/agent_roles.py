"""The roles of an agent that registers itself, who may write them, and what roles cannot say [agent-roles]."""

from __future__ import annotations

import re
from typing import Any, Final

from controlplane.apimachinery.errors import Forbidden, qualified
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, execution_namespace
from controlplane.authorization.attributes import Caller
from controlplane.authorization.rules import rules_in, uncovered
from controlplane.kinds import CLUSTER, LEASE
from controlplane.wire.resource import Resource

Document = dict[str, Any]

REGISTRAR: Final = "system:karmada:agent:rbac-generator"
"""The user as whom `karmadactl register` writes the roles of a new agent."""
AGENT_PREFIX: Final = "system:karmada:agent:"
_NAME: Final = re.compile(r"system:karmada:(?P<cluster>[a-z0-9.-]+):agent(-secret|-work)?")


def is_agents(document: Document) -> bool:
    """Test whether a role or binding gives the agent of a cluster what it may have, and all others nothing.

    The name of the role says which cluster. A binding has the name of its role, and the agent as its only subject.
    """
    metadata = document.get("metadata") or {}
    found = _NAME.fullmatch(str(metadata.get("name", "")))
    if found is None:
        return False
    cluster, namespace = found["cluster"], str(metadata.get("namespace") or "")
    if "roleRef" not in document:
        if document.get("aggregationRule"):
            return False
        return not uncovered(rules_in({"rules": allowed(cluster, namespace)}), rules_in(document))
    role = document["roleRef"] or {}
    subjects = [(one.get("kind"), one.get("name")) for one in document.get("subjects") or ()]
    expected = "Role" if namespace else "ClusterRole"
    return (role.get("kind"), role.get("name")) == (expected, metadata["name"]) and subjects == [
        ("User", AGENT_PREFIX + cluster)
    ]


def check_own(caller: Caller, resource: Resource, namespace: str, name: str) -> None:
    """Raise Forbidden if an agent of Karmada writes the Cluster or heartbeat of another cluster [foreign-heartbeat].

    Its roles cannot say this: they allow to create every Cluster, and to renew every Lease. Replicas of an agent choose
    their leader by a Lease beside that of its cluster.
    """
    cluster = caller.name.removeprefix(AGENT_PREFIX)
    is_heartbeat = resource.key == LEASE and namespace == CLUSTER_NAMESPACE
    if cluster == caller.name or not (is_heartbeat or resource.key == CLUSTER):
        return
    if name == cluster or (is_heartbeat and name == f"karmada-agent-{cluster}"):
        return
    raise Forbidden(
        f'{qualified(resource.plural, resource.group)} "{name}" is forbidden: the agent of {cluster} may write for '
        "this cluster only",
        kind=resource.plural,
        group=resource.group,
        name=name,
    )


def allowed(cluster: str, namespace: str) -> list[Document]:
    """Return the rules that the agent of a cluster may have in a namespace; "": at the cluster scope."""
    if namespace == CLUSTER_NAMESPACE:
        return [
            _rule("", "secrets", "create"),
            _rule("", "secrets", "get patch update", names=(cluster, f"{cluster}-impersonator")),
        ]
    if namespace == execution_namespace(cluster):
        return [
            _rule("work.karmada.io", "works", "get create list watch update patch delete"),
            _rule("work.karmada.io", "works/status", "get patch update"),
        ]
    if namespace:
        return []
    return [
        _rule("cluster.karmada.io", "clusters", "create list watch"),
        _rule("cluster.karmada.io", "clusters", "get delete patch update", names=(cluster,)),
        _rule("cluster.karmada.io", "clusters/status", "get patch update", names=(cluster,)),
        _rule(
            "config.karmada.io",
            "resourceinterpreterwebhookconfigurations resourceinterpretercustomizations",
            "get list watch",
        ),
        _rule("", "namespaces", "get list watch"),
        _rule("coordination.k8s.io", "leases", "get create update"),
        _rule("certificates.k8s.io", "certificatesigningrequests", "get create"),
        _rule("", "services", "list watch"),
        _rule("", "events", "patch create update"),
        _rule("events.k8s.io", "events", "patch create update"),
    ]


def _rule(group: str, resources: str, verbs: str, *, names: tuple[str, ...] = ()) -> Document:
    rule: Document = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return rule | ({"resourceNames": list(names)} if names else {})

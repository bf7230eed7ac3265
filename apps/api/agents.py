"""Agents of Pull members: each agent is a user with rights for its own cluster only [foreign-heartbeat].

The user's name contains the cluster's name: `system:lifeboat:agent:member1`. Django's forms refuse a colon, so such a
name cannot be chosen there. An agent has no password and is not staff. It logs in with a client certificate that it
has asked for (`lifeboat-agent register`), or with a token (`manage.py token create --agent CLUSTER`). Neither is valid
for a later cluster of the same name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.auth import get_user_model

from apps.objects.encryption import Opening, for_agent, opened
from apps.objects.store import store
from controlplane.apimachinery.causes import forbidden
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, execution_namespace
from controlplane.authentication import signing_requests
from controlplane.kind import Kind
from controlplane.kinds import CLUSTER, LEASE, WORK
from controlplane.kinds.work.rules import agent_work_faults

PREFIX = signing_requests.OWN_AGENT_PREFIX
GROUP = signing_requests.OWN_AGENTS_GROUP

_READING = frozenset(("get", "list", "watch"))
_CHANGING = frozenset(("get", "update", "patch"))


# What users define of kinds. It contains no credentials.
_DEFINING = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("config.karmada.io", "resourceinterpretercustomizations"),
    ("config.karmada.io", "resourceinterpreterwebhookconfigurations"),
)


class Grant(NamedTuple):
    """What an agent may do with one resource. `name` "" allows every name. `namespace` "" is the cluster scope."""

    group: str
    resource: str
    verbs: frozenset[str]
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def grants(cluster: str) -> tuple[Grant, ...]:
    """Return what an agent may do: renew its Lease, report the status of its Cluster, read and report its Works.

    It may also report Events about its Works, ask for a new certificate, and read what users define of kinds.
    """
    namespace, lease = execution_namespace(cluster), ("coordination.k8s.io", "leases")
    member, works = ("cluster.karmada.io", "clusters"), ("work.karmada.io", "works")
    return (
        Grant(*lease, _READING | _CHANGING | {"create"}, namespace=CLUSTER_NAMESPACE, name=cluster),
        Grant(*member, _READING, name=cluster),
        Grant(*member, _CHANGING, "status", name=cluster),
        Grant(*works, _READING | _CHANGING, namespace=namespace),
        Grant(*works, _CHANGING, "status", namespace=namespace),
        Grant("", "events", frozenset(("create", "get", "patch")), namespace=namespace),
        Grant(signing_requests.GROUP, signing_requests.PLURAL, frozenset(("create", "get"))),
        *(Grant(group, resource, _READING) for group, resource in _DEFINING),
    )


def check_write(kind: Kind, new: Any, old: Any) -> None:
    """Raise Invalid if an agent changes a part of an object that it may not change.

    Of a Work, an agent may change only the status and its own finalizer. Of a Lease, it may not change the finalizers.
    `old` None: the object is new.
    """
    causes = []
    if kind.key == WORK and old is not None:
        causes = agent_work_faults(new, old)
    elif kind.key == LEASE and new.metadata.finalizers != (() if old is None else old.metadata.finalizers):
        causes = [
            forbidden(
                "metadata.finalizers",
                "an agent may not keep its Lease from being deleted: leave the finalizers as they are",
            )
        ]
    if causes:
        raise Invalid.of(kind.resource.kind, new.metadata.name, causes, group=kind.resource.group)


class NotJoined(Exception):
    """The cluster of an agent does not exist. The message says how to create it."""


def uid_of(cluster: str) -> str:
    """Return the uid of an agent's cluster. Raises NotJoined if the cluster does not exist."""
    ref = Ref(CLUSTER, "", cluster)
    stored = store().get([ref]).get(ref)
    if stored is None:
        raise NotJoined(f"there is no cluster {cluster}: join it first (manage.py join {cluster} --pull)")
    uid: str = stored.metadata.uid
    return uid


def user_of(cluster: str) -> Any:
    """Return the user of a cluster's agent and create it if it is missing. Raises NotJoined without the cluster."""
    uid_of(cluster)
    user, made = get_user_model().objects.get_or_create(username=PREFIX + cluster)
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def cluster_of(user: Any) -> str:
    """Return the cluster whose agent a user is. "": the user is not an agent."""
    name: str = user.get_username()
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""


def opening_for(user: Any) -> Opening:
    """Return how Secrets are decrypted in what a user reads. An agent that gets no list at all applies nothing more."""
    return for_agent if cluster_of(user) else opened

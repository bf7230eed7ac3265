"""Agents of Pull members: users of their own, each of which speaks for its own cluster and for nothing else (fault 45).

Whose an agent is stands in its user's name, which no form can make: Django's own refuse a colon. Such a user has no
password and is no staff; it comes in by token alone (`manage.py token create --agent CLUSTER`), which ends with its
cluster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.auth import get_user_model

from apps.objects.store import store
from controlplane.apimachinery.causes import forbidden
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, execution_namespace
from controlplane.kind import Kind
from controlplane.kinds import CLUSTER, LEASE, WORK
from controlplane.kinds.work.rules import agent_work_faults

PREFIX = "system:lifeboat:agent:"
GROUP = "system:lifeboat:agents"

_READING = frozenset(("get", "list", "watch"))
_CHANGING = frozenset(("get", "update", "patch"))


class Grant(NamedTuple):
    """What an agent may do with one resource; `name` and `namespace` "" where any will do."""

    group: str
    resource: str
    verbs: frozenset[str]
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def grants(cluster: str) -> tuple[Grant, ...]:
    """Return all an agent may do with objects: renew its Lease, report its Cluster's status, work off its Works."""
    home, lease = execution_namespace(cluster), ("coordination.k8s.io", "leases")
    member, works = ("cluster.karmada.io", "clusters"), ("work.karmada.io", "works")
    return (
        Grant(*lease, _READING | _CHANGING | {"create"}, namespace=CLUSTER_NAMESPACE, name=cluster),
        Grant(*member, _READING, name=cluster),
        Grant(*member, _CHANGING, "status", name=cluster),
        Grant(*works, _READING | _CHANGING, namespace=home),
        Grant(*works, _CHANGING, "status", namespace=home),
    )


def check_write(kind: Kind, new: Any, old: Any) -> None:
    """Raise Invalid where an agent writes what is not its own: of a Work all but its status and its own finalizer, of a
    Lease its finalizers. `old` None: it is new."""
    causes = []
    if kind.key == WORK and old is not None:
        causes = agent_work_faults(new, old)
    elif kind.key == LEASE and new.metadata.finalizers != (() if old is None else old.metadata.finalizers):
        causes = [forbidden("metadata.finalizers", "an agent holds no Lease: the control plane deletes it")]
    if causes:
        raise Invalid.of(kind.resource.kind, new.metadata.name, causes, group=kind.resource.group)


class NotJoined(Exception):
    """There is no such cluster for an agent to speak for; the message says what to do."""


def uid_of(cluster: str) -> str:
    """Return the uid of a cluster an agent may speak for. Raises NotJoined where there is none."""
    ref = Ref(CLUSTER, "", cluster)
    found = store().get([ref]).get(ref)
    if found is None:
        raise NotJoined(f"there is no cluster {cluster}: join it first (manage.py join {cluster} --pull)")
    uid: str = found.metadata.uid
    return uid


def user_of(cluster: str) -> Any:
    """Return the user of a cluster's agent, made where there is none. Raises NotJoined without such a cluster."""
    uid_of(cluster)
    user, made = get_user_model().objects.get_or_create(username=PREFIX + cluster)
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def cluster_of(user: Any) -> str:
    """Return the cluster a user is the agent of; "" for everybody else."""
    name: str = user.get_username()
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""

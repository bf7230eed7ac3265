"""What the cases are made of: objects as they are stored before a batch, and the case itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from controlplane import kinds
from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_NAME_ANNOTATION, work_name
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.federated_quota import (
    FederatedResourceQuota,
    FederatedResourceQuotaSpec,
    StaticClusterAssignment,
)
from controlplane.kinds.policy import Policy
from controlplane.kinds.rows import Eviction, FleetState, Judgement, Row
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from tests.builders import objects
from tests.builders.objects import START, binding, cluster, eviction, no_execute
from tests.builders.placements import duplicated

LONG_AGO = START - timedelta(days=30)
ONE_OF_THEM = duplicated(least=1, most=1)
AT_ONCE = 200  # evictions, and objects of a namespace, in one decision
ALL = Ref(kinds.CLUSTER_PROPAGATION_POLICY, "", "all")


class Case(NamedTuple):
    """What is stored before, and the keys that are due.

    `writes`: how many rows of objects and values the first batch writes, at least. `batches`: after how many of them
    there is nothing left to decide.
    """

    stored: Sequence[Object | Row]
    keys: Sequence[Ref]
    writes: int
    batches: int = 1


def clusters(*names: str, **more: Any) -> list[Cluster]:
    return [cluster(name, **more).with_spec(api_endpoint="https://member.example") for name in names]


def many(size: int) -> list[str]:
    return [f"o{number:03}" for number in range(size)]


def bound(size: int, **on: int) -> list[Binding]:
    return [binding(name, ONE_OF_THEM, on=on) for name in many(size)]


def parts(found: Sequence[Binding]) -> list[Binding]:
    """Return bindings two and two as parts of applications."""
    claims = [{PROPAGATION_POLICY_NAME_ANNOTATION: f"application-{number // 2}"} for number in range(len(found))]
    return [one.with_meta(annotations=claim) for one, claim in zip(found, claims, strict=True)]


def deployment(name: str, **meta: Any) -> Template:
    fields = {"uid": f"template-{name}", "generation": 1, "creation_timestamp": START, **meta}
    return Template(
        "apps/v1", "Deployment", ObjectMeta(name=name, namespace="default", **fields), {"spec": {"replicas": 2}}
    )


def plain(kind: str, name: str, namespace: str = "", **meta: Any) -> Template:
    fields = {"uid": f"uid-{kind}-{name}", "generation": 1, "creation_timestamp": START, **meta}
    return Template("v1", kind, ObjectMeta(name=name, namespace=namespace, **fields), {"data": {}})


def work_of(one: Binding, place: str, *, applied: bool = False) -> Work:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": one.spec.resource.name}}
    name = work_name("Deployment", one.spec.resource.name, one.spec.resource.namespace)
    conditions = (objects.applied(),) if applied else ()
    return objects.work(name, place, of=one, manifest=manifest, conditions=conditions)


def queued(one: Binding, place: str = "lost", **more: Any) -> Eviction:
    taint = no_execute()
    assert taint.time_added is not None
    judged = (Judgement(taint.key, taint.effect, taint.time_added, START, 0.0),)
    return eviction(one, place, **{"generation": one.metadata.generation, "judged": judged, **more})


def policy(name: str = "all", **metadata: Any) -> Policy:
    return objects.policy(name, namespace="", placement=ONE_OF_THEM).with_meta(**metadata)


def refs(objects: Sequence[Any]) -> list[Ref]:
    return [one.ref for one in objects]


LOST = clusters("lost", taints=[no_execute()])
OPEN = FleetState("default", failover_on_since=LONG_AGO)


def federated_quota(name: str, *members: str) -> FederatedResourceQuota:
    parts = tuple(StaticClusterAssignment(member, {"cpu": "1"}) for member in members)
    spec = FederatedResourceQuotaSpec({"cpu": str(len(members) + 1)}, parts)
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", generation=1, creation_timestamp=START)
    return FederatedResourceQuota("policy.karmada.io/v1alpha1", "FederatedResourceQuota", metadata, spec)

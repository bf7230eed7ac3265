"""Moved sets of components are no growth, and bindings of a batch share the room of a quota [federated-quotas]."""

from __future__ import annotations

from controlplane.controllers.reads.namespace_quotas import NamespaceQuotas
from controlplane.engine.quota_conflicts import quota_guards
from controlplane.kinds.binding import (
    Component,
    GracefulEvictionTask,
    ReplicaRequirements,
    TargetCluster,
)
from controlplane.kinds.rows import CapacityReservation
from tests.builders.objects import START, binding
from tests.core.test_federated_quotas import EVERYWHERE, quota


def test_sets_of_components_that_are_moved_are_no_growth() -> None:
    parts = (Component("jobs", 1, ReplicaRequirements(resource_request={"cpu": "3"})),)
    task = GracefulEvictionTask("member1", reason="TaintUntolerated", creation_timestamp=START)
    before = binding("flink", EVERYWHERE, replicas=0).with_spec(components=parts, graceful_eviction_tasks=(task,))
    after = before.with_spec(clusters=(TargetCluster("member2"),))
    reserved = [CapacityReservation("key", str(before.ref), "member2", 1, "", START, reserved=True)]
    room = NamespaceQuotas({"default": [quota(cpu="2")]}, {}).room()

    assert room.take(before, after) is not None
    assert room.take(before, after, reserved=reserved) is None


def test_bindings_of_a_batch_share_the_room_of_a_quota_and_a_refused_one_takes_none() -> None:
    room = NamespaceQuotas({"default": [quota(cpu="3")]}, {"default": {"cpu": 1000}}).room()

    def fits(name: str, replicas: int) -> bool:
        before = binding(name, EVERYWHERE, replicas=replicas, cpu="1")
        return room.take(before, before.with_spec(clusters=(TargetCluster("member1", replicas),))) is None

    assert [fits("big", 3), fits("one", 1), fits("two", 2), fits("last", 1), fits("late", 1)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_only_what_grows_is_limited_under_the_write_lock_and_a_deleted_quota_limits_nothing() -> None:
    before = binding("web", EVERYWHERE, on={"member1": 1}, replicas=1, cpu="1").with_spec(
        replica_requirements=ReplicaRequirements(resource_request={"cpu": "1", "memory": "2Gi"})
    )
    after = before.with_spec(replica_requirements=ReplicaRequirements(resource_request={"cpu": "2", "memory": "1Gi"}))
    gone = quota("gone", cpu="0").with_meta(deletion_timestamp=START)

    (guard,) = quota_guards([gone, quota(cpu="3", memory="1Gi"), quota("small", cpu="2500m")], before, after)

    assert guard.most == (("cpu", 2500),)
    assert quota_guards([gone], before, after) == ()
    (exact,) = quota_guards([quota(memory="9007199254740993")], None, before)
    assert exact.most == (("memory", 9007199254740993),), "no number with a fraction holds it"

"""The record of a failover reads as the story it was, and needs no Events."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.insight import record
from controlplane.kinds.failover_record import FailoverRecord, Step
from tests.simulation.manifests import DUPLICATED, cluster
from tests.simulation.member import Member
from tests.simulation.outages import left, serving
from tests.simulation.stories import EACH_SECOND, NGINX_BINDING, apply, joined, placed, running
from tests.simulation.world import Simulation

GOLDEN = Path(__file__).parent / "golden" / "divided.yaml"
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
"""
CONFIGS = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: configs
spec:
  resourceSelectors:
  - apiVersion: v1
    kind: ConfigMap
  placement:
    spreadConstraints:
    - maxGroups: 1
      minGroups: 1
"""
NUMBERS = ("version", "cause", "resourceVersion", "uid", "name")  # of a run: what happened is the same without them


def reported(world: Simulation, ref: Ref = NGINX_BINDING) -> tuple[FailoverRecord, ...]:
    own = record.failovers(record.decode_changes(change for change in world.store.log if change.ref == ref))
    refs = record.related_refs(own)
    return record.records(own, record.decode_changes(change for change in world.store.log if change.ref in refs))


def plain(found: FailoverRecord) -> dict[str, Any]:
    """The record without the numbers of its run."""
    doc: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    doc["metadata"] = {key: value for key, value in doc["metadata"].items() if key not in NUMBERS}
    doc["status"]["resource"].pop("resourceVersion", None)
    steps = doc["status"]["steps"]
    doc["status"]["steps"] = [{key: one[key] for key in one if key not in NUMBERS} for one in steps]
    return doc


@pytest.mark.parametrize("seed", range(4))
def test_the_divided_example_is_reported_as_it_was(seed: int) -> None:
    """The overview: member1 of two fails, and its replica moves."""
    (found,) = reported(left("member1", "member2", seed=seed, settings=EACH_SECOND))

    assert plain(found) == yaml.safe_load(GOLDEN.read_text())


def test_replicas_that_were_never_seen_unready_are_reported_as_healthy() -> None:
    """member2 is healthy all the time: with two of its replicas, then with three."""
    world = serving("member1", "member2")
    world.members["member2"].ready_after = timedelta(0)
    world.fault("member1", "down")
    world.run(90)

    (found,) = reported(world)

    whats = [step.what for step in found.status.steps]
    assert whats.index("Scheduled") < whats.index("Healthy") < whats.index("Cleared")
    assert found.status.durations.started is not None


def test_deleting_all_events_changes_nothing() -> None:
    world = left("member1", "member2")
    before = reported(world)

    for ref in [one for one in world.store.objects if one.kind == kinds.EVENT]:
        del world.store.objects[ref]
    world.store.log[:] = [change for change in world.store.log if change.ref.kind != kinds.EVENT]

    assert reported(world) == before


def test_every_step_names_the_change_it_was_read_from() -> None:
    world = left("member1", "member2")
    versions = {change.version: change for change in world.store.log}

    (found,) = reported(world)

    for step in found.status.steps:
        assert (versions[step.version].actor, versions[step.version].at) == (step.by, step.at)


def test_a_failover_that_waits_says_for_what_and_is_not_finished() -> None:
    world = serving("member1", "member2")
    world.members["member2"].fault = "notready"
    world.fault("member1", "down")
    world.run(800)

    (found,) = reported(world)

    assert found.status.state == "Running"
    assert found.status.durations.total is None
    waited = [step.message for step in found.status.steps if step.what == "WaitedFor"]
    assert any("WaitingSource" in message for message in waited)


HOLD = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: EvictionHold
metadata:
  name: release
spec:
  reason: "we are releasing; cluster member2: not yet"
  expiresAt: "2026-03-01T02:38:30Z"
"""
WINDOW = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: MaintenanceWindow
metadata:
  name: discs
spec:
  reason: new discs
  clusters: [member1]
  until: "2026-03-01T02:38:30Z"
"""


def waited(found: FailoverRecord) -> list[tuple[float, str]]:
    """Return what was waited for before the decision, each with its second."""
    steps = [step for step in found.status.steps if step.version <= decided(found).version]
    return [(step.seconds, step.message) for step in steps if step.what == "WaitedFor"]


def decided(found: FailoverRecord) -> Step:
    (step,) = [step for step in found.status.steps if step.what == "Decided"]
    return step


@pytest.mark.parametrize(
    ("manifest", "report_of"),
    [
        (HOLD, "OnHold: EvictionHold release: we are releasing; cluster member2: not yet"),
        (WINDOW, "Maintenance: cluster member1 is in MaintenanceWindow discs until 2026-03-01T02:38:30Z: new discs"),
    ],
)
def test_what_held_an_eviction_before_it_was_decided_is_reported_with_seconds(manifest: str, report_of: str) -> None:
    world = serving("member1", "member2", settings=EACH_SECOND)
    apply(world, manifest)
    world.fault("member1", "down")
    world.run(200)

    (found,) = reported(world)

    assert [one for one in waited(found) if not one[1].startswith("Queued: ")] == [
        (5.0, report_of),
        (90.0, "its turn in the queue, which came 85 s after it was due at 2026-03-01T02:37:05Z"),
    ]
    assert decided(found).seconds == 90.0
    assert found.status.durations.waited == 85.0


def test_a_refuge_that_was_waited_for_is_reported_until_there_is_one() -> None:
    world = serving("member1", "member2", policy=DUPLICATED)
    world.fault("member1", "down")
    world.run(100)
    world.members["member3"] = Member("member3")
    apply(world, yaml.safe_dump(cluster("member3")))
    world.run(200)

    (found,) = reported(world)

    (held_at, message), *rest = waited(found)
    assert held_at < 15
    assert message.startswith("NoRefuge: ")
    assert [why.partition(",")[0] for _, why in rest] == ["its turn in the queue"]
    assert decided(found).seconds > 50


def test_a_tier_that_let_nothing_leave_is_reported_with_its_times() -> None:
    world = serving("member1", "member2", "member3", "member4", settings=EACH_SECOND)
    for name in ("member1", "member3", "member4"):
        world.fault(name, "down")
    world.run(100)
    world.fault("member4", "none")
    world.run(300)

    (found,) = reported(world)

    (stopped,) = [why for _, why in waited(found) if why.startswith("evictions to resume")]
    assert stopped.startswith("evictions to resume, 70 s: stopped from 2026-03-01T02:37:00Z until 2026-03-01T02:38:15Z")
    assert "3 of 4 clusters are faulty" in stopped


def test_what_two_clusters_are_left_for_waits_each_for_itself() -> None:
    """One is held, the other is not: the record of the other says nothing of the hold."""
    world = serving("member1", "member2", "member3", "member4", "member5", "member6", policy=DUPLICATED, replicas=2)
    first, second = placed(world)
    apply(world, HOLD.replace("  reason", f"  clusters: [{first}]\n  reason"))
    world.fault(first, "down")
    world.run(60)
    world.fault(second, "down")
    world.run(300)

    found = {one.status.left[0].name: [why for _, why in waited(one)] for one in reported(world)}

    assert set(found) == {first, second}
    assert any(why.startswith("OnHold: EvictionHold release") for why in found[first])
    assert not any("OnHold" in why for why in found[second])


def test_one_failover_that_begins_before_another_ends_does_not_leave_it_running_for_ever() -> None:
    world = serving("member1", "member2", "member3", "member4", "member5", "member6", policy=DUPLICATED, replicas=2)
    first, second = placed(world)
    world.fault(first, "down")
    world.run(9)
    world.fault(second, "down")
    world.run(300)

    found = reported(world)

    assert [[left.name for left in one.status.left] for one in found] == [[first], [second]]
    begun, ended = found[1].status.steps[0].version, found[0].status.steps[-1].version
    assert begun < ended
    assert [one.status.state for one in found] == ["Finished", "Finished"]


def test_one_failover_after_another_is_two_records() -> None:
    world = left("member1", "member2")
    world.fault("member1", "none")
    world.run(200)
    world.fault("member2", "down")
    world.run(300)

    first, second = reported(world)

    assert [one.status.left[0].name for one in (first, second)] == ["member1", "member2"]
    assert first.status.state == "Finished"
    assert running(world)["member1"] == 3


def test_what_has_no_replicas_is_reported_by_its_cluster_alone() -> None:
    config = Ref(kinds.RESOURCE_BINDING, "default", "settings-configmap")
    world = joined("member1", "member2")
    apply(world, CONFIGS, CONFIG)
    world.run(30)
    (home,) = placed(world, config)
    world.fault(home, "down")
    world.run(90)

    (found,) = reported(world, config)

    (other,) = {"member1", "member2"} - {home}
    assert [step.message for step in found.status.steps if step.what == "Scheduled"] == [other]

"""Lanes show each phase of an outage with its times, and the report says the same as Markdown."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.insight import lanes
from controlplane.insight.lanes import DETECTING, RELEASING, SCHEDULING, STARTING, WAITING, Lane
from controlplane.insight.report import report, seconds_text
from controlplane.kinds.binding import ObjectReference, TargetCluster
from controlplane.kinds.failover_record import FailoverRecord, FailoverRecordStatus, Step
from tests.builders.objects import START

TAKEN = (("Seen", 30), ("Tainted", 60), ("Decided", 62), ("Scheduled", 63), ("Healthy", 70), ("Cleared", 71))
NOW = START + timedelta(hours=1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(name: str, steps: tuple[tuple[str, float], ...] = TAKEN, *, left: str = "member1") -> FailoverRecord:
    """Return the record of a failover from one cluster to member2, with its steps at seconds since START."""
    elsewhere = {"Scheduled": "", "Healthy": "member2"}
    made = tuple(Step(at(one), one, what, elsewhere.get(what, left)) for what, one in steps)
    return FailoverRecord(
        api_version="failover.lifeboat.io/v1alpha1",
        kind="FailoverRecord",
        metadata=ObjectMeta(name=name, namespace="shop", creation_timestamp=START),
        status=FailoverRecordStatus(
            binding=f"work.karmada.io/ResourceBinding:shop/{name}",
            resource=ObjectReference("apps/v1", "Deployment", name, "shop"),
            state="Finished" if steps[-1][0] == "Cleared" else "Running",
            reason="TaintUntolerated",
            left=(TargetCluster(left, 2),),
            after=(TargetCluster("member2", 2),),
            steps=made,
        ),
    )


def seconds(found: tuple[Lane, ...]) -> dict[str, tuple[float, float | None]]:
    return {
        lane.phase: ((lane.start - START).total_seconds(), lane.end and (lane.end - START).total_seconds())
        for lane in found
    }


def test_a_finished_failover_has_a_lane_for_each_phase_up_to_the_cleared_task() -> None:
    assert seconds(lanes.lanes([record("web.7")], now=NOW)) == {
        DETECTING: (30, 60),
        WAITING: (60, 62),
        SCHEDULING: (62, 63),
        STARTING: (63, 70),
        RELEASING: (70, 71),
    }


def test_the_first_lane_begins_with_the_first_failed_probe_while_it_is_known() -> None:
    probes = {"member1": (at(-900), at(-600), at(5), at(400))}

    known = lanes.lanes([record("web.7")], turned_at=probes, now=NOW)

    assert seconds(known)[DETECTING] == (5, 60)


@pytest.mark.parametrize(
    ("steps", "phase", "since"),
    [
        (TAKEN[:3], SCHEDULING, 62),
        (TAKEN[:4], STARTING, 63),
        (TAKEN[:5], RELEASING, 70),
        ((("Decided", 62), ("Scheduled", 63)), STARTING, 63),
    ],
)
def test_a_running_failover_is_in_the_phase_after_the_last_one_that_ended(
    steps: tuple[tuple[str, float], ...], phase: str, since: float
) -> None:
    last = lanes.lanes([record("web.7", steps)], now=NOW)[-1]

    assert (last.phase, last.start, last.end) == (phase, at(since), None)
    assert last.longest_seconds == (NOW - at(since)).total_seconds()


def test_a_drain_has_no_phase_before_its_eviction() -> None:
    found = lanes.lanes([record("web.7", (("Decided", 62), ("Scheduled", 63), ("Cleared", 71)))], now=NOW)

    assert seconds(found) == {SCHEDULING: (62, 63), RELEASING: (63, 71)}


def test_lanes_of_an_outage_span_all_its_failovers_and_count_those_in_a_phase() -> None:
    later = tuple((what, one + 1 if what != "Seen" else one) for what, one in TAKEN)

    found = {lane.phase: lane for lane in lanes.lanes([record("web.7"), record("api.8", later)], now=NOW)}

    starting = found[STARTING]
    assert (starting.start, starting.end, starting.record_count) == (at(63), at(71), 2)
    assert starting.longest_seconds == 7
    assert starting.counts() == ((at(63), 1), (at(64), 2), (at(70), 1), (at(71), 0))


def test_clusters_are_in_the_order_of_their_first_step() -> None:
    early = tuple((what, one - 20) for what, one in TAKEN)

    found = lanes.lanes([record("web.7"), record("api.8", early, left="member9")], now=NOW)

    assert list(dict.fromkeys(lane.cluster for lane in found)) == ["member9", "member1"]


def test_the_report_of_an_outage_has_its_phases_and_a_line_for_each_failover() -> None:
    found = report([record("web.7"), record("api.8", TAKEN[:4])], title="Outage of member1", now=NOW)

    assert found.startswith("# Outage of member1\n")
    assert "- Failovers: 2, of which 1 still run" in found
    assert "| member1 | Detecting | 2026-01-01T00:00:30Z | 2026-01-01T00:01:00Z | 30.0s | 2 |" in found
    assert "| member1 | Starting | 2026-01-01T00:01:03Z | runs | 58m57s | 2 |" in found
    assert "| Deployment shop/web.7 | member1:2 | member2:2 | Finished | TaintUntolerated |" in found
    assert "kubectl get failoverrecords.failover.lifeboat.io -A" in found


def test_the_report_of_one_failover_has_all_its_steps() -> None:
    found = report([record("web.7")], title="Failover web.7", now=NOW)

    assert "| 2026-01-01T00:01:02Z | 62.0 | Decided | member1 |" in found
    assert "-n shop web.7 -o yaml" in found


def test_a_message_cannot_leave_its_cell_or_make_a_link() -> None:
    made = record("web.7")
    step = Step(at(61), 61, "WaitedFor", "member1", "a | b\n[click](http://x) <b>")

    reported = FailoverRecordStatus(steps=(step,), left=made.status.left, resource=made.status.resource)
    found = report([FailoverRecord(made.api_version, made.kind, made.metadata, reported)], title="x", now=NOW)

    assert "a \\| b \\[click\\](http://x) \\<b\\>" in found


def test_the_report_of_no_failover_says_so() -> None:
    assert "No failover is on record" in report([], title="Outage", now=NOW)


@pytest.mark.parametrize(
    ("length", "text"), [(None, "-"), (0.04, "0.0s"), (59.94, "59.9s"), (93.4, "1m33s"), (3723, "1h2m03s")]
)
def test_durations_are_short(length: float | None, text: str) -> None:
    assert seconds_text(length) == text

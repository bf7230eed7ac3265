"""Which old copies a Directly eviction waits for, until when, and what the binding says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.names import DIRECTLY_UNREACHABLE_ANNOTATION
from controlplane.clusters.fence import FenceRequest, fenced
from controlplane.eviction.directly import (
    DIRECTLY_WAITING,
    Answers,
    DirectlySource,
    directly_sources,
    next_check_at,
    waiting_message,
    with_directly_waiting,
)
from controlplane.kinds.binding import Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import duplicated

WAIT, PROCEED = Settings(), Settings(directly_unreachable="Proceed")
TASK = GracefulEvictionTask("a", DIRECTLY, creation_timestamp=START)
SILENT = cluster("a", ready="Unknown")
PAUSE = timedelta(seconds=30)


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


def web(*tasks: GracefulEvictionTask, on: str = "b", after: str = "") -> Binding:
    """Return a binding that has left clusters. `after`: what its policy says of an unreachable source."""
    one = binding("web", duplicated(), on={on: 1}).with_spec(graceful_eviction_tasks=tasks or (TASK,))
    return one.with_meta(annotations={DIRECTLY_UNREACHABLE_ANNOTATION: after}) if after else one


def found(
    one: Binding,
    *clusters: Cluster,
    held: set[str] | None = None,
    settings: Settings = WAIT,
    seconds: int = 0,
    observed: Observation | None = None,
) -> list[DirectlySource]:
    known = {each.metadata.name: each for each in clusters}
    answers = Answers(observations={} if observed is None else {"a": observed})
    return directly_sources(one, {"a"} if held is None else held, known, settings, answers=answers, now=at(seconds))


def fence(seconds: int = 60) -> Cluster:
    return fenced(SILENT, FenceRequest("no power", seconds), by="ana", now=START)


def test_an_unreachable_source_is_waited_for() -> None:
    assert found(web(), SILENT) == [DirectlySource(TASK, False)]
    assert found(web(), SILENT)[0].waits


def test_a_source_that_is_gone_altogether_is_waited_for() -> None:
    assert found(web()) == [DirectlySource(TASK, False)]


def test_a_source_that_answers_is_waited_for_until_its_copy_is_gone_whatever_the_setting() -> None:
    assert found(web(), cluster("a"), settings=PROCEED) == [DirectlySource(TASK, True)]


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (web(), {"b"}),
        (web(GracefulEvictionTask("a", GRACEFULLY, creation_timestamp=START)), {"a"}),
        (web(on="a"), {"a"}),
    ],
    ids=["no copy is left", "not Directly", "it is a target again"],
)
def test_what_is_no_source_is_not_waited_for(one: Binding, held: set[str]) -> None:
    assert found(one, SILENT, held=held) == []


def test_one_that_is_no_source_does_not_hide_the_next() -> None:
    gracefully = GracefulEvictionTask("z", GRACEFULLY, creation_timestamp=START)

    assert found(web(gracefully, TASK), SILENT, held={"a", "z"}) == [DirectlySource(TASK, False)]


def test_the_setting_lets_new_copies_start_and_says_so() -> None:
    assert found(web(), SILENT, settings=PROCEED) == [
        DirectlySource(TASK, False, "the setting directly_unreachable is Proceed")
    ]


def test_a_fence_lets_new_copies_start_and_names_who_made_it() -> None:
    why = "cluster a is fenced by ana until 2026-01-01T00:01:00Z: no power"

    assert found(web(), fence()) == [DirectlySource(TASK, False, why)]


@pytest.mark.parametrize(("seconds", "leave"), [(119, ""), (120, "and this time has passed"), (500, "time has passed")])
def test_a_policy_lets_new_copies_start_after_a_time(seconds: int, leave: str) -> None:
    (source,) = found(web(after="After=120"), SILENT, seconds=seconds)

    assert source.waits == (leave == "")
    assert source.proceed_reason.endswith(leave)
    assert source.proceed_reason.startswith(f"{DIRECTLY_UNREACHABLE_ANNOTATION} is After=120, " if leave else "")


@pytest.mark.parametrize(
    ("row", "ends"),
    [
        (Observation("a", "False", observed_at=at(199)), 120),
        (Observation("a", "False", observed_at=at(199), answered_at=at(-5)), 120),
        (Observation("a", "False", observed_at=at(199), answered_at=at(50)), 170),
        (Observation("a", "True", observed_at=at(199), answered_at=at(199)), 319),
        (Observation("a", "False", observed_at=at(100)), 220),  # it is not observed any more
        (Observation("a", "False", observed_at=at(199), resumed_at=at(190)), 210),
    ],
    ids=["silent", "answered before", "answered since", "answers", "unobserved", "observed again"],
)
def test_the_time_of_a_policy_counts_from_the_last_answer_and_while_the_cluster_is_observed(
    row: Observation, ends: int
) -> None:
    (source,) = found(web(after="After=120"), SILENT, seconds=200, observed=row)

    assert source.wait_ends == at(ends)
    assert source.waits == (ends > 200)


def test_a_task_without_a_time_waits_on() -> None:
    assert found(web(GracefulEvictionTask("a", DIRECTLY), after="After=1"), SILENT, seconds=900)[0].waits


@pytest.mark.parametrize(
    ("after", "seconds", "again"),
    [
        ("", 0, 30),
        ("After=20", 0, 20),
        ("After=31", 0, 30),
        ("After=20", 19, 20),
    ],
)
def test_a_waiting_source_is_looked_at_after_a_pause_or_when_its_time_is_over(
    after: str, seconds: int, again: int
) -> None:
    waiting = found(web(after=after), SILENT, seconds=seconds)

    assert next_check_at(waiting, pause=PAUSE, now=at(seconds)) == at(again)


@pytest.mark.parametrize("seconds", [20, 25])
def test_a_source_that_answers_has_no_time_limit(seconds: int) -> None:
    waiting = found(web(after="After=20"), cluster("a"), seconds=seconds)

    assert next_check_at(waiting, pause=PAUSE, now=at(seconds)) == at(seconds + 30)


def test_the_first_time_that_is_over_counts() -> None:
    others = (
        GracefulEvictionTask("c", DIRECTLY, creation_timestamp=at(5)),
        GracefulEvictionTask("d", DIRECTLY),
    )
    waiting = found(web(*others, TASK, after="After=20"), SILENT, held={"a", "c", "d"})

    assert [source.wait_ends for source in waiting] == [at(25), None, at(20)]
    assert next_check_at(waiting, pause=PAUSE, now=START) == at(20)


def test_what_does_not_wait_is_not_looked_at_again() -> None:
    assert next_check_at([], pause=PAUSE, now=START) is None
    gone_on = DirectlySource(TASK, False, "fenced", at(5))
    assert next_check_at([gone_on], pause=PAUSE, now=START) is None
    waits = DirectlySource(GracefulEvictionTask("c", DIRECTLY, creation_timestamp=at(9)), True, "", at(19))
    assert next_check_at([gone_on, waits], pause=PAUSE, now=START) == at(19)


def said(one: Binding, *given: DirectlySource) -> tuple[str, str, str] | None:
    found = condition(with_directly_waiting(one, given, now=START), DIRECTLY_WAITING)
    return None if found is None else (found.status, found.reason, found.message)


def test_the_condition_says_what_is_waited_for_and_what_to_do() -> None:
    other = DirectlySource(GracefulEvictionTask("c", DIRECTLY), False)
    text = (
        "cluster a, c cannot be reached, so its copy may still run: with purgeMode Directly new copies wait until it "
        "is gone. Confirm that the cluster is down (lifeboat fence <name>), or limit the wait in the policy: "
        "failover.lifeboat.io/directly-unreachable: After=<seconds>"
    )

    assert waiting_message([DirectlySource(TASK, False), other]) == text
    assert said(web(), DirectlySource(TASK, False), other) == ("True", "SourceUnreachable", text)


def test_one_source_that_waits_is_enough_and_is_the_only_one_named() -> None:
    going = DirectlySource(GracefulEvictionTask("c", DIRECTLY), False, "fenced")

    found = said(web(), going, DirectlySource(TASK, False))

    assert found is not None
    assert found[:2] == ("True", "SourceUnreachable")
    assert found[2].startswith("cluster a cannot")


def test_the_condition_says_why_new_copies_started() -> None:
    going = [
        DirectlySource(TASK, False, "fenced"),
        DirectlySource(GracefulEvictionTask("c", DIRECTLY), False, "time has passed"),
    ]

    assert said(web(), *going) == ("False", "Proceeded", "fenced; time has passed")


def test_a_source_that_can_be_reached_is_no_reason_for_a_condition() -> None:
    assert said(web(), DirectlySource(TASK, True)) is None
    assert said(web()) is None


@pytest.mark.parametrize("status", ["True", "False"])
def test_the_end_of_the_wait_is_reported_once(status: str) -> None:
    before = Condition(DIRECTLY_WAITING, status, "SourceUnreachable", "x")
    one = web().with_status(conditions=(before,))
    over = ("False", "SourceGone", "the old copy is gone or can be removed")

    assert said(one, DirectlySource(TASK, True)) == (over if status == "True" else ("False", "SourceUnreachable", "x"))


def test_other_targets_do_not_end_the_wait() -> None:
    assert found(web().with_spec(clusters=(TargetCluster("b", 1),)), SILENT)[0].waits

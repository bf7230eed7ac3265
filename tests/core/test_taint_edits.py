"""People edit taints while a failover is at any of its stages ([recovered-clusters-cancel], the proposal's table of
recovery): eighteen cases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import TAINT_UNTOLERATED, GracefulEvictionTask
from controlplane.kinds.policy import Toleration
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.fleet_story import FAILOVER, Story

FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)
BEARS = Toleration("gone", "Exists", toleration_seconds=100)


class Stage(NamedTuple):
    """A failover from member1: what it has placed so far, what is leaving, and what waits in the queue."""

    placed: tuple[str, ...]
    leaving: tuple[str, ...] = ()
    queue: str = ""


def fleet(*names: str, bears: bool = False) -> Story:
    """Four clusters and a workload on member1 that may be on those named."""
    placement = duplicated(*names, least=1, most=1, tolerations=[BEARS] if bears else ())
    clusters = (cluster(f"member{n}") for n in (1, 2, 3, 4))
    return Story(*clusters, binding("web", placement, on={"member1": 2}), settings=FAST)


def lost(story: Story, *, seconds: float, healthy: bool = True) -> Story:
    """Member1 is tainted, and time passes."""
    story.members.healthy = healthy
    story.taint("member1", no_execute())
    story.pass_seconds(seconds)
    return story


def came_to_nothing() -> Story:
    """Member2 was full by the time the scheduler came to it."""
    story = fleet("member1", "member2", bears=True)
    story.taint("member1", no_execute())
    story.taint("member2", replace(no_execute("full"), effect="NoSchedule"))
    task = GracefulEvictionTask("member1", replicas=2, reason=TAINT_UNTOLERATED, creation_timestamp=story.now)
    old = story.binding("web")
    story.store.put(old.with_spec(clusters=(), graceful_eviction_tasks=(task,)), old)
    story.pass_seconds(5)
    return story


STAGES: dict[str, tuple[Callable[[], Story], Stage]] = {
    "tolerated for a while": (
        lambda: lost(fleet("member1", "member2", bears=True), seconds=20),
        Stage(("member1",), (), "Queued"),
    ),
    "held, nowhere to go": (lambda: lost(fleet("member1"), seconds=20), Stage(("member1",), (), "Held")),
    "moved, not running yet": (
        lambda: lost(fleet("member1", "member2"), seconds=20, healthy=False),
        Stage(("member2",), ("member1",)),
    ),
    "moved, stuck": (
        lambda: lost(fleet("member1", "member2"), seconds=700, healthy=False),
        Stage(("member2",), ("member1",)),
    ),
    "moved and running": (lambda: lost(fleet("member1", "member2"), seconds=20), Stage(("member2",))),
    "evicted, nowhere to go": (came_to_nothing, Stage((), ("member1",))),
}


def taken_off(story: Story) -> None:
    story.untaint("member1")


def softened(story: Story) -> None:
    """It keeps new workloads away and moves none."""
    old = story.cluster("member1")
    taints = tuple(replace(one, effect="NoSchedule") for one in old.spec.taints)
    story.store.put(old.with_spec(taints=taints), old)
    story.work()


def joined_by_another(story: Story) -> None:
    """A harder one, which no binding tolerates."""
    story.taint("member1", no_execute("worse", at=story.now))


HOME, AWAY = Stage(("member1",)), Stage(("member2",))
RECOVERED = {
    "tolerated for a while": HOME,
    "held, nowhere to go": HOME,
    "moved, not running yet": STAGES["moved, not running yet"][1],
    "moved, stuck": STAGES["moved, stuck"][1],
    "moved and running": AWAY,
    "evicted, nowhere to go": HOME,
}
EDITS: dict[Callable[[Story], None], dict[str, Stage]] = {
    taken_off: RECOVERED,
    softened: RECOVERED,
    joined_by_another: {name: stage for name, (_, stage) in STAGES.items()} | {"tolerated for a while": AWAY},
}
CASES = [(name, edit, after[name]) for edit, after in EDITS.items() for name in STAGES]


def stage(story: Story) -> Stage:
    queue = story.queue()
    return Stage(tuple(story.placed("web")), tuple(story.leaving("web")), queue.get("web|member1", ""))


@pytest.mark.parametrize(("name", "edit", "after"), CASES, ids=[f"{n}: {e.__name__}" for n, e, _ in CASES])
def test_a_taint_edited_by_hand_at_any_stage(name: str, edit: Callable[[Story], None], after: Stage) -> None:
    begin, before = STAGES[name]
    story = begin()
    assert stage(story) == before
    taints = {taint.key for taint in story.cluster("member1").spec.taints}

    edit(story)
    story.pass_seconds(10)

    assert stage(story) == after
    wanted = {taken_off: set(), softened: taints, joined_by_another: taints | {"worse"}}
    assert {taint.key for taint in story.cluster("member1").spec.taints} == wanted[edit]


@pytest.mark.parametrize("edit", [taken_off, softened, joined_by_another])
def test_what_has_a_new_place_runs_to_its_end_whatever_becomes_of_the_taint(edit: Callable[[Story], None]) -> None:
    story = STAGES["moved, not running yet"][0]()
    edit(story)

    old = story.binding("web")
    running = tuple(replace(item, health="Healthy") for item in old.status.aggregated_status)
    story.store.put(old.with_status(aggregated_status=running), old)
    story.pass_seconds(timedelta(minutes=1).total_seconds())

    assert stage(story) == AWAY

"""Which objects a change makes due for a controller, and when. Those that its writer decides about are left out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.application_failover import PARTS, ApplicationFailover
from controlplane.controllers.eviction_pending import QUEUED_WITHIN, EvictionPending
from controlplane.engine.decision import Drop, Followed, Save
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import APPLICATION_FAILURE, AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.policy import GRACEFULLY, ApplicationFailoverBehavior, DecisionConditions, FailoverBehavior
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, NO_REFUGE, QUEUED, RECOVERING, STATE_MISSING, Observation
from tests.builders.bare import binding
from tests.builders.objects import START, eviction, leaving
from tests.core.test_colocation import part
from tests.stores.grounds import PLACER, USER, Placer

WEB = binding("web").ref
ROUTER = Router([Placer()])


@pytest.mark.parametrize(
    ("writer", "fields", "count"),
    [
        (USER, {}, 1),
        (PLACER, {"own": WEB}, 0),
        (PLACER, {"own": WEB, "merged": True}, 1),
        (PLACER, {"own": binding("api").ref}, 1),
        (USER, {"own": WEB}, 1),
        (USER, {"followed": (Followed("placer", WEB),)}, 0),
        (USER, {"followed": (Followed("placer", WEB),), "merged": True}, 1),
        (USER, {"followed": (Followed("another", WEB),)}, 1),
    ],
)
def test_what_a_writer_decides_about_is_not_due_again(writer: Actor, fields: dict[str, Any], count: int) -> None:
    old = binding("web")

    marks = list(ROUTER.marks(old, old.with_spec(replicas=3), by=writer, **fields))

    assert [(mark.controller, mark.ref) for mark in marks] == [("placer", WEB)] * count


@pytest.mark.parametrize(
    ("writer", "own", "count"),
    [(PLACER, Ref(CLUSTER, "", "member1"), 0), (PLACER, Ref(CLUSTER, "", "member2"), 1), (PLACER, None, 1)],
)
def test_a_row_about_what_its_writer_decides_makes_nothing_due(writer: Actor, own: Ref | None, count: int) -> None:
    save = Save(Observation(key="member1", status="False"))

    assert len(list(ROUTER.row_marks(save, by=writer, own=own))) == count


@pytest.mark.parametrize(
    ("state", "fields", "seconds"),
    [
        (QUEUED, {"due_at": START + timedelta(seconds=10)}, 10),  # may have left by then
        (QUEUED, {"due_at": START + timedelta(seconds=11)}, 3),
        (QUEUED, {"due_at": START, "reason": STATE_MISSING}, 0),  # was held, and is checked again
        (HELD, {"due_at": START, "reason": NO_REFUGE}, 0),
        (ABANDONED, {"due_at": None, "ended_at": START}, 3),
        (ABANDONED, {"due_at": None, "ended_at": START, "reason": "power"}, 3),
    ],
)
def test_a_row_of_the_queue_is_reported_when_it_has_settled(state: str, fields: dict[str, Any], seconds: int) -> None:
    before = eviction(binding("web"), "member1", queued_at=START, due_at=START + timedelta(seconds=60))
    row = eviction(binding("web"), "member1", state=state, queued_at=START, **fields)

    (mark,) = Router([EvictionPending()]).row_marks(Save(row, before), by=USER)

    assert (mark.ref, mark.after) == (WEB, timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("queued_at", "due_at", "seconds"), [(2.9, 2.9, 10), (0.0, 10.0, 10), (0.0, 10.1, 3), (0.0, 60.0, 3)]
)
def test_new_rows_that_were_queued_together_are_due_together(queued_at: float, due_at: float, seconds: int) -> None:
    row = eviction(
        binding("web"),
        "member1",
        queued_at=START + timedelta(seconds=queued_at),
        due_at=START + timedelta(seconds=due_at),
    )

    (mark,) = Router([EvictionPending()]).row_marks(Save(row), by=USER)

    assert (mark.ref, mark.after) == (Ref(QUEUED_WITHIN, "", START.isoformat()), timedelta(seconds=seconds))


def test_a_watch_that_makes_origins_due_is_declared_as_a_fan_out() -> None:
    old = eviction(binding("web"), "member1", queued_at=START, due_at=START)
    held = eviction(binding("web"), "member1", state=HELD, queued_at=START, due_at=START)

    watches = [watch for watch in EvictionPending.watches if watch.kind == "row/Eviction"]
    made = [(watch.fan_out, ref.kind) for watch in watches for row in (None, held) for ref in watch.to(row, old)]

    assert made == [(False, WEB.kind), (True, QUEUED_WITHIN)]


@pytest.mark.parametrize(
    ("state", "fields", "refs"),
    [
        (QUEUED, {"due_at": None, "queued_at": START}, [WEB]),  # the copy stays
        (QUEUED, {"due_at": START, "queued_at": START, "reason": STATE_MISSING}, [WEB]),
        (HELD, {"due_at": START, "queued_at": START, "reason": NO_REFUGE}, [WEB]),
        (RECOVERING, {"due_at": START, "queued_at": START, "reason": "Recovering"}, [WEB]),
        (ABANDONED, {"due_at": None, "queued_at": START, "ended_at": START}, [WEB]),
        (QUEUED, {"due_at": START, "queued_at": None}, [WEB]),  # of a store that had no such time
        (EVICTED, {"due_at": None, "queued_at": START, "ended_at": START}, []),
    ],
)
def test_a_new_row_that_is_not_just_queued_is_due_alone(state: str, fields: dict[str, Any], refs: list[Ref]) -> None:
    row = eviction(binding("web"), "member1", state=state, **fields)

    assert [mark.ref for mark in Router([EvictionPending()]).row_marks(Save(row), by=USER)] == refs


def test_an_eviction_that_has_happened_is_reported_by_its_writer_and_a_removed_row_at_once() -> None:
    router, row = Router([EvictionPending()]), eviction(binding("web"), "member1", queued_at=START, due_at=START)
    evicted = eviction(binding("web"), "member1", state=EVICTED, due_at=None, ended_at=START)

    assert list(router.row_marks(Save(evicted, row), by=USER)) == []
    assert [mark.after for mark in router.row_marks(Drop(row), by=USER)] == [timedelta(0)]


BEHAVIOUR = ApplicationFailoverBehavior(DecisionConditions(60), GRACEFULLY, 600)
PART = part("web", 2, on="member1").with_spec(failover=FailoverBehavior(application=BEHAVIOUR), propagate_deps=True)
ILL = (AggregatedStatusItem("member1", applied=True, health="Unhealthy"),)
MOVED = PART.with_spec(
    clusters=(TargetCluster("member2", 2),), graceful_eviction_tasks=(leaving("member1", reason=APPLICATION_FAILURE),)
)
FAILOVERS = Router([ApplicationFailover()])


@pytest.mark.parametrize(
    ("old", "new", "refs"),
    [
        (None, PART, [PART.ref]),
        (PART, PART.with_spec(propagate_deps=False), [PART.ref]),
        (PART, PART.with_status(aggregated_status=ILL), [PART.ref]),
        (PART, PART.with_spec(failover=None), [PART.ref]),  # what is known of its copies is forgotten
        (PART, PART.with_meta(labels={"a": "b"}), []),
        (PART, PART.with_status(last_scheduled_time=START), []),
        (PART, None, []),
        (None, PART.with_spec(failover=None), []),
        (PART, MOVED, [PART.ref, Ref(PARTS, "", application(PART))]),
        (MOVED, MOVED.with_status(aggregated_status=ILL), [PART.ref]),
        (MOVED, MOVED.with_spec(failover=None), [PART.ref]),
        (MOVED, None, []),
    ],
)
def test_application_failover_looks_at_a_changed_copy_and_at_the_parts_of_one_that_left(
    old: Binding | None, new: Binding | None, refs: list[Ref]
) -> None:
    assert [mark.ref for mark in FAILOVERS.marks(old, new, by=USER)] == refs

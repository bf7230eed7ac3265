"""A write in view of what is queued (D6)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane import circumstances
from controlplane.decision import Decision, Save
from controlplane.kind import KINDS
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, RECOVERING, Eviction, eviction_key
from controlplane.memory import MemoryStore
from controlplane.settings import Settings
from controlplane.state import Actor
from tests.core.fleet_story import START, binding, duplicated

DEFAULT = Settings()
ANEW = replace(DEFAULT, eviction=replace(DEFAULT.eviction, reevaluate_policies=True))
ONE = binding("web", duplicated(), on={"member1": 2})
EDITED = ONE.with_spec(replicas=3)


def told(*rows: Eviction, settings: Settings = DEFAULT) -> tuple[str, ...]:
    store = MemoryStore(clock=lambda: START)
    store.create(ONE)
    store.apply([(None, Decision(changes=tuple(Save(row) for row in rows)))], by=Actor("test"))
    return circumstances.told(store, KINDS[RESOURCE_BINDING], EDITED, ONE, settings, now=START)


def row(state: str, *, cluster: str = "member1", stays: bool = False) -> Eviction:
    key = eviction_key(ONE.ref, cluster)
    return Eviction(key, str(ONE.ref), cluster, due_at=None if stays else START, state=state)


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ((), 0),
        ((row(QUEUED),), 1),
        ((row(HELD), row(RECOVERING, cluster="member2")), 2),
        ((row(EVICTED), row(ABANDONED, cluster="member2")), 0),
        ((row(QUEUED, stays=True),), 0),
    ],
)
def test_what_waits_is_counted_and_what_is_over_or_stays_is_not(rows: tuple[Eviction, ...], count: int) -> None:
    said = told(*rows)

    assert [one.split()[0] for one in said] == ([str(count)] if count else [])


def test_the_setting_that_has_them_judged_anew_is_told_of() -> None:
    (said,) = told(row(QUEUED), settings=ANEW)

    assert "judged anew" in said
    assert "skip" not in said

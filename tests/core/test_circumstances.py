"""A write in view of what is queued (D6), and of clusters that are not well (D23)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane import circumstances
from controlplane.decision import Decision, Save
from controlplane.errors import Invalid
from controlplane.kind import KINDS
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, RECOVERING, Eviction, eviction_key
from controlplane.memory import MemoryStore
from controlplane.meta import ObjectMeta
from controlplane.settings import Settings
from controlplane.state import Actor
from tests.core.fleet_story import START, binding, cluster, duplicated, no_execute

NOW = START + timedelta(hours=1)
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


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (None, FailbackSpec("member1"), True),
        (None, FailbackSpec("member1", dry_run=True), True),
        (FailbackSpec("member1", dry_run=True), FailbackSpec("member1"), True),
        (FailbackSpec("member1", stop=True), FailbackSpec("member1"), True),
        (FailbackSpec("member1", stop=True), FailbackSpec("member1", stop=True, rate=9), False),
        (FailbackSpec("member1"), FailbackSpec("member1", rate=9), False),
        (FailbackSpec("member1"), FailbackSpec("member1", stop=True), False),
        (FailbackSpec("member2", stop=True), FailbackSpec("member2"), False),
    ],
)
def test_a_failback_is_refused_when_it_would_begin_on_a_cluster_that_is_not_well(
    old: FailbackSpec | None, new: FailbackSpec, refused: bool
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    store.create(cluster("member1", taints=[no_execute()]), cluster("member2"))

    def of(spec: FailbackSpec) -> Failback:
        return Failback("failover.lifeboat.io/v1alpha1", "Failback", ObjectMeta(name="home"), spec)

    def write() -> tuple[str, ...]:
        before = None if old is None else of(old)
        return circumstances.told(store, KINDS[FAILBACK], of(new), before, DEFAULT, now=NOW)

    if not refused:
        assert write() == ()
        return
    with pytest.raises(Invalid) as raised:
        write()
    assert [cause.field for cause in raised.value.details.causes] == ["spec.cluster"]

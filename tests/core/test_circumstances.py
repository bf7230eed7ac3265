"""A write in view of what is queued (D6), and of clusters that are not well (D23)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from controlplane import circumstances
from controlplane.decision import Decision, Save
from controlplane.errors import Invalid
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER_TAINT_POLICY, RESOURCE_BINDING
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, RECOVERING, Eviction, eviction_key
from controlplane.kinds.taint_policy import ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition
from controlplane.memory import MemoryStore
from controlplane.meta import ObjectMeta
from controlplane.settings import Settings
from controlplane.state import Actor
from controlplane.taints import OWNERS_ANNOTATION
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


def outage(*owners: str) -> MemoryStore:
    """A store in which two evictions leave member1 for a taint that these policies own."""
    taint = {"gone:NoExecute": {"by": dict.fromkeys(owners, "")}}
    lost = cluster("member1", taints=[no_execute()])
    store = MemoryStore(clock=lambda: START)
    store.create(ONE, lost.with_meta(annotations={OWNERS_ANNOTATION: msgspec.json.encode(taint).decode()}))
    rows = (Save(row(QUEUED)), Save(replace(row(QUEUED), key="other")))
    store.apply([(None, Decision(changes=rows))], by=Actor("test"))
    return store


RULE = ClusterTaintPolicySpec(match_conditions=(MatchCondition("Ready", "In", ("False",)),))
POLICY = ClusterTaintPolicy("policy.karmada.io/v1alpha1", "ClusterTaintPolicy", ObjectMeta(name="detect"), RULE)


def test_fault_34_who_deletes_a_taint_policy_is_told_what_goes_with_it() -> None:
    (said,) = circumstances.told_of_deletion(outage("policy/detect"), POLICY)

    assert said == (
        "this deletion withdraws 1 taint: gone:NoExecute from cluster member1, and with them 2 queued evictions"
    )


@pytest.mark.parametrize("owners", [("policy/other",), ("policy/detect", "policy/other"), ()])
def test_a_taint_somebody_else_wants_does_not_go_with_a_policy(owners: tuple[str, ...]) -> None:
    assert circumstances.told_of_deletion(outage(*owners), POLICY) == ()


@pytest.mark.parametrize(("field", "said"), [("match_conditions", 1), ("taints_to_add", 0)])
def test_d3_an_edit_of_what_a_taint_policy_is_about_withdraws_as_well(field: str, said: int) -> None:
    edited = POLICY.with_spec(**{field: ()})
    known = KINDS[CLUSTER_TAINT_POLICY]

    assert len(circumstances.told(outage("policy/detect"), known, edited, POLICY, DEFAULT, now=START)) == said


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

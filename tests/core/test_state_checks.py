"""A write in view of what is queued [judged-once], and of clusters that are not well [edits-by-hand]."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.admission import state_checks
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.clusters.taints import OWNERS_ANNOTATION
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds import (
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    MAINTENANCE_WINDOW,
    PROPAGATION_POLICY,
    RESOURCE_BINDING,
)
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drain import DRAIN, Drain, DrainSpec
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.policy import ClusterFailoverBehavior, FailoverBehavior
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, RECOVERING, Eviction, Judgement
from controlplane.kinds.taint_policy import MatchCondition, TaintToAdd
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, eviction, no_execute, taint_policy
from tests.builders.objects import policy as propagation_policy
from tests.builders.placements import duplicated
from tests.builders.steering import hold, window

NOW = START + timedelta(hours=1)
DEFAULT = Settings()
API = "failover.lifeboat.io/v1alpha1"
ANEW = replace(DEFAULT, eviction=replace(DEFAULT.eviction, reevaluate_policies=True))
ONE = binding("web", duplicated(), on={"member1": 2})
EDITED = ONE.with_spec(replicas=3)


def reported(*rows: Eviction, settings: Settings = DEFAULT) -> tuple[str, ...]:
    store = MemoryStore(clock=lambda: START)
    store.create(ONE)
    store.apply([(None, Decision(changes=tuple(Save(row) for row in rows)))], by=Actor("test"))
    return state_checks.check_write(store, KINDS[RESOURCE_BINDING], EDITED, ONE, settings, now=START)


def outage(*owners: str) -> MemoryStore:
    """A store in which two evictions leave member1 for a taint that these policies own."""
    taint = {"gone:NoExecute": {"by": dict.fromkeys(owners, "")}}
    lost = cluster("member1", taints=[no_execute()])
    store = MemoryStore(clock=lambda: START)
    store.create(ONE, lost.with_meta(annotations={OWNERS_ANNOTATION: msgspec.json.encode(taint).decode()}))
    rows = (Save(row(QUEUED)), Save(replace(row(QUEUED), key="other")))
    store.apply([(None, Decision(changes=rows))], by=Actor("test"))
    return store


TAINTS = (TaintToAdd("gone", "NoExecute"), TaintToAdd("gone", "NoSchedule"))
POLICY = taint_policy("detect", match_conditions=(MatchCondition("Ready", "In", ("False",)),))


def test_who_deletes_a_taint_policy_is_warned_what_goes_with_it() -> None:
    (said,) = state_checks.deletion_warnings(outage("policy/detect"), POLICY)

    assert said == (
        "this deletion withdraws 1 taint: gone:NoExecute from cluster member1, and with them 2 queued evictions"
    )


@pytest.mark.parametrize("owners", [("policy/other",), ("policy/detect", "policy/other"), ()])
def test_a_taint_with_another_owner_does_not_go_with_a_policy(owners: tuple[str, ...]) -> None:
    assert state_checks.deletion_warnings(outage(*owners), POLICY) == ()


@pytest.mark.parametrize(("added", "said"), [((), 1), ((TaintToAdd("gone", "NoSchedule"),), 1), (TAINTS, 0)])
def test_who_takes_a_taint_off_a_policys_list_is_warned_what_goes_with_it(
    added: tuple[TaintToAdd, ...], said: int
) -> None:
    """The same match goes on, so only what is listed no more is withdrawn."""
    old = POLICY.with_spec(taints_to_add=TAINTS)
    known = KINDS[CLUSTER_TAINT_POLICY]

    edited = old.with_spec(taints_to_add=added)

    assert len(state_checks.check_write(outage("policy/detect"), known, edited, old, DEFAULT, now=START)) == said


def test_a_drain_of_a_cluster_there_is_none_of_is_refused_and_not_finished_at_once() -> None:
    drain = Drain("failover.lifeboat.io/v1alpha1", "Drain", ObjectMeta(name="upgrade"), DrainSpec("membr1", 1))
    store = outage()

    with pytest.raises(Invalid, match="there is no such cluster"):
        state_checks.check_write(store, KINDS[DRAIN], drain, None, DEFAULT, now=START)

    fine = drain.with_spec(cluster="member1")
    assert state_checks.check_write(store, KINDS[DRAIN], fine, None, DEFAULT, now=START) == ()


@pytest.mark.parametrize(
    ("kind", "type_"), [(EVICTION_HOLD, EvictionHold), (MAINTENANCE_WINDOW, MaintenanceWindow)], ids=["hold", "window"]
)
def test_a_hold_or_window_on_a_cluster_there_is_none_of_says_so(kind: str, type_: Any) -> None:
    one = type_("failover.lifeboat.io/v1alpha1", type_.__name__, ObjectMeta(name="one"))
    known, typo = one.with_spec(clusters=("member1",)), one.with_spec(clusters=("member1", "membr2", "membr2"))

    assert state_checks.check_write(outage(), KINDS[kind], known, None, DEFAULT, now=START) == ()
    (said,) = state_checks.check_write(outage(), KINDS[kind], typo, known, DEFAULT, now=START)

    assert said == 'spec.clusters: there is no cluster "membr2" (yet); see kubectl get clusters'


def test_a_hold_on_a_namespace_there_is_none_of_says_so() -> None:
    typo = hold(namespaces=("shpo",))

    (said,) = state_checks.check_write(outage(), KINDS[EVICTION_HOLD], typo, None, DEFAULT, now=START)

    assert said == 'spec.namespaces: there is no namespace "shpo" (yet); see kubectl get namespaces'


@pytest.mark.parametrize(("ends", "said"), [(START, 1), (START + timedelta(seconds=1), 0), (None, 0)])
def test_a_hold_or_window_that_is_over_already_says_so(ends: datetime | None, said: int) -> None:
    until = None if ends is None else (ends - START).total_seconds()
    held, kept = hold(expires_at=ends), window("member1", until=until)

    for one, field in ((held, "spec.expiresAt"), (kept, "spec.until")):
        warnings = state_checks.check_write(outage(), KINDS[one.ref.kind], one, None, DEFAULT, now=START)
        assert [warning.partition(":")[0] for warning in warnings] == [field] * said


def test_an_edit_of_what_a_taint_policy_is_about_withdraws_as_well() -> None:
    edited = POLICY.with_spec(match_conditions=())
    known = KINDS[CLUSTER_TAINT_POLICY]

    assert len(state_checks.check_write(outage("policy/detect"), known, edited, POLICY, DEFAULT, now=START)) == 1


def test_an_edit_of_a_taints_value_withdraws_it_and_one_of_its_windows_does_not() -> None:
    known, (taint, other) = KINDS[CLUSTER_TAINT_POLICY], TAINTS
    before = POLICY.with_spec(taints_to_add=TAINTS)
    for edited, said in ((replace(taint, value="worse"), 1), (replace(taint, add_on_match_seconds=7), 0)):
        after = POLICY.with_spec(taints_to_add=(edited, other))
        assert len(state_checks.check_write(outage("policy/detect"), known, after, before, DEFAULT, now=START)) == said


def row(state: str, *, cluster: str = "member1", stays: bool = False) -> Eviction:
    return eviction(ONE, cluster, due_at=None if stays else START, state=state)


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
    said = reported(*rows)

    assert [one.split()[0] for one in said] == ([str(count)] if count else [])


def test_the_setting_that_has_them_judged_again_is_named() -> None:
    (said,) = reported(row(QUEUED), settings=ANEW)

    assert "decided again" in said
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
        return state_checks.check_write(store, KINDS[FAILBACK], of(new), before, DEFAULT, now=NOW)

    if not refused:
        assert write() == ()
        return
    with pytest.raises(Invalid) as raised:
        write()
    assert [cause.field for cause in raised.value.details.causes] == ["spec.cluster"]


@pytest.mark.parametrize(("old", "dry", "refused"), [(None, True, False), (None, False, True), (True, False, True)])
def test_a_dry_run_does_not_wait_until_a_cluster_has_been_ready_for_ten_minutes(
    old: bool | None, dry: bool, refused: bool
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    store.create(cluster("member1", at=NOW - timedelta(minutes=1)))

    def of(dry_run: bool) -> Failback:
        return Failback(API, "Failback", ObjectMeta(name="home"), FailbackSpec("member1", dry_run=dry_run))

    before = None if old is None else of(old)
    if not refused:
        assert state_checks.check_write(store, KINDS[FAILBACK], of(dry), before, DEFAULT, now=NOW) == ()
        return
    with pytest.raises(Invalid, match="less than 10 minutes"):
        state_checks.check_write(store, KINDS[FAILBACK], of(dry), before, DEFAULT, now=NOW)


def test_a_write_of_a_policy_that_is_being_deleted_says_that_it_does_not_keep_it() -> None:
    going = propagation_policy("all").with_meta(deletion_timestamp=START)
    store = MemoryStore(clock=lambda: START)

    said = state_checks.check_write(store, KINDS[PROPAGATION_POLICY], going, going, DEFAULT, now=START)

    assert said == ("PropagationPolicy all is being deleted: apply it again once it is gone",)


SOFT = Taint("gone", "PreferNoExecute", time_added=START)
OPEN = Settings(feature_gates={"Failover": True})
PATIENT = ClusterFailoverBehavior(toleration_seconds=60)
AGAIN = (
    "spec.clusters: taint gone:{} of cluster member2 evicts the copy that this edit places there again{}: remove the "
    "taint first, or hold the eviction with an EvictionHold"
)


@pytest.mark.parametrize(
    ("taint", "failover", "settings", "said"),
    [
        (no_execute(), None, OPEN, AGAIN.format("NoExecute", "")),
        (
            SOFT,
            PATIENT,
            OPEN,
            AGAIN.format("PreferNoExecute", f" at {START + timedelta(seconds=60):%Y-%m-%dT%H:%M:%SZ}"),
        ),
        (SOFT, None, OPEN, ""),
        (no_execute(), None, DEFAULT, ""),  # the gate is off: nothing is evicted
    ],
)
def test_who_places_a_copy_where_a_taint_evicts_it_is_warned(
    taint: Taint, failover: ClusterFailoverBehavior | None, settings: Settings, said: str
) -> None:
    """[edits-by-hand] [judged-once] a copy is judged when it arrives."""
    store = MemoryStore(clock=lambda: START)
    store.create(cluster("member1", taints=[taint]), cluster("member2", taints=[taint]))
    before = binding("web", duplicated(), on={"member1": 2}, failover=failover)
    after = before.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2)))

    warnings = state_checks.check_write(store, KINDS[RESOURCE_BINDING], after, before, settings, now=START)

    assert warnings == ((said,) if said else ())


STAYED = (
    "1 copy of its workloads stays on cluster member1: this edit does not evict it, because that was decided when "
    "taint gone:PreferNoExecute appeared. It counts for taints that are added later; with eviction.reevaluatePolicies "
    "each edit counts"
)
STAYS = (Judgement("gone", "PreferNoExecute", START),)


@pytest.mark.parametrize(
    ("failover", "judged", "settings", "said"),
    [
        (PATIENT, STAYS, DEFAULT, (STAYED,)),
        (None, STAYS, DEFAULT, ()),  # it would stay under this policy as well
        (PATIENT, (replace(STAYS[0], time_added=NOW),), DEFAULT, ()),  # an earlier taint: this one is judged yet
        (PATIENT, STAYS, ANEW, ()),
    ],
)
def test_an_edit_that_lets_workloads_leave_after_the_taint_says_that_they_stay(
    failover: ClusterFailoverBehavior | None, judged: tuple[Judgement, ...], settings: Settings, said: tuple[str, ...]
) -> None:
    """[judged-once] for an edit of the binding, and for one of the policy."""
    after = binding("web", duplicated(), on={"member1": 2}, failover=failover)
    rule = propagation_policy("web", placement=duplicated(), failover=FailoverBehavior(cluster=failover))
    claim = {f"propagationpolicy.karmada.io/{field}": getattr(rule.metadata, field) for field in ("namespace", "name")}
    store = MemoryStore(clock=lambda: START)
    store.create(ONE.with_meta(annotations=claim), cluster("member1", taints=[SOFT]))
    stays = replace(row(QUEUED, stays=True), judged=judged)
    store.apply([(None, Decision(changes=(Save(stays),)))], by=Actor("test"))
    edits = ((RESOURCE_BINDING, after, EDITED), (PROPAGATION_POLICY, rule, rule.with_spec(priority=1)))
    for kind, edited, old in edits:
        warnings = state_checks.check_write(store, KINDS[kind], edited, old, settings, now=START)
        assert warnings == said

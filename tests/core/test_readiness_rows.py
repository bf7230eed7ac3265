"""The answers about readiness are kept. They are computed again after a change, and written if they differ."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_NAME_ANNOTATION
from controlplane.controllers.garbage import Garbage
from controlplane.controllers.readiness import AFTER_CHANGE, AFTER_EVICTION, BUSY_STEP, PAGE, PAUSE, ROUND, Readiness
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.engine.decision import Decision, Delete, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch, run_until_idle
from controlplane.engine.state import Actor
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.insight.fleet_answer import AnswerTally, StoredAnswers, fleet_status
from controlplane.insight.readiness import fleet_obstacles, readiness
from controlplane.insight.readiness_row import FleetDigest, relevant_change, row_of
from controlplane.kinds.binding import Binding, BindingSnapshot, BindingSuspension, ReplicaRequirements, TargetCluster
from controlplane.kinds.cluster import Cluster, ResourceSummary
from controlplane.kinds.rows import BindingReadiness, ReadinessRound
from controlplane.kinds.taint_policy import TaintToAdd
from controlplane.settings import Settings
from tests.builders.objects import START, binding, eviction, leaving, no_execute, not_ready_policy
from tests.builders.placements import duplicated
from tests.builders.steering import hold
from tests.core.fleet_story import FAILOVER
from tests.core.test_readiness import MEMBERS, job, member

ANYWHERE = duplicated(least=1, most=1)


class Office:
    """A store with the controller of readiness and a clock moved by hand."""

    def __init__(self, *objects: Any, settings: Settings = FAILOVER) -> None:
        self.now, self.settings = START + timedelta(hours=1), settings
        self.controller = Readiness()
        self.controllers = [self.controller, Garbage()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        self.store.create(*objects)
        self.store.mark("readiness", [FLEET])
        self.wait(60)

    def wait(self, seconds: float) -> int:
        """Let time pass in steps of half a second; return how many objects were due for the controller."""
        claimed = 0
        for _ in range(int(seconds * 2)):
            self.now += timedelta(seconds=0.5)
            run_until_idle(self.controllers[1:], self.store, self.settings, world=World())
            while found := run_batch(self.controller, self.store, self.settings, world=World()):
                assert not found.failures, found.failures[0].trace
                claimed += found.claimed
                if not found.claimed:
                    break
        return claimed

    def rows(self, *names: str) -> dict[str, BindingReadiness]:
        keys = [str(Ref("work.karmada.io/ResourceBinding", "default", name)) for name in names]
        found = self.store.rows(BindingReadiness, "key", keys)
        return {rows[0].name: rows[0] for rows in found.values()}

    def verdicts(self, *names: str) -> dict[str, str]:
        return {name: row.verdict for name, row in self.rows(*names).items()}

    @property
    def round(self) -> ReadinessRound:
        found: ReadinessRound = self.store.rows(ReadinessRound, "key", [ROUND])[ROUND][0]
        return found

    def stored(self, one: Any) -> Any:
        return self.store.get([one.ref])[one.ref]

    def change(self, one: Any, **spec: Any) -> None:
        self.store.put(self.stored(one).with_spec(**spec), self.stored(one))

    def delete(self, one: Any) -> None:
        self.store.apply([(None, Decision(changes=(Delete(self.stored(one)),)))], by=Actor("jane"))


def bound(name: str, **fields: Any) -> Binding:
    made = binding(name, fields.pop("placement", ANYWHERE), on={"member1": 2}, **fields)
    return made.with_meta(name=name)


def fleet(*more: Any) -> list[Any]:
    return [*MEMBERS, not_ready_policy(), *more]


def written(office: Office, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list to which every row is added that the controller writes from now on."""
    found: list[Any] = []
    apply = office.store.apply

    def counted(decisions: Sequence[Any], **how: Any) -> Any:
        found.extend(change for _, decision in decisions for change in decision.changes)
        return apply(decisions, **how)

    monkeypatch.setattr(office.store, "apply", counted)
    return found


def test_every_binding_has_an_answer_and_a_change_of_a_binding_changes_its_answer_alone() -> None:
    office = Office(*fleet(bound("web"), bound("fixed", placement=duplicated("member1"))))

    assert office.verdicts("web", "fixed") == {"web": "Ready", "fixed": "Blocked"}
    assert office.rows("fixed")["fixed"].named == "NoRefuge"
    before = office.rows("web")["web"]

    office.change(bound("fixed"), placement=ANYWHERE)
    assert office.wait(AFTER_CHANGE.total_seconds() + 1) == 1

    assert office.verdicts("web", "fixed") == {"web": "Ready", "fixed": "Ready"}
    assert office.rows("web")["web"] is before


def test_the_answer_about_a_binding_waits_longer_after_an_eviction() -> None:
    """The other copies of a lost cluster have still to leave then."""
    office = Office(*fleet(bound("web")))
    before = office.rows("web")["web"]

    old = office.stored(bound("web"))
    office.store.put(old.with_spec(placement=duplicated("member1"), graceful_eviction_tasks=(leaving("member9"),)), old)
    assert office.wait(AFTER_EVICTION.total_seconds() - 1) == 0
    assert office.rows("web")["web"] is before
    assert office.wait(2) == 1
    assert office.verdicts("web") == {"web": "Blocked"}

    office.change(bound("web"), placement=ANYWHERE)
    assert office.wait(AFTER_CHANGE.total_seconds() + 1) == 1
    assert office.verdicts("web") == {"web": "Ready"}


def test_a_job_that_finishes_has_a_new_answer_and_other_news_of_its_copies_changes_none() -> None:
    one = job().with_meta(name="job")
    office = Office(*fleet(one, bound("a")))
    assert office.verdicts("job") == {"job": "Blocked"}

    running = job(member1="Suspended", member2="Suspended").status
    office.store.put(office.stored(one).with_status(aggregated_status=running.aggregated_status), office.stored(one))
    assert office.wait(10) == 0
    over = job(member1="Complete", member2="Complete").status
    office.store.put(office.stored(one).with_status(aggregated_status=over.aggregated_status), office.stored(one))

    assert office.wait(10) == 1
    assert office.verdicts("job") == {"job": "Ready"}


def test_a_policy_that_is_created_or_deleted_changes_all_answers() -> None:
    office = Office(*MEMBERS, bound("web"), bound("api"))
    assert {row.named for row in office.rows("web", "api").values()} == {"NoTaintPolicy"}

    office.store.create(not_ready_policy())
    office.wait(PAUSE.total_seconds() + 2)
    assert office.verdicts("web", "api") == {"web": "Ready", "api": "Ready"}

    office.delete(not_ready_policy())
    office.wait(PAUSE.total_seconds() + 2)
    assert office.verdicts("web", "api") == {"web": "Blocked", "api": "Blocked"}


def test_without_a_change_nothing_is_due_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(*fleet(*(bound(f"w{number:03}") for number in range(PAGE + 20))))
    rows = written(office, monkeypatch)

    assert office.wait(3600) == 0
    assert rows == []


def test_a_heartbeat_makes_no_answer_due_and_a_condition_makes_all_due(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(*fleet(*(bound(f"w{number:03}") for number in range(30))))
    rows = written(office, monkeypatch)
    stored = office.stored(MEMBERS[1])
    beat = tuple(replace(one, message="again", last_transition_time=office.now) for one in stored.status.conditions)

    office.store.put(stored.with_status(conditions=beat), stored)
    assert office.wait(60) == 0

    stored = office.stored(MEMBERS[1])
    office.store.put(stored.with_status(conditions=(*beat, Condition("Flapping", "True"))), stored)
    assert office.wait(60) > 0
    assert office.round.checked == 30
    assert not any(isinstance(getattr(change, "row", None), BindingReadiness) for change in rows)


def test_free_capacity_counts_in_steps() -> None:
    def reporting(cpu: str, used: str) -> Cluster:
        return member(1).with_status(resource_summary=ResourceSummary({"cpu": cpu, "pods": "110"}, {}, {"cpu": used}))

    assert not relevant_change(reporting("100", "50"), reporting("100", "50500m"))
    assert relevant_change(reporting("100", "50"), reporting("100", "90"))
    assert relevant_change(reporting("100", "99"), reporting("100", "100"))


def test_a_round_checks_page_by_page_and_says_how_far_it_is() -> None:
    office = Office(*fleet(*(bound(f"w{number:04}") for number in range(2 * PAGE + 10))))
    first = office.round.settled_at
    assert office.round.ended_at is not None

    office.store.create(member(4).with_meta(labels={"new": "true"}))
    seen: list[tuple[int, bool]] = []
    while (PAGE + PAGE, True) not in seen or office.round.ended_at is None:
        office.wait(0.5)
        seen.append((office.round.checked, office.round.ended_at is None))

    assert (PAGE, True) in seen
    assert office.round.checked == 2 * PAGE + 10
    assert first is not None
    assert office.round.settled_at is not None
    assert office.round.settled_at > first


def test_a_round_is_slower_while_evictions_are_due() -> None:
    """A lost cluster makes all answers due at the time at which its evictions need the process."""
    office = Office(*fleet(*(bound(f"w{number:04}") for number in range(PAGE + 1))))
    waiting = eviction("web")
    office.store.apply([(None, Decision(changes=(Save(waiting),)))], by=Actor("test"))

    office.store.create(member(4))
    while office.round.ended_at is not None or office.round.checked != PAGE:
        office.wait(0.5)
    at = office.now
    while office.round.ended_at is None:
        office.wait(0.5)

    assert office.now - at >= BUSY_STEP - timedelta(seconds=0.5)


def test_a_hold_that_expires_is_noticed_without_a_change() -> None:
    until = START + timedelta(hours=2)
    office = Office(*fleet(bound("web"), hold(expires_at=until)))
    assert office.rows("web")["web"].named == "OnHold"

    office.now = until
    office.wait(30)

    assert office.verdicts("web") == {"web": "Ready"}


def test_a_part_of_an_application_that_moves_makes_the_other_parts_due() -> None:
    annotations = {PROPAGATION_POLICY_NAME_ANNOTATION: "shop"}
    parts = [bound(name).with_meta(annotations=annotations) for name in ("web", "api")]
    office = Office(*fleet(*parts))
    began = office.round.began_at
    assert began is not None

    office.change(parts[0], clusters=())
    office.wait(60)

    assert office.round.began_at is not None
    assert office.round.began_at > began


def test_a_binding_that_cannot_be_assessed_says_so_and_stops_no_other() -> None:
    broken = bound("broken").with_spec(replica_requirements=ReplicaRequirements(resource_request={"cpu": "much"}))
    office = Office(*fleet(broken, bound("web")))

    rows = office.rows("broken", "web")

    assert (rows["broken"].verdict, rows["broken"].named) == ("Blocked", "NotAssessed")
    assert "much" in rows["broken"].obstacles[0].message
    assert rows["web"].verdict == "Ready"


def test_a_deleted_binding_has_no_answer() -> None:
    office = Office(*fleet(bound("web")))

    office.delete(bound("web"))
    office.wait(30)

    assert office.rows("web") == {}


def tally(name: str, count: int, *, settings: Settings = FAILOVER, **spec: Any) -> AnswerTally:
    situation = Situation(MEMBERS, (not_ready_policy(),))
    one = bound(name).with_spec(**spec)
    row = row_of(one, readiness(one, FailureOutlook(situation, settings, now=START), fleet_wide=False))
    return AnswerTally(row.verdict, row.named, count, (row,))


def test_the_answer_about_the_fleet_counts_by_verdict_and_by_remedy() -> None:
    attached = {"placement": None, "clusters": (), "required_by": (BindingSnapshot("default", "web"),)}
    tallies = (tally("web", 7), tally("fixed", 2, placement=duplicated("member1")), tally("conf", 1, **attached))
    stored = StoredAnswers(tallies, ReadinessRound(ROUND, began_at=START, ended_at=START, settled_at=START), 10)

    found = fleet_status(stored, ())

    assert (found.bindings, found.ready, found.bindings_covered, found.bindings_total) == (9, 7, 10, 10)
    assert {one.verdict: one.bindings for one in found.verdicts} == {"Ready": 7, "Blocked": 2, "Attached": 1}
    assert [(one.what, one.bindings) for one in found.obstacles] == [("NoRefuge", 2)]
    assert found.obstacles[0].examples == ("work.karmada.io/ResourceBinding:default/fixed",)
    assert (found.bindings_outdated, found.message, found.oldest_answer_time) == (0, "", START)


def test_what_stops_the_whole_fleet_is_not_stored_and_counts_for_all_bindings() -> None:
    stored = StoredAnswers((tally("web", 7),), ReadinessRound(ROUND), 9)
    shut = fleet_obstacles(Situation(MEMBERS), Settings(), now=START)

    found = fleet_status(stored, shut, switched_on=False)

    assert (found.bindings, found.ready) == (7, 0)
    assert [(one.what, one.bindings) for one in found.obstacles] == [("GateOff", 7)]
    assert "covers 7 of 9 bindings" in found.message
    assert "LIFEBOAT_CONTROLLERS" in found.message


def test_the_digest_of_the_fleet_is_that_of_what_matters() -> None:
    digests, situation = FleetDigest(), Situation(MEMBERS, (not_ready_policy(),))

    def of(one: Situation, settings: Settings = FAILOVER) -> str:
        return digests.digest(one, settings, groups_changed_at=None, now=START)

    renewed = [replace(one, metadata=replace(one.metadata, resource_version="9")) for one in MEMBERS]
    assert of(replace(situation, clusters=renewed)) == of(situation)
    assert of(replace(situation, clusters=MEMBERS[1:])) != of(situation)
    assert of(situation, Settings()) != of(situation)
    assert of(replace(situation, policies=())) != of(situation)


def edited(office: Office, random: Random, number: int) -> None:
    """Make one random change of a binding, a cluster, a policy or a hold, as users, members and controllers do."""
    one = bound(f"w{random.randrange(8)}")
    member_ = office.stored(random.choice(MEMBERS))
    match random.randrange(8):
        case 0:
            office.change(
                one, clusters=random.choice(((TargetCluster("member2", 2),), (TargetCluster("member1", 2),), ()))
            )
        case 1:
            office.change(one, placement=random.choice((ANYWHERE, duplicated("member1"), duplicated("member2"))))
        case 2:
            office.change(one, suspension=random.choice((None, BindingSuspension(scheduling=True))))
        case 3:
            office.change(member_, taints=random.choice(((), (no_execute(),))))
        case 4:
            ready = Condition("Ready", random.choice(("True", "False")))
            chosen = random.choice(((), (ready,), (ready, Condition("AccessLost", "True"))))
            office.store.put(member_.with_status(conditions=chosen), member_)
        case 5:
            office.store.put(member_.with_meta(labels={"tier": str(number)}), member_)
        case 6:
            ends = office.now + timedelta(seconds=random.randrange(5, 200))
            office.store.create(hold(f"h{number}", expires_at=ends))
        case 7:
            policy = office.stored(not_ready_policy())
            effect = random.choice(("NoExecute", "PreferNoExecute", "NoSchedule"))
            spec = replace(policy.spec, taints_to_add=(TaintToAdd("down", effect),))
            office.store.put(replace(policy, spec=spec).with_meta(generation=number + 2), policy)


@pytest.mark.parametrize("seed", range(4))
def test_the_stored_answers_are_those_that_would_be_computed_now(seed: int) -> None:
    random, names = Random(seed), [f"w{number}" for number in range(8)]
    office = Office(*fleet(*(bound(name) for name in names)))

    for number in range(20):
        edited(office, random, number)
        office.wait(30)

        rows = office.rows(*names)
        for name in names:
            one = office.stored(bound(name))
            found = readiness(
                one, FailureOutlook(situation_of(office.store, [one]), FAILOVER, now=office.now), fleet_wide=False
            )
            assert replace(row_of(one, found), since=rows[name].since) == rows[name]

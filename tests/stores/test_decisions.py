"""Decisions: all of one or nothing, in order, under guards, by whom it may be; or only rehearsed. Every claim holds in
memory and in PostgreSQL."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.engine.decision import Decision, Delete, Drop, Event, Guard, Put, Save, unchanged
from controlplane.engine.routing import OwnershipError
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER
from controlplane.kinds.rows import CapacityReservation
from tests.builders.bare import binding, cluster, template
from tests.builders.objects import eviction
from tests.stores.grounds import PLACER, USER, create, stored, write

DELETED = datetime(2026, 2, 1, tzinfo=UTC)


class TestDecisions:
    def test_one_losing_change_drops_the_whole_decision(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))
        promise = CapacityReservation(key="a|b", binding="a", cluster="b")

        outcome = write(
            store,
            Put(template("beside"), None),
            Put(old.with_spec(replicas=6), old),
            Save(promise),
            events=(Event(old, "Scaled", "to 6"),),
        )

        assert outcome.lost.startswith("conflict")
        assert stored(store, template("beside")) is None
        assert store.rows(CapacityReservation, "key", ["a|b"]) == {}
        assert not store.list("Event")

    def test_one_losing_decision_leaves_the_others_alone(self, store: Any) -> None:
        create(store, template("b"))
        decisions = [Decision(changes=(Put(template(name), None),)) for name in ("a", "b", "c")]

        outcomes = store.apply([(None, one) for one in decisions], by=USER)

        assert [bool(one.lost) for one in outcomes] == [False, True, False]
        assert [one.metadata.name for one in store.list("ConfigMap")] == ["a", "b", "c"]
        versions = [change.version for change in store.changes(0)]
        assert versions == sorted(versions)
        assert outcomes[2].versions == (versions[-1],)

    def test_a_lost_decision_uses_no_version(self, store: Any) -> None:
        (old,) = create(store, template("b"))
        before = int(old.metadata.resource_version)

        lost = store.apply([(None, Decision(changes=(Put(template("b"), None),)))], by=USER)
        (later,) = create(store, template("c"))

        assert lost[0].lost.startswith("exists")
        assert int(later.metadata.resource_version) == before + 1

    def test_an_event_that_a_batch_reports_twice_is_counted_twice(self, store: Any) -> None:
        (about,) = create(store, template("a"))
        decisions = [Decision(events=(Event(about, "Seen", "again"),)) for _ in range(3)]

        store.apply([(None, one) for one in decisions], by=USER)

        assert [event.count for event in store.list("Event")] == [3]

    def test_versions_follow_the_order_of_decisions(self, store: Any) -> None:
        decisions = [Decision(changes=(Put(template(f"t{number}"), None),)) for number in (3, 1, 2)]

        outcomes = store.apply([(None, one) for one in decisions], by=USER)

        versions = [one.versions[0] for one in outcomes]
        assert versions == sorted(versions)
        assert [change.ref.name for change in store.changes(0)] == ["t3", "t1", "t2"]

    def test_versions_follow_the_order_of_changes_across_tables(self, store: Any) -> None:
        outcome = write(store, Put(template("a"), None), Put(cluster("member1"), None), Put(template("b"), None))

        assert list(outcome.versions) == sorted(outcome.versions)
        assert [change.ref.name for change in store.changes(0)] == ["a", "member1", "b"]

    def test_a_later_decision_sees_what_an_earlier_one_wrote(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        first = Decision(changes=(Put(old.with_spec(replicas=5), old),))
        second = Decision(changes=(Put(old.with_spec(replicas=6), old),))
        third = Decision(changes=(Put(old.with_status(scheduler_observed_generation=1), old),))

        outcomes = store.apply([(None, first), (None, second), (None, third)], by=USER)

        assert [bool(one.lost) for one in outcomes] == [False, True, False]
        found = stored(store, old)
        assert (found.spec.replicas, found.status.scheduler_observed_generation) == (5, 1)

    def test_hundreds_of_decisions_are_written_in_order(self, store: Any) -> None:
        decisions = [Decision(changes=(Put(template(f"t{number:04}"), None),)) for number in range(1500)]

        outcomes = store.apply([(None, one) for one in decisions], by=USER)

        versions = [one.versions[0] for one in outcomes]
        assert versions == sorted(versions)
        assert len(store.list("ConfigMap")) == 1500

    def test_an_empty_decision_writes_nothing(self, store: Any) -> None:
        outcome = store.apply([(None, Decision())], by=USER)[0]

        assert (outcome.lost, outcome.versions) == ("", ())
        assert store.changes(0) == []


class TestGuards:
    def test_a_guard_that_holds_lets_the_decision_through(self, store: Any) -> None:
        (member,) = create(store, cluster("member1"))

        assert write(store, Put(template("a"), None), guards=(Guard(member.ref, 1),)).lost == ""

    def test_a_guarded_object_whose_generation_moved_stops_the_decision(self, store: Any) -> None:
        (member,) = create(store, cluster("member1"))
        write(store, Put(member.with_spec(region="us"), member))

        outcome = write(store, Put(template("a"), None), guards=(Guard(member.ref, 1),))

        assert outcome.lost.startswith("guard")
        assert stored(store, template("a")) is None

    def test_a_status_report_does_not_trip_a_guard(self, store: Any) -> None:
        (member,) = create(store, cluster("member1"))
        write(store, Put(member.with_status(kubernetes_version="v1.34"), member))

        assert write(store, Put(template("a"), None), guards=(Guard(member.ref, 1),)).lost == ""

    @pytest.mark.parametrize(("exists", "lost"), [(False, False), (True, True)])
    def test_a_guard_on_absence(self, store: Any, exists: bool, lost: bool) -> None:
        if exists:
            create(store, cluster("member1"))

        outcome = write(store, Put(template("a"), None), guards=(Guard(cluster("member1").ref, None),))

        assert bool(outcome.lost) is lost

    def test_a_guard_on_what_went_stops_the_decision(self, store: Any) -> None:
        outcome = write(store, Put(template("a"), None), guards=(Guard(cluster("member1").ref, 1),))

        assert outcome.lost.startswith("guard")

    @pytest.mark.parametrize("before", [(), ("member1",)])
    def test_a_guard_on_a_whole_kind_sees_what_is_new_in_it(self, store: Any, before: tuple[str, ...]) -> None:
        known = create(store, *map(cluster, before))
        guards = (unchanged(CLUSTER, known),)
        assert write(store, Put(template("a"), None), guards=guards).lost == ""

        create(store, cluster("member2"))
        outcome = write(store, Put(template("b"), None), guards=guards)

        assert outcome.lost.startswith("guard")
        assert stored(store, template("b")) is None

    def test_a_guard_on_a_whole_kind_sees_what_is_changed_in_it(self, store: Any) -> None:
        one, two = create(store, cluster("member1"), cluster("member2"))
        write(store, Put(one.with_spec(region="us"), one))

        assert write(store, Put(template("a"), None), guards=(unchanged(CLUSTER, (one, two)),)).lost

    def test_a_guard_sees_what_an_earlier_decision_of_the_batch_wrote(self, store: Any) -> None:
        (member,) = create(store, cluster("member1"))
        moves = Decision(changes=(Put(member.with_spec(region="us"), member),))
        rests = Decision(changes=(Put(template("a"), None),), guards=(Guard(member.ref, 1),))

        outcomes = store.apply([(None, moves), (None, rests)], by=USER)

        assert [bool(one.lost) for one in outcomes] == [False, True]


class TestOwnership:
    @pytest.mark.parametrize(
        "change",
        [
            lambda old, member: Put(old.with_spec(replicas=9), old),
            lambda old, member: Put(old.with_meta(labels={"a": "b"}), old),
            lambda old, member: Delete(old),
            lambda old, member: Put(member.with_status(kubernetes_version="v1.34"), member),
            lambda old, member: Save(eviction("web")),
            lambda old, member: Drop(eviction("web")),
        ],
        ids=["spec field", "labels", "delete", "kind", "save row", "drop row"],
    )
    def test_a_controller_is_refused_what_it_does_not_declare(self, store: Any, change: Any) -> None:
        old, member = create(store, binding("web"), cluster("member1"))

        with pytest.raises(OwnershipError, match="placer"):
            write(store, change(old, member), by=PLACER)

        assert stored(store, old) == old

    def test_a_controller_writes_what_it_declares(self, store: Any) -> None:
        (old,) = create(store, binding("web"))

        placed = write(store, Put(old.with_spec(clusters=binding("web", "member1").spec.clusters), old), by=PLACER)
        made = write(store, Put(binding("other"), None), by=PLACER)

        assert (placed.lost, made.lost) == ("", "")

    def test_a_writer_that_is_no_controller_is_refused_as_one(self, store: Any) -> None:
        with pytest.raises(OwnershipError, match="nobody"):
            write(store, Put(template("a"), None), by=Actor("nobody", controller=True))

    def test_a_user_may_write_everything(self, store: Any) -> None:
        (old,) = create(store, binding("web"))

        assert write(store, Put(old.with_spec(replicas=9), old), by=USER).lost == ""


class TestRehearsing:
    def test_a_dry_run_shows_the_result_and_writes_nothing(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        decision = Decision(
            changes=(Put(old.with_spec(replicas=5), old), Put(template("a"), None), Save(CapacityReservation(key="x"))),
            events=(Event(old, "Scaled", "to 5"),),
        )

        outcome = store.apply([(None, decision)], by=USER, dry_run=True)[0]

        assert outcome.lost == ""
        assert outcome.objects[0].spec.replicas == 5
        assert stored(store, old) == old
        assert stored(store, template("a")) is None
        assert store.rows(CapacityReservation, "key", ["x"]) == {}
        assert len(store.changes(0)) == 1

    def test_a_dry_run_names_who_would_lose(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))
        decision = Decision(changes=(Put(old.with_spec(replicas=6), old),))

        assert store.apply([(None, decision)], by=USER, dry_run=True)[0].lost.startswith("conflict")

    def test_a_dry_run_makes_nothing_due(self, store: Any) -> None:
        store.apply([(None, Decision(changes=(Put(binding("web"), None),)))], by=USER, dry_run=True)

        assert store.next_due(["placer"]) is None


def test_clusters_are_found_by_what_their_taints_do(store: Any) -> None:
    create(store, cluster("member1", "NoExecute"), cluster("member2"), cluster("member3", "NoExecute", "NoSchedule"))

    found = store.by_index(CLUSTER, "taint", ["NoExecute", "PreferNoExecute"])

    assert {key: [one.metadata.name for one in members] for key, members in found.items()} == {
        "NoExecute": ["member1", "member3"]
    }

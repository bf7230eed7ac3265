"""Due rows and leases: nothing marked is lost, nothing is worked on twice. In memory and in PostgreSQL alike."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Delete, Event, Put, Save
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor, Claim, HeldLease, LeaseLost
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.builders.bare import binding, cluster, template
from tests.stores.grounds import PLACER, USER, Ground, Placer, create, due_refs, stored, write

WEB = Ref(RESOURCE_BINDING, "shop", "web")
API = Ref(RESOURCE_BINDING, "shop", "api")
LONG = 3600.0


def claim(store: Any, *, limit: int = 100, lease_seconds: float = LONG, shard: int = 0, shards: int = 1) -> list[Claim]:
    found = store.claim("placer", shard=shard, shards=shards, limit=limit, lease_seconds=lease_seconds)
    return list(found.claims)


def finish(store: Any, claims: list[Claim], **fields: Any) -> None:
    store.apply([(one, Decision(**fields)) for one in claims], by=PLACER)


class TestMarking:
    def test_a_change_makes_its_watchers_due(self, store: Any) -> None:
        create(store, binding("web"))

        assert due_refs(store) == [WEB]

    def test_a_deletion_makes_its_watchers_due(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        finish(store, claim(store))

        write(store, Delete(old))

        assert due_refs(store) == [WEB]

    def test_what_is_not_watched_makes_nothing_due(self, store: Any) -> None:
        create(store, template("a"))

        assert due_refs(store) == []

    def test_a_lost_change_makes_nothing_due(self, store: Any) -> None:
        create(store, binding("web"))
        finish(store, claim(store))

        assert write(store, Put(binding("web"), None)).lost

        assert due_refs(store) == []

    def test_a_controllers_own_write_does_not_ask_it_again(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        (one,) = claim(store)
        placed = old.with_spec(clusters=binding("web", "member1").spec.clusters)

        store.apply([(one, Decision(changes=(Put(placed, old),)))], by=PLACER)

        assert due_refs(store) == []

    def test_a_merged_write_asks_its_controller_again(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        (one,) = claim(store)
        write(store, Put(old.with_meta(labels={"a": "b"}), old))
        placed = old.with_spec(clusters=binding("web", "member1").spec.clusters)

        store.apply([(one, Decision(changes=(Put(placed, old),)))], by=PLACER)

        assert due_refs(store) == [WEB]

    def test_a_kept_row_makes_its_watchers_due(self, store: Any) -> None:
        write(store, Save(Observation(key="member1", status="False")), by=Actor("observer", controller=True))

        assert due_refs(store) == [Ref(CLUSTER, "", "member1")]

    def test_marking_by_hand(self, store: Any) -> None:
        store.mark("placer", [WEB, API])

        assert set(due_refs(store)) == {WEB, API}

    def test_an_earlier_due_time_wins(self, ground: Ground) -> None:
        store = ground.store
        now = store.now()
        store.mark("placer", [WEB], due_at=now + timedelta(seconds=100))
        store.mark("placer", [WEB], due_at=now + timedelta(seconds=50))
        store.mark("placer", [WEB], due_at=now + timedelta(seconds=200))

        ground.pass_time(60)

        assert due_refs(store) == [WEB]

    def test_what_is_due_later_is_not_claimed_before(self, ground: Ground) -> None:
        store = ground.store
        store.mark("placer", [WEB], due_at=store.now() + timedelta(seconds=100))

        assert due_refs(store) == []
        ground.pass_time(101)
        assert due_refs(store) == [WEB]


class TestClaiming:
    def test_what_is_claimed_is_hidden_from_others(self, store: Any) -> None:
        store.mark("placer", [WEB])

        assert [one.ref for one in claim(store)] == [WEB]
        assert claim(store) == []

    def test_an_unfinished_claim_comes_back(self, ground: Ground) -> None:
        ground.store.mark("placer", [WEB])
        claim(ground.store, lease_seconds=30)

        ground.pass_time(31)

        assert [one.ref for one in claim(ground.store)] == [WEB]

    def test_the_oldest_come_first(self, ground: Ground) -> None:
        store = ground.store
        now = store.now()
        for number, seconds in enumerate((30, 10, 20)):
            store.mark("placer", [Ref(RESOURCE_BINDING, "shop", f"b{number}")], due_at=now + timedelta(seconds=seconds))
        ground.pass_time(60)

        assert [one.ref.name for one in claim(store, limit=2)] == ["b1", "b2"]
        assert [one.ref.name for one in claim(store, limit=2)] == ["b0"]

    def test_claims_carry_the_time_of_the_tick(self, store: Any) -> None:
        before = store.now()

        found = store.claim("placer", shard=0, shards=1, limit=1, lease_seconds=1)

        assert before <= found.now <= store.now()
        assert found.now.tzinfo is not None

    def test_controllers_have_rows_of_their_own(self, store: Any) -> None:
        store.mark("placer", [WEB])
        store.mark("observer", [API])

        assert due_refs(store, "observer") == [API]
        assert due_refs(store) == [WEB]

    def test_shards_share_the_work_without_overlap(self, store: Any) -> None:
        refs = {Ref(RESOURCE_BINDING, "shop", f"b{number}") for number in range(50)}
        store.mark("placer", refs)

        shares = [{one.ref for one in claim(store, shard=shard, shards=4)} for shard in range(4)]

        assert set.union(*shares) == refs
        assert sum(map(len, shares)) == len(refs)
        assert all(shares)


class TestFinishing:
    def test_a_finished_claim_is_gone(self, ground: Ground) -> None:
        ground.store.mark("placer", [WEB])

        finish(ground.store, claim(ground.store))

        ground.pass_time(LONG)
        assert due_refs(ground.store) == []
        assert ground.store.next_due(["placer"]) is None

    def test_a_mark_made_meanwhile_is_not_lost(self, store: Any) -> None:
        store.mark("placer", [WEB])
        claims = claim(store)
        store.mark("placer", [WEB])

        finish(store, claims)

        assert due_refs(store) == [WEB]

    def test_a_mark_made_meanwhile_beats_wake_at(self, store: Any) -> None:
        store.mark("placer", [WEB])
        claims = claim(store)
        store.mark("placer", [WEB])

        finish(store, claims, wake_at=store.now() + timedelta(hours=1))

        assert due_refs(store) == [WEB]

    def test_a_recreated_row_is_not_finished_by_an_old_claim(self, ground: Ground) -> None:
        store = ground.store
        store.mark("placer", [WEB])
        slow = claim(store, lease_seconds=10)
        ground.pass_time(11)
        finish(store, claim(store))
        store.mark("placer", [WEB])

        finish(store, slow)

        assert due_refs(store) == [WEB]

    def test_wake_at_is_when_to_look_again(self, ground: Ground) -> None:
        store = ground.store
        store.mark("placer", [WEB])

        finish(store, claim(store), wake_at=store.now() + timedelta(seconds=100))

        assert due_refs(store) == []
        ground.pass_time(101)
        assert due_refs(store) == [WEB]

    def test_a_decision_that_lost_is_due_again_at_once(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        (one,) = claim(store)
        write(store, Put(old.with_status(scheduler_observed_generation=1), old))
        finish(store, claim(store))
        stale = Decision(changes=(Put(old.with_status(scheduler_observed_generation=2), old),))

        outcome = store.apply([(one, stale)], by=PLACER)[0]

        assert outcome.lost
        assert due_refs(store) == [WEB]

    def test_a_dry_run_finishes_nothing(self, store: Any) -> None:
        store.mark("placer", [WEB])
        claims = claim(store)

        store.apply([(claims[0], Decision())], by=PLACER, dry_run=True)
        store.release(claims)

        assert due_refs(store) == [WEB]

    def test_released_claims_are_due_at_once(self, store: Any) -> None:
        store.mark("placer", [WEB, API])

        store.release(claim(store))

        assert set(due_refs(store)) == {WEB, API}

    def test_what_was_marked_meanwhile_is_not_left_alone(self, store: Any) -> None:
        """A user has corrected what the controller could not load."""
        create(store, binding("web"))
        claims = claim(store)
        store.mark("placer", [WEB])

        store.release(claims, due_at=store.now() + timedelta(seconds=100))

        assert [one.ref for one in claim(store)] == [WEB]

    def test_released_claims_can_be_left_alone_for_a_while(self, ground: Ground) -> None:
        store = ground.store
        store.mark("placer", [WEB])

        store.release(claim(store), due_at=store.now() + timedelta(seconds=100))

        assert due_refs(store) == []
        ground.pass_time(101)
        assert due_refs(store) == [WEB]


class TestNextDue:
    def test_nothing_waits_in_an_empty_store(self, store: Any) -> None:
        assert store.next_due(["placer"]) is None

    def test_the_earliest_counts(self, store: Any) -> None:
        soon = store.now() + timedelta(seconds=50)
        store.mark("placer", [WEB], due_at=soon + timedelta(seconds=50))
        store.mark("observer", [API], due_at=soon)

        assert store.next_due(["placer", "observer"]) == soon

    def test_what_is_claimed_counts_when_its_lease_ends(self, store: Any) -> None:
        store.mark("placer", [WEB])
        claim(store, lease_seconds=100)

        found = store.next_due(["placer"])

        assert timedelta(seconds=90) < found - store.now() <= timedelta(seconds=100)

    @pytest.mark.parametrize(("free_in", "expected"), [(50, 50), (150, 100)])
    def test_of_a_claimed_row_and_a_free_one_the_earlier_counts(self, store: Any, free_in: int, expected: int) -> None:
        store.mark("placer", [WEB])
        claim(store, lease_seconds=100)
        store.mark("placer", [API], due_at=store.now() + timedelta(seconds=free_in))

        found = store.next_due(["placer"])

        assert timedelta(seconds=expected - 10) < found - store.now() <= timedelta(seconds=expected)


class TestFanningOut:
    def test_an_origin_is_worked_off_in_chunks(self, store: Any) -> None:
        origin = Ref(CLUSTER, "", "member1")
        store.mark("placer", [origin])
        (first,) = claim(store)
        assert first.cursor == ""

        store.advance([first], [WEB], cursor="shop/web")

        again = {one.ref: one for one in claim(store)}
        assert set(again) == {WEB, origin}
        assert again[origin].cursor == "shop/web"

        store.advance([again[origin]], [API], cursor=None)
        assert [one.ref for one in claim(store)] == [API]

    @pytest.mark.parametrize("cursor", [None, "shop/web"])
    def test_an_origin_marked_meanwhile_starts_over(self, store: Any, cursor: str | None) -> None:
        """Whichever chunk it was at: those before have not seen what it was marked for."""
        origin = Ref(CLUSTER, "", "member1")
        store.mark("placer", [origin])
        (first,) = claim(store)
        store.mark("placer", [origin])

        store.advance([first], [], cursor=cursor)

        (again,) = claim(store)
        assert (again.ref, again.cursor) == (origin, "")

    def test_an_origin_marked_between_two_chunks_starts_over(self, store: Any) -> None:
        """Seed 386: a taint went after the first chunk had seen it, and what it had queued stayed queued."""
        origin = Ref(CLUSTER, "", "member1")
        store.mark("placer", [origin])
        (first,) = claim(store)
        store.advance([first], [], cursor="shop/web")
        store.mark("placer", [origin])

        (again,) = claim(store)

        assert (again.ref, again.cursor) == (origin, "")

    @pytest.mark.parametrize("cursor", [None, "shop/web"])
    def test_of_several_origins_only_the_one_marked_meanwhile_starts_over(self, store: Any, cursor: str | None) -> None:
        origins = [Ref(CLUSTER, "", f"member{number}") for number in (3, 1, 2)]
        store.mark("placer", origins)
        claims = claim(store)
        store.mark("placer", [origins[2]])

        store.advance(claims, [WEB], cursor=cursor)

        left = {one.ref: one.cursor for one in claim(store)}
        others = {} if cursor is None else dict.fromkeys(origins[:2], cursor)
        assert left == {WEB: "", origins[2]: "", **others}

    def test_a_cluster_makes_every_binding_on_it_due(self, store: Any) -> None:
        create(store, *(binding(f"b{number:02}", "member1") for number in range(20)), binding("else", "member2"))
        finish(store, claim(store))
        create(store, cluster("member1"))

        run_batch(Placer(), store, Settings(), world=World())

        assert len(due_refs(store)) == 20
        assert Ref(RESOURCE_BINDING, "shop", "else") not in due_refs(store)


class TestLeases:
    def test_one_holder_at_a_time(self, store: Any) -> None:
        assert store.take_lease("fleet", 0, holder="a", seconds=10) is not None
        assert store.take_lease("fleet", 0, holder="b", seconds=10) is None
        assert store.take_lease("fleet", 1, holder="b", seconds=10) is not None

    def test_a_holder_renews_under_the_same_epoch(self, store: Any) -> None:
        first = store.take_lease("fleet", 0, holder="a", seconds=10)

        assert store.take_lease("fleet", 0, holder="a", seconds=10) == first

    def test_an_expired_lease_passes_on_under_a_new_epoch(self, ground: Ground) -> None:
        first = ground.store.take_lease("fleet", 0, holder="a", seconds=10)
        ground.pass_time(11)

        second = ground.store.take_lease("fleet", 0, holder="b", seconds=10)

        assert second.epoch > first.epoch
        assert ground.store.take_lease("fleet", 0, holder="a", seconds=10) is None

    def test_a_holder_that_slept_gets_a_new_epoch(self, ground: Ground) -> None:
        first = ground.store.take_lease("fleet", 0, holder="a", seconds=10)
        ground.pass_time(11)

        assert ground.store.take_lease("fleet", 0, holder="a", seconds=10).epoch > first.epoch

    def test_a_name_is_known_to_be_held_and_until_when_it_was(self, ground: Ground) -> None:
        assert ground.store.lease_held_until("fleet") is None

        for shard, seconds in ((0, 100), (1, 10)):
            ground.store.take_lease("fleet", shard, holder="a", seconds=seconds)
        ground.store.take_lease("failover", 0, holder="a", seconds=1000)
        left = ground.store.lease_held_until("fleet") - ground.store.now()
        assert timedelta(seconds=90) < left <= timedelta(seconds=100)

        ground.pass_time(300)
        gone = ground.store.now() - ground.store.lease_held_until("fleet")
        assert timedelta(seconds=200) <= gone < timedelta(seconds=210)

    def test_a_dropped_lease_is_free_at_once(self, store: Any) -> None:
        lease = store.take_lease("fleet", 0, holder="a", seconds=10)

        store.drop_lease(lease, holder="a")

        assert store.take_lease("fleet", 0, holder="b", seconds=10) is not None

    def test_no_holder_drops_the_lease_of_another(self, ground: Ground) -> None:
        old = ground.store.take_lease("fleet", 0, holder="a", seconds=10)
        ground.pass_time(11)
        ground.store.take_lease("fleet", 0, holder="b", seconds=10)

        ground.store.drop_lease(old, holder="a")

        assert ground.store.take_lease("fleet", 0, holder="c", seconds=10) is None

    def test_a_batch_is_written_under_a_lease_that_is_held(self, store: Any) -> None:
        lease = store.take_lease("fleet", 0, holder="a", seconds=10)

        outcome = store.apply([(None, Decision(changes=(Put(template("a"), None),)))], by=USER, lease=lease)[0]

        assert outcome.lost == ""

    @pytest.mark.parametrize("passed_on", [True, False])
    def test_a_batch_under_a_lost_lease_writes_nothing(self, ground: Ground, passed_on: bool) -> None:
        store = ground.store
        store.mark("placer", [WEB])
        (one,) = claim(store)
        lease = store.take_lease("fleet", 0, holder="a", seconds=10)
        ground.pass_time(11)
        if passed_on:
            store.take_lease("fleet", 0, holder="b", seconds=10)

        with pytest.raises(LeaseLost):
            store.apply([(one, Decision(changes=(Put(binding("web"), None),)))], by=PLACER, lease=lease)

        assert stored(store, WEB) is None
        store.release([one])
        assert due_refs(store) == [WEB]

    @pytest.mark.parametrize(("group", "shard"), [("fleet", 1), ("failover", 0)])
    def test_a_lease_of_another_shard_or_group_is_no_lease_for_a_batch(
        self, ground: Ground, group: str, shard: int
    ) -> None:
        store = ground.store
        passed = store.take_lease("fleet", 0, holder="a", seconds=10)
        ground.pass_time(11)
        other = store.take_lease(group, shard, holder="a", seconds=10)
        assert other.epoch == passed.epoch

        with pytest.raises(LeaseLost):
            store.apply([(None, Decision(changes=(Put(binding("web"), None),)))], by=USER, lease=passed)

        store.apply([(None, Decision(changes=(Put(binding("web"), None),)))], by=USER, lease=other)
        assert stored(store, WEB) is not None

    def test_a_lease_that_was_never_taken_fences(self, store: Any) -> None:
        with pytest.raises(LeaseLost):
            store.apply([(None, Decision())], by=USER, lease=HeldLease("fleet", 0, 1))


class TestRunning:
    def test_a_failing_object_is_left_alone_for_a_while_and_reported(self, store: Any) -> None:
        class Failing(Placer):
            def decide(self, snapshot: Any, settings: Settings, *, now: Any, answer: Any = None) -> Decision:
                if snapshot.metadata.name == "web":
                    raise ValueError("no such thing")
                return Decision(changes=(Put(snapshot.with_status(scheduler_observed_generation=1), snapshot),))

        create(store, binding("web"), binding("api"))

        report = run_batch(Failing(), store, Settings(), world=World())

        assert [failure.ref for failure in report.failures] == [WEB]
        assert stored(store, API).status.scheduler_observed_generation == 1
        assert due_refs(store) == []
        assert store.next_due(["placer"]) > store.now()

    def test_looking_twice_changes_nothing(self, store: Any) -> None:
        class Stamping(Placer):
            def decide(self, snapshot: Any, settings: Settings, *, now: Any, answer: Any = None) -> Decision:
                new = snapshot.with_status(scheduler_observed_generation=snapshot.metadata.generation)
                return Decision(changes=(Put(new, snapshot),), events=(Event(snapshot, "Seen", "seen"),)[:0])

        controller: Controller = Stamping()
        create(store, binding("web"))
        run_batch(controller, store, Settings(), world=World())
        before = len(store.changes(0))

        store.mark("placer", [WEB])
        run_batch(controller, store, Settings(), world=World())

        assert len(store.changes(0)) == before

"""Reading, the change log, events and row-native values: in memory and in PostgreSQL alike."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import OwnerReference, Ref
from controlplane.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from controlplane.engine.decision import Decision, Delete, Drop, Event, Put, Save
from controlplane.engine.state import Selection
from controlplane.kind import encode
from controlplane.kinds import BINDINGS, RESOURCE_BINDING, WORK
from controlplane.kinds.rows import (
    HELD,
    ROWS,
    CapacityReservation,
    Eviction,
    FleetState,
    Judgement,
    MatchWindow,
    Observation,
    Stop,
)
from tests.builders.bare import binding, cluster, meta, template
from tests.builders.objects import eviction, work
from tests.stores.grounds import PLACER, USER, create, stored, write

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROTECTED = {"resourcetemplate.karmada.io/deletion-protected": "Always"}


def names(found: Any) -> list[str]:
    return [f"{one.metadata.namespace}/{one.metadata.name}" for one in found]


class TestGetting:
    def test_only_what_exists_is_returned(self, store: Any) -> None:
        (found,) = create(store, template("a"))

        assert store.get([found.ref, template("b").ref]) == {found.ref: found}

    def test_nothing_asked_nothing_returned(self, store: Any) -> None:
        assert store.get([]) == {}

    def test_kinds_can_be_mixed(self, store: Any) -> None:
        objects = create(store, template("a"), cluster("member1"), binding("web"))

        assert store.get([one.ref for one in objects]) == {one.ref: one for one in objects}


class TestListing:
    @pytest.fixture
    def filled(self, store: Any) -> Any:
        placed = [("b", "z"), ("a", "y"), ("b", "a"), ("B", "q"), ("a-1", "x"), ("a", "Z")]
        create(store, *(template(name, namespace=space, uid=f"{space}{name}") for space, name in placed))
        create(store, template("other", kind="Secret"))
        return store

    def test_order_is_by_code_point(self, filled: Any) -> None:
        assert names(filled.list("ConfigMap")) == ["B/q", "a/Z", "a/y", "a-1/x", "b/a", "b/z"]

    def test_one_namespace(self, filled: Any) -> None:
        assert names(filled.list("ConfigMap", namespace="a")) == ["a/Z", "a/y"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
    def test_pages_put_together_are_the_whole(self, filled: Any, limit: int) -> None:
        found: list[Any] = []
        after = ("", "")
        while page := filled.list("ConfigMap", after=after, limit=limit):
            assert len(page) <= limit
            found += page
            after = (page[-1].metadata.namespace, page[-1].metadata.name)

        assert names(found) == names(filled.list("ConfigMap"))

    def test_a_kind_without_objects(self, filled: Any) -> None:
        assert list(filled.list("Pod")) == []


class TestIndexes:
    @pytest.fixture
    def filled(self, store: Any) -> Any:
        create(
            store,
            binding("c", "member1", "member2"),
            binding("a", "member1"),
            binding("b", "member2"),
            binding("d", "member1", namespace="aaa"),
            binding("e"),
        )
        return store

    def test_objects_are_found_under_each_value_in_order(self, filled: Any) -> None:
        found = filled.by_index(RESOURCE_BINDING, "placed", ["member1", "member2", "member3"])

        assert {key: names(objects) for key, objects in found.items()} == {
            "member1": ["aaa/d", "shop/a", "shop/c"],
            "member2": ["shop/b", "shop/c"],
        }

    def test_of_each_value_the_first_ones_are_enough(self, filled: Any) -> None:
        found = filled.by_index(RESOURCE_BINDING, "placed", ["member1", "member2", "member3"], limit=2)

        assert {key: names(objects) for key, objects in found.items()} == {
            "member1": ["aaa/d", "shop/a"],
            "member2": ["shop/b", "shop/c"],
        }

    def test_a_change_moves_an_object_in_the_index(self, filled: Any) -> None:
        old = stored(filled, binding("a"))
        write(filled, Put(old.with_spec(clusters=binding("a", "member9").spec.clusters), old))

        found = filled.by_index(RESOURCE_BINDING, "placed", ["member1", "member9"])

        assert names(found["member1"]) == ["aaa/d", "shop/c"]
        assert names(found["member9"]) == ["shop/a"]

    def test_references_come_page_by_page(self, filled: Any) -> None:
        first = filled.refs_by_index(RESOURCE_BINDING, "placed", "member1", limit=2)
        second = filled.refs_by_index(RESOURCE_BINDING, "placed", "member1", after=("shop", "a"), limit=2)

        assert [ref.name for ref in first] == ["d", "a"]
        assert [ref.name for ref in second] == ["c"]

    def test_objects_of_several_kinds_come_page_by_page(self, filled: Any) -> None:
        whole = replace(binding("z", "member1"), kind="ClusterResourceBinding", metadata=meta("z", ""))
        create(filled, whole)

        first = filled.page_by_index(BINDINGS, "placed", ["member1", "member2"], limit=2)
        second = filled.page_by_index(BINDINGS, "placed", ["member1", "member2"], after=first[-1].ref, limit=2)
        rest = filled.page_by_index(BINDINGS, "placed", ["member1", "member2"], after=second[-1].ref)

        assert [names(page) for page in (first, second, rest)] == [["/z", "aaa/d"], ["shop/a", "shop/b"], ["shop/c"]]
        assert list(filled.page_by_index(BINDINGS, "placed", ["nowhere"])) == []

    @pytest.mark.parametrize(
        ("after", "count"), [(("", ""), 3), (("aaa", "d"), 2), (("shop", "b"), 1), (("z", "z"), 0)]
    )
    def test_what_is_beyond_a_place_is_counted(self, filled: Any, after: tuple[str, str], count: int) -> None:
        assert filled.count_by_index(RESOURCE_BINDING, "placed", "member1", after=after) == count
        assert filled.count_by_index(RESOURCE_BINDING, "placed", "nowhere", after=after) == 0

    def test_what_no_object_has_is_not_found(self, filled: Any) -> None:
        assert filled.by_index(RESOURCE_BINDING, "placed", ["nowhere"]) == {}
        assert list(filled.refs_by_index(RESOURCE_BINDING, "placed", "nowhere")) == []


class TestSelected:
    def test_each_selection_has_what_its_labels_choose_in_its_namespace(self, store: Any) -> None:
        shop = {"namespace": "shop", "labels": {"app": "web"}}
        create(
            store,
            template("b", uid="uid-b", **shop),
            template("a", uid="uid-a", **shop),
            template("c", uid="uid-c", namespace="shop"),
            template("a", uid="uid-other", namespace="other", labels={"app": "web"}),
            template("s", uid="uid-s", kind="Secret", **shop),
        )
        web = LabelSelector(match_labels={"app": "web"})
        plain = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "DoesNotExist"),))
        asked = [
            Selection("ConfigMap", "shop", web),
            Selection("ConfigMap", "shop", plain),
            Selection("Secret", "shop", web),
            Selection("Secret", "other", web),
        ]

        found = store.selected(asked)

        assert {one: names(objects) for one, objects in found.items()} == {
            asked[0]: ["shop/a", "shop/b"],
            asked[1]: ["shop/c"],
            asked[2]: ["shop/s"],
        }
        assert store.selected([]) == {}


class TestOwned:
    def test_dependents_of_any_kind_are_found_those_first_that_can_be_deleted(self, store: Any) -> None:
        (owner,) = create(store, template("top"))
        one = OwnerReference(owner.api_version, owner.kind, "top", owner.metadata.uid)
        going = {"deletion_timestamp": NOON, "finalizers": ("example.io/hold",)}
        create(
            store,
            template("a", uid="uid-a").with_meta(owner_references=(one,), **going),
            template("aa", uid="uid-aa").with_meta(owner_references=(one,), labels=PROTECTED),
            template("b", uid="uid-b").with_meta(owner_references=(one,)),
            template("c", uid="uid-c", kind="Secret").with_meta(owner_references=(one,)),
            template("d", uid="uid-d"),
        )

        found = store.owned([str(owner.ref), "ConfigMap:default/other"], limit=10)

        assert [dependent.metadata.name for dependent in found.pop(str(owner.ref))] == ["b", "c", "aa", "a"]
        assert found == {}
        first = store.owned([str(owner.ref)], limit=1)[str(owner.ref)]
        assert [dependent.metadata.name for dependent in first] == ["b"]

    def test_an_owner_of_another_namespace_is_another_one(self, store: Any) -> None:
        one = OwnerReference("v1", "ConfigMap", "top", "uid-top")
        create(store, template("a", namespace="shop").with_meta(owner_references=(one,)))

        assert [*store.owned(["ConfigMap:shop/top", "ConfigMap:other/top"], limit=10)] == ["ConfigMap:shop/top"]
        assert [*store.owned(["ConfigMap:top"], limit=10)] == ["ConfigMap:top"]  # were it cluster-scoped


def test_the_kinds_of_manifests_per_cluster(store: Any) -> None:
    job = {"apiVersion": "apps/v1", "kind": "Job", "metadata": {"name": "c"}}
    create(store, work("a", "member1"), work("b", "member1"), work("c", "member2", manifest=job))

    assert set(store.kinds_on_members()) == {("member1", "apps/v1", "Deployment"), ("member2", "apps/v1", "Job")}
    assert [ref.name for ref in store.works_of(("member1", "apps/v1", "Deployment"))] == ["a", "b"]
    assert list(store.works_of(("member2", "apps/v1", "Deployment"))) == []
    assert len(store.list(WORK)) == 3


class TestChangeLog:
    def test_every_version_is_there_once_and_in_order(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))
        write(store, Put(binding("web"), None))
        write(store, Put(old, old), Put(template("a"), None))
        write(store, Delete(stored(store, old)))

        found = store.changes(0)

        assert [change.version for change in found] == [1, 2, 3, 4]
        assert [change.type for change in found] == ["ADDED", "MODIFIED", "ADDED", "DELETED"]

    def test_a_line_has_the_document_before_and_after(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))
        new = stored(store, old)

        line = store.changes(1)[0]

        assert line.old_document == encode(old).at(1)
        assert line.document == encode(new).at(2)

    def test_a_removal_shows_the_last_state_under_its_own_version(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        outcome = write(store, Delete(old))

        line = store.changes(1)[0]

        assert (line.version, line.document) == (outcome.versions[0], encode(old).at(2))
        assert line.old_document == encode(old).at(1)

    def test_a_line_says_who_why_and_because_of_what(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        new = old.with_status(scheduler_observed_generation=1)

        write(store, Put(new, old), by=PLACER, reason="Scheduled", cause=1)

        line = store.changes(1)[0]
        assert (line.actor, line.reason, line.cause) == ("placer", "Scheduled", 1)
        assert store.changes(0)[0].actor == USER.name

    def test_reading_on_from_a_version(self, store: Any) -> None:
        create(store, *(template(f"t{number}") for number in range(5)))

        assert [change.version for change in store.changes(2, limit=2)] == [3, 4]
        assert list(store.changes(5)) == []


class TestEvents:
    def test_an_event_is_an_object_beside_what_it_is_about(self, store: Any) -> None:
        (old,) = create(store, binding("web"))

        write(store, events=(Event(old, "Scheduled", "placed on member1", warning=True),), by=PLACER)

        (event,) = store.list("Event", namespace="shop")
        assert (event.reason, event.message, event.type, event.count) == (
            "Scheduled",
            "placed on member1",
            "Warning",
            1,
        )
        assert event.involved_object.uid == old.metadata.uid
        assert store.by_index("Event", "about", [old.metadata.uid]) == {old.metadata.uid: [event]}

    def test_a_repeated_event_is_counted(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        reported = Event(old, "Failed", "no cluster fits")

        for _ in range(3):
            write(store, events=(reported,))

        (event,) = store.list("Event")
        assert event.count == 3

    def test_an_event_reported_twice_in_one_batch_is_counted(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        reported = Event(old, "Failed", "no cluster fits")

        store.apply([(None, Decision(events=(reported, reported))), (None, Decision(events=(reported,)))], by=USER)

        (event,) = store.list("Event")
        assert event.count == 3

    @pytest.mark.parametrize("field", ["reason", "message", "reporter", "about"])
    def test_what_differs_is_another_event(self, store: Any, field: str) -> None:
        web, api = create(store, binding("web"), binding("api"))
        first = Event(web, "Failed", "no cluster fits")
        second = {
            "reason": Event(web, "Held", "no cluster fits"),
            "message": Event(web, "Failed", "no cluster at all"),
            "about": Event(api, "Failed", "no cluster fits"),
        }.get(field, first)

        write(store, events=(first,))
        write(store, events=(second,), by=PLACER if field == "reporter" else USER)

        assert [event.count for event in store.list("Event")] == [1, 1]

    def test_events_of_a_lost_decision_are_not_reported(self, store: Any) -> None:
        (old,) = create(store, binding("web"))

        write(store, Put(binding("web"), None), events=(Event(old, "Made", "made"),))

        assert list(store.list("Event")) == []


def queued(name: str, priority: int, minutes: float | None, cluster: str = "member1", **fields: Any) -> Eviction:
    due_at = None if minutes is None else NOON + timedelta(minutes=minutes)
    return eviction(name, cluster, **{"priority": priority, "due_at": due_at, "queued_at": None, **fields})


def as_stored(row: Any) -> Any:
    """Return a row as it is read back: the store notes which controller wrote a reservation."""
    return replace(row, writer=USER.name) if isinstance(row, CapacityReservation) else row


def name_of(row: Eviction) -> str:
    """Return the name of the binding of a queue row."""
    return Ref.parse(row.binding).name


class TestRows:
    @pytest.mark.parametrize("type_", ROWS, ids=lambda type_: type_.__name__)
    def test_every_type_has_a_place(self, store: Any, type_: Any) -> None:
        row = type_(key="a")

        write(store, Save(row))

        assert store.rows(type_, "key", ["a", "b"]) == {"a": [as_stored(row)]}

    def test_values_survive_storing(self, store: Any) -> None:
        judged = (Judgement("example.io/failed", "NoExecute", NOON, NOON + timedelta(seconds=30)),)
        rows = [
            queued("web", -5, 1, judged=judged, message="grüße", queued_at=NOON),
            Observation(key="member1", status="False", since=NOON + timedelta(microseconds=1)),
            MatchWindow(key="policy|member1", policy="policy", cluster="member1", matching=True, since=NOON),
            FleetState(key="default", blind_since=NOON, stops=(Stop(NOON, "grüße"), Stop(NOON, "", until=NOON))),
            CapacityReservation(
                key="web|member1", binding="web", cluster="member1", replicas=3, request='{"cpu":"1"}', made_at=NOON
            ),
        ]

        write(store, *(Save(row) for row in rows))

        for row in rows:
            assert store.rows(type(row), "key", [row.key]) == {row.key: [as_stored(row)]}

    def test_the_last_writer_wins(self, store: Any) -> None:
        write(store, Save(Observation(key="member1", status="True")))
        write(store, Save(Observation(key="member1", status="False")))
        write(
            store, Save(Observation(key="member1", status="Unknown")), Save(Observation(key="member1", status="True"))
        )

        assert store.rows(Observation, "key", ["member1"])["member1"][0].status == "True"

    def test_a_dropped_value_is_gone(self, store: Any) -> None:
        row = Observation(key="member1")
        write(store, Save(row))

        write(store, Drop(row))
        write(store, Drop(row))

        assert store.rows(Observation, "key", ["member1"]) == {}

    def test_values_are_found_by_their_indexes_in_order(self, store: Any) -> None:
        write(store, Save(queued("b", 0, 1)), Save(queued("a", 0, 2)), Save(queued("c", 0, 3, state=HELD)))

        assert [name_of(row) for row in store.rows(Eviction, "cluster", ["member1"])["member1"]] == ["a", "b", "c"]
        assert [name_of(row) for row in store.rows(Eviction, "state", [HELD])[HELD]] == ["c"]

    def test_the_values_of_an_index_come_once_each(self, store: Any) -> None:
        assert set(store.values(Eviction, "state")) == set()

        write(store, Save(queued("b", 0, 1)), Save(queued("a", 0, 2)), Save(queued("c", 0, 3, state=HELD)))

        assert set(store.values(Eviction, "state")) == {"Queued", HELD}
        assert len(set(store.values(Eviction, "key"))) == 3

    def test_an_undeclared_index_is_refused(self, store: Any) -> None:
        with pytest.raises(AssertionError, match="message"):
            store.rows(Eviction, "message", ["x"])
        with pytest.raises(AssertionError, match="message"):
            store.values(Eviction, "message")

    def test_values_have_no_version_and_no_log(self, store: Any) -> None:
        outcome = write(store, Save(Observation(key="member1")))

        assert (outcome.versions, outcome.objects) == ((0,), (None,))
        assert list(store.changes(0)) == []


class TestEvictionQueue:
    @pytest.fixture
    def queue(self, store: Any) -> Any:
        rows = [
            queued("low-late", 0, 3),
            queued("low-early", 0, 1),
            queued("low-tie-b", 0, 2),
            queued("low-tie-a", 0, 2),
            queued("high", 10, 4),
            queued("negative", -1, 0),
            queued("future", 10, 60),
            queued("held", 10, 0, state=HELD),
            queued("stays", 10, None),
        ]
        write(store, *(Save(row) for row in rows))
        return store

    def test_heads_come_by_priority_then_by_due_time(self, queue: Any) -> None:
        found = queue.queue_heads(limit=100)

        assert [name_of(row) for row in found] == [
            "high",
            "future",
            "low-early",
            "low-tie-a",
            "low-tie-b",
            "low-late",
            "negative",
        ]

    def test_the_limit_is_per_priority(self, queue: Any) -> None:
        found = queue.queue_heads(limit=2)

        assert [name_of(row) for row in found] == ["high", "future", "low-early", "low-tie-a", "negative"]

    def test_each_cluster_has_its_share_of_the_limit(self, queue: Any) -> None:
        write(queue, *(Save(queued(f"other-{n}", 0, n, cluster="member2")) for n in range(3)))

        found = queue.queue_heads(limit=4, per_cluster=True)

        names = [name_of(row) for row in found]
        assert names == ["high", "future", "other-0", "low-early", "other-1", "low-tie-a", "negative"]
        alone = queue.queue_heads(limit=1, per_cluster=True)
        assert [name_of(row) for row in alone] == ["high", "other-0", "low-early", "negative"]

    def test_held_ones_come_page_by_page_in_the_queues_order(self, queue: Any) -> None:
        write(queue, *(Save(queued(f"held-{n}", n % 2, 9 - n, state=HELD)) for n in range(4)))

        pages, after = [], None
        while page := queue.held_evictions(after=after, limit=2):
            pages.append([name_of(row) for row in page])
            after = (page[-1].priority, page[-1].due_at, page[-1].key)

        assert pages == [["held", "held-3"], ["held-1", "held-2"], ["held-0"]]

    def test_what_was_queued_within_some_seconds_comes_page_by_page(self, queue: Any) -> None:
        def at(second: float, name: str, **fields: Any) -> Save:
            return Save(queued(name, 0, **{"minutes": 0, "queued_at": NOON + timedelta(seconds=second), **fields}))

        others = [at(3, "later"), at(-0.001, "before"), at(1, "held", state=HELD), at(1, "stays", minutes=None)]
        write(queue, at(0, "c"), at(2.999, "a"), at(1, "b"), *others)

        pages, after = [], ""
        while page := queue.queued_between(NOON, NOON + timedelta(seconds=3), after=after, limit=2):
            pages.append([name_of(row) for row in page])
            after = page[-1].key

        assert pages == [["a", "b"], ["c"]]

    def test_the_next_eviction_is_the_earliest_that_is_not_held(self, queue: Any) -> None:
        assert queue.next_eviction() == NOON
        write(queue, Drop(queued("negative", -1, 0)))
        assert queue.next_eviction() == NOON + timedelta(minutes=1)

    def test_evictions_are_counted_per_cluster(self, queue: Any) -> None:
        assert queue.evictions_by_cluster() == {"member1": 8}

    def test_an_empty_queue(self, store: Any) -> None:
        assert list(store.queue_heads(limit=5)) == []
        assert store.next_eviction() is None
        assert store.evictions_by_cluster() == {}


def test_references_survive_as_text() -> None:
    for ref in (Ref("ConfigMap", "shop", "a"), Ref(RESOURCE_BINDING, "", "b")):
        assert Ref.parse(str(ref)) == ref

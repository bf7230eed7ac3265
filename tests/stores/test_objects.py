"""Writing objects: who wins, who loses, and what stays as it was. Every claim holds in memory and in PostgreSQL."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.engine.decision import Delete, Put
from controlplane.kinds import RESOURCE_BINDING
from tests.builders.bare import binding, cluster, template
from tests.stores.grounds import create, stored, write

DELETED = datetime(2026, 2, 1, tzinfo=UTC)


class TestCreating:
    def test_what_is_created_is_read_back_with_its_version(self, store: Any) -> None:
        made = binding("web", "member1", labels={"app": "web"}, annotations={"note": "grüße 🚢"})

        outcome = write(store, Put(made, None))

        found = stored(store, made)
        assert found == made.with_meta(resource_version=str(outcome.versions[0]))
        assert outcome.objects == (found,)

    @pytest.mark.parametrize(
        "obj",
        [
            cluster("member1", "NoExecute"),
            binding("web", "member1", "member2"),
            template("settings"),
            template("web", {"spec": {"replicas": 2, "nested": {"list": [1, 2.5, None, True]}}}, kind="Pod"),
        ],
        ids=lambda obj: obj.kind,
    )
    def test_every_shape_survives_storing(self, store: Any, obj: Any) -> None:
        (found,) = create(store, obj)

        assert stored(store, obj) == found
        assert found.with_meta(resource_version="") == obj

    def test_a_name_that_is_taken_is_not_created_again(self, store: Any) -> None:
        create(store, binding("web"))

        outcome = write(store, Put(binding("web", uid="another"), None))

        assert outcome.lost.startswith("exists")
        assert stored(store, binding("web")).metadata.uid == "uid-shop-web"

    def test_the_same_name_in_another_namespace_is_another_object(self, store: Any) -> None:
        create(store, template("a", namespace="one"), template("a", namespace="two", uid="second"))

        assert stored(store, template("a", namespace="two")).metadata.uid == "second"

    def test_an_undeclared_kind_is_kept_as_it_is(self, store: Any) -> None:
        gadget = template("a", {"spec": {"size": 3}}).__class__(
            "example.io/v1", "Gadget", template("a").metadata, content={"spec": {"size": 3}}
        )

        create(store, gadget)

        assert stored(store, gadget).content == {"spec": {"size": 3}}


class TestChanging:
    def test_a_change_of_what_was_read_is_stored(self, store: Any) -> None:
        (old,) = create(store, binding("web", "member1"))

        outcome = write(store, Put(old.with_spec(replicas=5), old))

        found = stored(store, old)
        assert (found.spec.replicas, found.metadata.generation) == (5, 2)
        assert int(found.metadata.resource_version) == outcome.versions[0] > int(old.metadata.resource_version)

    def test_spec_and_status_writers_do_not_fight(self, store: Any) -> None:
        (old,) = create(store, binding("web", "member1"))

        spec = write(store, Put(old.with_spec(replicas=5), old))
        status = write(store, Put(old.with_status(scheduler_observed_generation=1), old))

        found = stored(store, old)
        assert (spec.lost, status.lost) == ("", "")
        assert (found.spec.replicas, found.status.scheduler_observed_generation) == (5, 1)
        assert found.metadata.generation == 2

    def test_two_writers_of_labels_and_annotations_both_win(self, store: Any) -> None:
        (old,) = create(store, template("a"))

        write(store, Put(old.with_meta(labels={"app": "web"}), old))
        write(store, Put(old.with_meta(annotations={"note": "kept"}), old))

        found = stored(store, old).metadata
        assert (found.labels, found.annotations) == ({"app": "web"}, {"note": "kept"})

    def test_a_template_keeps_the_status_that_was_reported_while_its_spec_was_edited(self, store: Any) -> None:
        (old,) = create(store, template("web", {"spec": {"replicas": 2}}, kind="Deployment"))

        status = write(store, Put(replace(old, status={"readyReplicas": 2}), old))
        spec = write(store, Put(old.with_content({"spec": {"replicas": 3}}), old))

        found = stored(store, old)
        assert (spec.lost, status.lost) == ("", "")
        assert (found.spec, found.status, found.metadata.generation) == ({"replicas": 3}, {"readyReplicas": 2}, 2)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (lambda old: old.with_spec(replicas=5), lambda old: old.with_spec(replicas=6)),
            (lambda old: old.with_spec(replicas=5), lambda old: old.with_spec(replicas=5)),
            (
                lambda old: old.with_status(scheduler_observed_generation=5),
                lambda old: old.with_status(scheduler_observed_generation=6),
            ),
            (lambda old: old.with_meta(labels={"a": "1"}), lambda old: old.with_meta(labels={"a": "2"})),
            (lambda old: old.with_meta(finalizers=("one",)), lambda old: old.with_meta(finalizers=("two",))),
            (
                lambda old: old.with_meta(labels={"a": "1"}, managed_fields=({"manager": "jane"},)),
                lambda old: old.with_spec(replicas=6).with_meta(managed_fields=({"manager": "john"},)),
            ),
        ],
        ids=["spec", "the same spec", "status", "labels", "finalizers", "who set what"],
    )
    def test_the_second_writer_of_the_same_part_loses(self, store: Any, first: Any, second: Any) -> None:
        (old,) = create(store, binding("web", "member1"))
        write(store, Put(first(old), old))
        after_first = stored(store, old)

        outcome = write(store, Put(second(old), old))

        assert outcome.lost.startswith("conflict")
        assert stored(store, old) == after_first

    def test_an_exact_write_loses_to_any_change_at_all(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_status(scheduler_observed_generation=1), old))

        outcome = write(store, Put(old.with_spec(replicas=5), old, exact=True))

        assert outcome.lost.startswith("conflict")

    def test_an_object_that_went_is_not_changed(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Delete(old))

        outcome = write(store, Put(old.with_spec(replicas=5), old))

        assert outcome.lost.startswith("gone")
        assert stored(store, old) is None

    @pytest.mark.parametrize("upon", [("annotations",), ("status",), ("annotations", "status")])
    def test_a_write_that_rests_on_parts_it_does_not_write_loses_where_they_moved(
        self, store: Any, upon: tuple[str, ...]
    ) -> None:
        (old,) = create(store, binding("web"))
        put = Put(old.with_spec(replicas=5), old, upon=upon)
        others = {
            "annotations": lambda one: one.with_meta(annotations={"by": "jane"}),
            "status": lambda one: one.with_status(scheduler_observed_generation=1),
        }
        for part, change in others.items():
            if part not in upon:
                write(store, Put(change(stored(store, old)), stored(store, old)))
        assert write(store, put).lost == ""

        (old,) = create(store, binding("api"))
        put = Put(old.with_spec(replicas=5), old, upon=upon)
        write(store, Put(others[upon[-1]](old), old))

        assert write(store, put).lost.startswith("conflict")
        assert stored(store, old).spec.replicas == 2

    def test_an_order_about_a_copy_that_has_just_left_loses(self, store: Any) -> None:
        (old,) = create(store, binding("web", "member1"))
        order = Put(old.with_meta(annotations={"order": "hold"}), old, upon=("spec",))
        write(store, Put(old.with_spec(clusters=()), old))

        assert write(store, order).lost.startswith("conflict")
        assert stored(store, old).metadata.annotations == {}

    def test_an_unknown_part_cannot_be_rested_upon(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))

        with pytest.raises(AssertionError, match="parts of an object"):
            write(store, Put(old.with_status(scheduler_observed_generation=1), old, upon=("annotation",)))

    def test_a_recreated_object_is_not_changed(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Delete(old))
        create(store, binding("web", uid="another"))

        outcome = write(store, Put(old.with_spec(replicas=5), old))

        assert outcome.lost.startswith("uid")

    def test_a_write_that_changes_nothing_keeps_the_version(self, store: Any) -> None:
        (old,) = create(store, binding("web"))

        outcome = write(store, Put(old, old))

        assert (outcome.lost, outcome.versions, outcome.objects) == ("", (0,), (old,))
        assert stored(store, old) == old
        assert len(store.changes(0)) == 1

    def test_a_write_that_changes_nothing_more_keeps_the_version(self, store: Any) -> None:
        (old,) = create(store, template("a"))
        write(store, Put(old.with_meta(labels={"a": "1"}), old))
        before = stored(store, old)

        outcome = write(store, Put(old.with_meta(labels={"a": "1"}), old))

        assert (outcome.lost, outcome.versions) == ("", (0,))
        assert stored(store, old) == before

    def test_a_merged_write_returns_what_is_stored(self, store: Any) -> None:
        (old,) = create(store, binding("web", "member1"))
        write(store, Put(old.with_spec(replicas=5), old))

        outcome = write(store, Put(old.with_status(scheduler_observed_generation=1), old))

        assert outcome.objects == (stored(store, old),)


class TestDeleting:
    def test_an_object_without_finalizers_goes_at_once(self, store: Any) -> None:
        (old,) = create(store, binding("web", "member1"))

        outcome = write(store, Delete(old))

        assert (outcome.lost, outcome.objects) == ("", (None,))
        assert stored(store, old) is None
        assert store.by_index(RESOURCE_BINDING, "placed", ["member1"]) == {}

    def test_finalizers_keep_an_object_and_its_deletion_raises_the_generation(self, store: Any) -> None:
        (old,) = create(store, binding("web", finalizers=("example.io/hold",)))
        doomed = old.with_meta(deletion_timestamp=DELETED)

        write(store, Delete(doomed))

        found = stored(store, old).metadata
        assert (found.deletion_timestamp, found.generation) == (DELETED, 2)

    def test_the_last_finalizer_takes_the_object_along(self, store: Any) -> None:
        (old,) = create(store, binding("web", finalizers=("one", "two")))
        write(store, Delete(old.with_meta(deletion_timestamp=DELETED)))
        dying = stored(store, old)
        write(store, Put(dying.with_meta(finalizers=("two",)), dying))
        assert stored(store, old) is not None

        dying = stored(store, old)
        outcome = write(store, Put(dying.with_meta(finalizers=()), dying))

        assert outcome.lost == ""
        assert stored(store, old) is None
        assert store.changes(0)[-1].type == "DELETED"

    def test_deleting_twice_changes_nothing_the_second_time(self, store: Any) -> None:
        (old,) = create(store, binding("web", finalizers=("one",)))
        doomed = old.with_meta(deletion_timestamp=DELETED)
        write(store, Delete(doomed))
        before = stored(store, old)

        outcome = write(store, Delete(doomed))

        assert (outcome.lost, outcome.versions) == ("", (0,))
        assert stored(store, old) == before

    def test_deleting_what_is_not_there_is_no_loss(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Delete(old))

        assert write(store, Delete(old)).lost == ""

    def test_a_stale_delete_takes_the_object_as_it_is(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))

        assert write(store, Delete(old)).lost == ""
        assert stored(store, old) is None

    def test_an_exact_delete_loses_to_a_change(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Put(old.with_spec(replicas=5), old))

        assert write(store, Delete(old, exact=True)).lost.startswith("conflict")
        assert stored(store, old) is not None

    def test_a_delete_of_an_earlier_object_of_that_name_loses(self, store: Any) -> None:
        (old,) = create(store, binding("web"))
        write(store, Delete(old))
        create(store, binding("web", uid="another"))

        assert write(store, Delete(old)).lost.startswith("uid")
        assert stored(store, old) is not None

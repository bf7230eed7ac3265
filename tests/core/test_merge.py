"""The merge of a change with what another writer stored meanwhile, part by part."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.engine.decision import Delete, Put, Save
from controlplane.engine.merge import Lost, Remove, Same, Staged, Write, merge_change, stage
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import Observation
from tests.builders.objects import START, binding
from tests.builders.placements import duplicated
from tests.builders.templates import template

ROW = Observation(key="member1")

READ = binding("web", duplicated("member1"), on={"member1": 2}).with_meta(resource_version="1")


def test_the_same_edit_of_a_spec_by_two_writers_is_a_conflict() -> None:
    """The decision of the second was made from a spec that is not stored any more."""
    edited = READ.with_spec(replicas=5)

    assert merge_change(Put(edited, READ), edited.with_meta(resource_version="2")) == Lost("conflict")


def test_the_same_edit_of_labels_by_two_writers_is_none() -> None:
    labelled = READ.with_meta(labels={"a": "b"})

    assert not isinstance(merge_change(Put(labelled, READ), labelled.with_meta(resource_version="2")), Lost)


def test_a_merged_edit_raises_the_generation_as_often_as_its_writer_did() -> None:
    current = READ.with_status(scheduler_observed_generation=1).with_meta(resource_version="2")
    twice = READ.with_spec(replicas=5).with_spec(replicas=6)

    result = merge_change(Put(twice, READ), current)

    assert isinstance(result, Write)
    assert result.merged
    assert result.new.metadata.generation - READ.metadata.generation == 2


@pytest.mark.parametrize("uid", ["another", "uid-later", "zzz"])
def test_an_object_that_was_deleted_and_created_again_is_another_one(uid: str) -> None:
    again = READ.with_meta(uid=uid)

    assert merge_change(Put(READ.with_spec(replicas=5), READ), again) == Lost("uid")
    assert merge_change(Delete(READ), again) == Lost("uid")


def test_a_deletion_removes_what_has_no_finalizers() -> None:
    newer = READ.with_meta(resource_version="2")

    assert merge_change(Delete(READ), newer) == Remove(newer)
    assert merge_change(Delete(READ, exact=True), newer) == Lost("conflict")
    assert merge_change(Delete(READ), None) == Same(None)


@pytest.mark.parametrize(("read", "now"), [("2", "10"), ("9", "10"), ("99", "100"), ("10", "11")])
def test_versions_are_compared_for_equality_and_have_no_order_as_texts(read: str, now: str) -> None:
    old = READ.with_meta(resource_version=read)
    current = old.with_meta(resource_version=now, labels={"by": "another"})

    merged = merge_change(Put(old.with_spec(replicas=5), old), current)

    assert isinstance(merged, Write)
    assert merged.merged
    assert merged.new.metadata.labels == {"by": "another"}
    assert merge_change(Put(old.with_spec(replicas=5), old, exact=True), current) == Lost("conflict")
    assert merge_change(Delete(old, exact=True), current) == Lost("conflict")


def test_an_edit_that_leaves_the_document_as_it_is_writes_nothing() -> None:
    equal = replace(READ, metadata=replace(READ.metadata, labels=dict(READ.metadata.labels)))

    assert merge_change(Put(READ, READ), READ) == Same(READ)
    assert merge_change(Put(equal, READ), READ) == Same(READ)
    assert isinstance(merge_change(Put(READ.with_spec(replicas=5), READ), READ), Write)


def test_equal_objects_with_different_documents_are_an_edit() -> None:
    """Python considers true equal to 1. Both are values that a user may write in an object of any kind."""
    old = template("ConfigMap", "settings", data={"debug": 1})
    new = template("ConfigMap", "settings", data={"debug": True})
    assert new == old

    assert isinstance(merge_change(Put(new, old), old), Write)

    labelled = old.with_meta(resource_version="2", labels={"by": "another"})
    merged = merge_change(Put(new, old), labelled)
    assert isinstance(merged, Write)
    assert (merged.new.metadata.labels, merged.new.content) == ({"by": "another"}, {"data": {"debug": True}})
    assert merged.new.content["data"]["debug"] is True

    third = template("ConfigMap", "settings", data={"debug": 2})
    assert merge_change(Put(third, old), new.with_meta(resource_version="2")) == Lost("conflict")


def test_a_part_that_was_read_twice_is_no_edit_of_it() -> None:
    """Each writer, and the store, has decoded a document of its own: equal values are not the same value."""
    read_again = replace(READ, spec=replace(READ.spec))
    newer = read_again.with_meta(resource_version="2", labels={"by": "another"})
    scaled = READ.with_spec(replicas=5)

    edited = merge_change(Put(scaled, READ), newer)
    reported = merge_change(
        Put(read_again.with_status(scheduler_observed_generation=7), READ), scaled.with_meta(resource_version="2")
    )

    assert isinstance(edited, Write)
    assert isinstance(edited.new, Binding)
    assert (edited.new.metadata.labels, edited.new.spec) == ({"by": "another"}, scaled.spec)
    assert isinstance(reported, Write)
    assert isinstance(reported.new, Binding)
    assert (reported.new.spec, reported.new.status.scheduler_observed_generation) == (scaled.spec, 7)


@pytest.mark.parametrize(("asked", "stored"), [(None, 0), (0, 0), (30, 30)])
def test_a_deletion_that_finalizers_delay_keeps_the_time_that_was_asked_for(asked: int | None, stored: int) -> None:
    held = READ.with_meta(finalizers=("example.io/wait",))
    wanted = held.with_meta(deletion_timestamp=START, deletion_grace_period_seconds=asked)

    found = merge_change(Delete(wanted), held)

    assert isinstance(found, Write)
    assert not found.merged
    assert found.new.metadata.deletion_timestamp == START
    assert found.new.metadata.deletion_grace_period_seconds == stored
    assert found.new.metadata.generation == held.metadata.generation + 1
    assert merge_change(Delete(wanted), found.new) == Same(found.new)


def put(old: Binding, new: Binding) -> Put:
    return Put(new, old)


def test_changes_of_one_decision_are_one_write_of_each_object() -> None:
    other = READ.with_meta(name="other-deployment", uid="other")
    stored = {one.ref: one for one in (READ, other)}
    labelled = put(READ, READ.with_meta(labels={"a": "b"}))

    staged = stage(
        [put(other, other), labelled, put(READ, READ.with_status(scheduler_observed_generation=7)), Save(ROW)],
        stored.get,
    )

    assert isinstance(staged, Staged)
    assert staged.results == [other, READ.ref, READ.ref, None]
    (written,) = staged.objects.values()
    assert isinstance(written, Write)
    assert not written.merged  # no other writer was there
    assert written.new.metadata.labels == {"a": "b"}
    assert written.new.status.scheduler_observed_generation == 7


def test_a_decision_with_a_change_that_is_lost_is_lost_and_names_it() -> None:
    assert stage([Save(ROW), Put(READ, None)], {READ.ref: READ}.get) == f"exists {READ.ref}"
    assert stage([put(READ, READ.with_spec(replicas=5))], lambda ref: None) == f"gone {READ.ref}"


def test_a_row_before_an_object_hides_it_not() -> None:
    staged = stage([Save(ROW), put(READ, READ.with_spec(replicas=5))], {READ.ref: READ}.get)

    assert isinstance(staged, Staged)
    assert staged.results == [None, READ.ref]
    assert list(staged.objects) == [READ.ref]


def test_a_new_object_is_written_as_it_is() -> None:
    assert merge_change(Put(READ, None), None) == Write(READ, False)
    assert merge_change(Put(READ, None), READ) == Lost("exists")


def test_an_object_that_is_being_deleted_goes_with_its_last_finalizer() -> None:
    held = READ.with_meta(finalizers=("a", "b"), deletion_timestamp=START)
    one_left, none_left = held.with_meta(finalizers=("b",)), held.with_meta(finalizers=())

    assert merge_change(Put(one_left, held), held) == Write(one_left, False)
    assert merge_change(Put(none_left, held), held) == Remove(none_left)


def test_writers_of_different_parts_do_not_disturb_each_other() -> None:
    current = READ.with_meta(resource_version="2", labels={"by": "another"}, finalizers=("another",))

    def of(new: Binding) -> object:
        return merge_change(Put(new, READ), current)

    noted = of(READ.with_meta(annotations={"by": "me"}))
    assert isinstance(noted, Write)
    assert noted.merged
    metadata = noted.new.metadata
    assert (metadata.labels, metadata.finalizers, metadata.annotations) == (
        {"by": "another"},
        ("another",),
        {"by": "me"},
    )
    assert of(READ.with_meta(labels={"by": "me"})) == Lost("conflict")
    assert of(READ.with_meta(annotations={"by": "me"}, finalizers=("me",))) == Lost("conflict")

"""The merge of a change with what another writer stored meanwhile, part by part."""

from __future__ import annotations

import pytest

from controlplane.engine.decision import Delete, Put
from controlplane.engine.merge import Lost, Remove, Same, Write, merge_change
from tests.builders.objects import binding
from tests.builders.placements import duplicated

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

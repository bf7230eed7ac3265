"""The merge of a change with what another writer stored meanwhile, part by part."""

from __future__ import annotations

from controlplane.engine.decision import Put
from controlplane.engine.merge import Lost, Write, merge_change
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

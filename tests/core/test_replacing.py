"""The requests for an object that a member cannot apply server-side, and how Lifeboat owns its fields later."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clusters.questions import FIELD_MANAGER, Answer, Ensure, Target
from controlplane.clusters.replacing import is_unapplicable, replacement, taken_over

MEMBER = Target("member1", "http://member1")


def entry(operation: str, *fields: str, manager: str = FIELD_MANAGER, subresource: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    found["fieldsV1"] = {"f:data": {f"f:{name}": {} for name in fields}}
    return {**found, "subresource": subresource} if subresource else found


def held(*entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    known = {"name": "settings", "resourceVersion": "7", "managedFields": list(entries), **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": known}


@pytest.mark.parametrize(
    ("code", "problem", "expected"),
    [
        (500, 'duplicate entries for key [name="A"]', True),
        (500, "failed to create typed patch object (default/web; apps/v1, Kind=Deployment)", True),
        (500, "etcdserver: request timed out", False),
        (409, 'duplicate entries for key [name="A"]', False),
        (422, 'duplicate entries for key [name="A"]', False),
    ],
)
def test_only_a_document_whose_fields_have_no_owners_is_created_and_updated(
    code: int, problem: str, expected: bool
) -> None:
    assert is_unapplicable(Answer(code, problem=problem)) is expected


def test_fields_that_an_update_of_ours_set_become_those_of_our_apply() -> None:
    theirs = entry("Update", "theirs", manager="kubectl")

    patch = taken_over(held(theirs, entry("Update", "old"), entry("Apply", "new")))

    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["managedFields"] == [theirs, entry("Apply", "new", "old")]


def test_without_an_apply_of_ours_the_update_becomes_one() -> None:
    patch = taken_over(held(entry("Update", "a"), entry("Update", "b")))

    assert patch is not None
    assert patch["metadata"]["managedFields"] == [entry("Apply", "a", "b")]


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (entry("Apply", "a"),),
        (entry("Update", "a", manager="kubectl"), entry("Apply", "a")),
        (entry("Update", "a", subresource="status"), entry("Apply", "a")),
    ],
    ids=["none", "applied", "of another manager", "of a subresource"],
)
def test_nothing_is_taken_over_where_no_update_of_ours_is_listed(entries: tuple[dict[str, Any], ...]) -> None:
    assert taken_over(held(*entries)) is None


def test_after_it_was_taken_over_nothing_is_left_to_take_over() -> None:
    patch = taken_over(held(entry("Update", "old"), entry("Apply", "new")))

    assert patch is not None
    assert taken_over(held(*patch["metadata"]["managedFields"])) is None


def test_a_replacement_keeps_what_others_added_and_removes_what_an_earlier_manifest_set() -> None:
    earlier = {
        "resourcetemplate.karmada.io/managed-labels": "ours,gone",
        "resourcetemplate.karmada.io/managed-annotations": "note",
        "note": "old",
        "theirs": "stays",
    }
    present = held(
        labels={"ours": "1", "gone": "1", "theirs": "1"}, annotations=earlier, uid="u", finalizers=["theirs"]
    )
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "labels": {"ours": "2"}, "finalizers": ["ours"]},
        "data": {"a": "b"},
    }

    put = replacement(Ensure(MEMBER, manifest, False), present)

    assert put["data"] == {"a": "b"}
    metadata = put["metadata"]
    assert metadata["labels"] == {"theirs": "1", "ours": "2"}
    assert metadata["annotations"]["theirs"] == "stays"
    assert "note" not in metadata["annotations"]
    assert (metadata["uid"], metadata["resourceVersion"], metadata["finalizers"]) == ("u", "7", ["theirs", "ours"])

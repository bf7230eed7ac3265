"""How documents merge, are compared and are pruned by their schema, what a null means, and what is named twice."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.wire.schema import Schema
from controlplane.wire.structured import DuplicateItem, compare, merge, prune, refuse_duplicates, without_nulls
from tests.builders.schemas import DEPLOYMENT, STRING, containers, deployment

SET = Schema({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"})


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("ab", "ab", "ab"),
        ("axb", "ab", "axb"),  # another manager's item stays between the items around it
        ("axb", "ba", "xba"),  # applied items come in their order
        ("bxa", "ab", "xab"),
        ("xa", "na", "xna"),
        ("ax", "an", "axn"),
        ("x", "nm", "xnm"),
        ("aa", "a", "a"),  # stored twice, as an update may have left it
        ("", "ba", "ba"),
    ],
)
def test_applied_items_come_in_their_order_and_other_items_stay_where_they_are(
    live: str, applied: str, merged: str
) -> None:
    assert merge(list(live), list(applied), SET) == list(merged)


def test_lists_within_the_items_of_a_list_merge_by_their_own_keys() -> None:
    live = deployment(template=containers({"name": "web", "env": [{"name": "A", "value": "1"}]}))
    applied = deployment(template=containers({"name": "web", "env": [{"name": "B", "value": "2"}]}))

    merged = merge(live, applied, DEPLOYMENT)

    (container,) = merged["spec"]["template"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"zones": ["a", "a"]}, '.spec.zones: duplicate entries for key [="a"]'),
        (
            {"template": containers({"name": "web", "env": [{"name": "A"}, {"name": "A"}]})},
            '.spec.template.containers[name="web"].env: duplicate entries for key [name="A"]',
        ),
    ],
)
def test_an_item_that_is_applied_twice_is_refused_with_its_path(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(DuplicateItem) as refused:
        refuse_duplicates(deployment(**spec), DEPLOYMENT)

    assert refused.value.where == where


def test_items_that_differ_and_lists_that_are_replaced_as_a_whole_are_not_refused() -> None:
    refuse_duplicates(
        deployment(zones=["a", "b"], template=containers({"name": "web", "args": ["a", "a"]}, {"name": "side"})),
        DEPLOYMENT,
    )


def test_a_null_stays_where_it_is_a_value_and_is_a_field_left_out_elsewhere() -> None:
    item = {"type": "object", "properties": {"limit": {"type": "integer", "nullable": True}, "name": STRING}}
    schema = Schema({"type": "object", "properties": {"limits": {"type": "array", "items": item}, "one": item}})
    given = {"limit": None, "name": None, "unknown": None}

    found = without_nulls({"one": given, "limits": [given, {"limit": 1}], "gone": None}, schema)

    assert found == {"one": {"limit": None}, "limits": [{"limit": None}, {"limit": 1}]}
    assert without_nulls({"a": None, "b": [{"c": None}]}, None) == {"b": [{}]}


def env(*names: str) -> dict[str, Any]:
    """Return a document with these variables of one container."""
    return deployment(template=containers({"name": "web", "env": [{"name": name} for name in names]}))


def variable(name: str, node: dict[str, Any]) -> dict[str, Any]:
    """Return the set with the node of a variable, as managedFields stores it."""
    item = {"f:env": {f'k:{{"name":"{name}"}}': node}}
    return {"f:spec": {"f:template": {"f:containers": {'k:{"name":"web"}': item}}}}


ITEM = {".": {}, "f:name": {}}


def test_an_item_that_is_added_or_removed_within_an_item_has_its_own_path() -> None:
    assert compare(env("A"), env("A", "B"), DEPLOYMENT) == (variable("B", ITEM), {})
    assert compare(env("A", "B"), env("A"), DEPLOYMENT) == ({}, variable("B", ITEM))


def test_a_field_that_is_removed_takes_the_paths_of_its_items_with_it() -> None:
    without = {key: value for key, value in deployment().items() if key != "spec"}

    assert compare(deployment(zones=["a"]), without, DEPLOYMENT) == (
        {},
        {"f:spec": {".": {}, "f:zones": {'v:"a"': {}}}},
    )


def test_a_value_of_another_type_is_a_change_and_removes_only_what_was_below_it() -> None:
    changed, removed = compare(deployment(replicas=1, zones=["a"]), deployment(replicas="1", zones="a"), DEPLOYMENT)

    assert changed == {"f:spec": {"f:replicas": {}, "f:zones": {}}}
    assert removed == {"f:spec": {"f:zones": {'v:"a"': {}}}}


@pytest.mark.parametrize(
    ("value", "lost", "schema", "left"),
    [
        (env("A", "B"), variable("A", ITEM), DEPLOYMENT, env("B")),
        ({"a": 1}, {"f:b": {}}, Schema.OPEN, {"a": 1}),  # the field is gone already
        ({"": 1}, {".": {}}, Schema.OPEN, {"": 1}),
        (["a", "b"], {'v:"a"': {}}, SET, ["b"]),
        (["a", "b"], {'v:"a"': {}}, Schema.OPEN, ["a", "b"]),  # a list that is replaced as a whole
        ({"a": None, "b": None}, {"f:a": {}}, Schema.OPEN, {"b": None}),  # null is a value of its own
        ({"a": {"b": None}}, {"f:a": {"f:b": {}}}, Schema.OPEN, {}),
        (["a", None], {'v:"a"': {}}, SET, [None]),
        (["a", None], {"v:null": {}}, SET, ["a"]),
        ("a", {'v:"a"': {}}, SET, "a"),  # no list, although its schema describes one
    ],
)
def test_only_what_a_manager_has_lost_is_pruned(value: Any, lost: Any, schema: Schema, left: Any) -> None:
    assert prune(value, lost, [], schema) == left

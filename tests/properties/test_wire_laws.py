"""What must hold of patches and of field ownership for any document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import jsonpatch
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.apimachinery.equality import same
from controlplane.wire.fieldset import difference, fields_of, intersection, paths_in, union
from controlplane.wire.managed_fields import server_side_apply, track
from controlplane.wire.patch import json_patch, merge_diff, merge_patch
from controlplane.wire.prune import prune, validate_fields
from tests.builders.schemas import DEPLOYMENT

NOW = datetime(2026, 11, 20, tzinfo=UTC)

words = st.sampled_from(["a", "b", "c", "d"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(words, values, max_size=4)
without_null = st.recursive(
    st.booleans() | st.integers(-3, 3) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


def by_name(fields: dict[str, Any]) -> Any:
    items = st.fixed_dictionaries({"name": words}, optional=fields)
    return st.lists(items, max_size=3, unique_by=lambda item: item["name"])


container = {"image": words, "args": st.lists(words, max_size=2), "env": by_name({"value": words})}
specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 3),
        "paused": st.booleans(),
        "selector": st.dictionaries(words, words, max_size=2),
        "zones": st.lists(words, max_size=3, unique=True),
        "template": st.fixed_dictionaries(
            {}, optional={"containers": by_name(container), "nodeSelector": st.dictionaries(words, words, max_size=2)}
        ),
        "extra": st.dictionaries(words, without_null, max_size=2),
    },
)
intents = specs.map(
    lambda spec: {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
)
managers = st.sampled_from(["alice", "bob", "carol"])


def applied(live: Any, intent: Any, manager: str, *, force: bool = True) -> Any:
    return server_side_apply(
        live, intent, manager=manager, force=force, schema=DEPLOYMENT, now=NOW, api_version="apps/v1"
    )


def history(steps: list[tuple[str, Any, bool]]) -> Any:
    """Return what a list of (manager, intent, applies?) makes of an object."""
    live = None
    for manager, intent, applies in steps:
        if applies or live is None:
            live = applied(live, intent, manager)
        else:
            live = track(live, intent, manager=manager, schema=DEPLOYMENT, now=NOW, api_version="apps/v1")
    return live


steps = st.lists(st.tuples(managers, intents, st.booleans()), min_size=1, max_size=4)


@given(documents, documents)
@example({"a": [{"b": False}]}, {"a": [{"b": 0}]})
def test_a_merge_patch_made_by_diff_gives_the_target(old: dict[str, Any], new: dict[str, Any]) -> None:
    target = merge_patch({}, new)  # a target without nulls, which merge patches cannot say

    assert same(merge_patch(old, merge_diff(old, target)), target)


@given(documents, documents)
def test_a_json_patch_made_by_another_library_gives_the_target(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert json_patch(old, jsonpatch.make_patch(old, new).patch) == new


@given(documents, documents)
def test_a_merge_patch_applied_twice_is_applied_once(old: dict[str, Any], changes: dict[str, Any]) -> None:
    once = merge_patch(old, changes)

    assert same(merge_patch(once, changes), once)


@given(steps, managers, intents)
def test_applying_again_is_a_no_op(before: Any, manager: str, intent: Any) -> None:
    live = applied(history(before), intent, manager)

    assert applied(live, intent, manager, force=False) is live


@given(steps, managers, intents)
def test_the_last_applier_gets_what_it_said_and_owns_it(before: Any, manager: str, intent: Any) -> None:
    live = applied(history(before), intent, manager)

    again = server_side_apply(
        live, intent, manager="witness", force=False, schema=DEPLOYMENT, now=NOW, api_version="apps/v1"
    )
    assert {**again, "metadata": 0} == {**live, "metadata": 0}  # nothing it said differs from what is there
    said = {
        entry["manager"]: entry["fieldsV1"]
        for entry in live["metadata"].get("managedFields", [])
        if entry["operation"] == "Apply"
    }
    wanted = difference(fields_of({"spec": intent["spec"]}, DEPLOYMENT), {})
    assert said.get(manager, {}) == wanted


@given(intents, intents)
def test_one_applier_alone_gets_exactly_its_last_intent(first: Any, second: Any) -> None:
    live = applied(applied(None, first, "alice"), second, "alice")

    assert fields_of({"spec": live.get("spec", {})}, DEPLOYMENT) in (
        fields_of({"spec": second["spec"]}, DEPLOYMENT),
        {"f:spec": {}},
    )


@given(steps)
def test_everything_owned_is_there(before: Any) -> None:
    live = history(before)
    there = set(paths_in(fields_of(live, DEPLOYMENT))) | {""}

    for entry in live["metadata"].get("managedFields", []):
        for path in paths_in(entry["fieldsV1"]):
            assert any(known == path or known.startswith((path + ".", path + "[")) for known in there), path


@given(intents, intents)
def test_field_sets_behave_like_sets(one: Any, other: Any) -> None:
    a, b = fields_of(one, DEPLOYMENT), fields_of(other, DEPLOYMENT)
    in_a, in_b = set(paths_in(a)), set(paths_in(b))

    assert set(paths_in(union(a, b))) == in_a | in_b
    assert set(paths_in(intersection(a, b))) == in_a & in_b
    assert set(paths_in(difference(a, b))) == in_a - in_b


@given(intents, documents)
def test_pruning_removes_all_that_is_unknown_and_only_that(intent: Any, noise: dict[str, Any]) -> None:
    noisy = {**intent, **noise, "spec": {**noise, **intent["spec"]}}

    assert prune(noisy, DEPLOYMENT) == intent
    assert len(validate_fields(noisy, DEPLOYMENT)) == 2 * len(noise)

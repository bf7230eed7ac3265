"""Server-side apply and field ownership."""

from __future__ import annotations

import copy
import gc
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import ref

import pytest

from controlplane.apimachinery.errors import BadRequest, Conflict
from controlplane.wire.managed_fields import ANCIENT, server_side_apply, track
from controlplane.wire.schema import Schema
from tests.builders.schemas import DEPLOYMENT, containers, deployment

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def apply(
    live: Any, intent: Any, manager: str = "alice", *, force: bool = False, now: datetime = NOW, **more: Any
) -> Any:
    schema = more.pop("schema", DEPLOYMENT)
    return server_side_apply(
        live, intent, manager=manager, force=force, schema=schema, now=now, api_version="apps/v1", **more
    )


def update(live: Any, new: Any, manager: str = "controller", *, now: datetime = NOW, subresource: str = "") -> Any:
    return track(live, new, manager=manager, schema=DEPLOYMENT, now=now, api_version="apps/v1", subresource=subresource)


def owned(document: Any, manager: str) -> Any:
    return [entry["fieldsV1"] for entry in document["metadata"].get("managedFields", []) if entry["manager"] == manager]


def test_the_first_apply_creates_and_owns_exactly_what_it_said() -> None:
    made = apply(None, deployment(replicas=2, template=containers({"name": "web", "ports": [{"containerPort": 80}]})))

    assert made["spec"]["replicas"] == 2
    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("alice", "Apply", "apps/v1")
    assert entry["time"] == "2026-11-20T12:00:00Z"
    port = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    web = {".": {}, "f:name": {}, "f:ports": port}
    assert entry["fieldsV1"] == {
        "f:spec": {"f:replicas": {}, "f:template": {"f:containers": {'k:{"name":"web"}': web}}}
    }


def test_nothing_of_a_schema_is_kept_once_it_is_gone() -> None:
    """Each revision of a CustomResourceDefinition brings a schema of its own."""
    schema = Schema({"type": "object", "properties": {"spec": {"type": "object"}}})
    apply(None, {"apiVersion": "example.io/v1", "kind": "Boat", "metadata": {"name": "ferry"}}, schema=schema)
    left = ref(schema)

    del schema
    gc.collect()

    assert left() is None


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    made = apply(None, deployment(replicas=2, zones=["a"]))

    assert apply(made, deployment(replicas=2, zones=["a"]), now=LATER) is made


def test_a_field_no_longer_applied_goes_when_no_other_manager_owns_it() -> None:
    made = apply(None, deployment(replicas=2, paused=True, template=containers({"name": "web"}, {"name": "side"})))

    after = apply(made, deployment(replicas=2, template=containers({"name": "web"})))

    assert after["spec"] == {"replicas": 2, "template": {"containers": [{"name": "web"}]}}


def test_a_field_two_appliers_agree_on_belongs_to_both_and_stays_until_both_let_go() -> None:
    both = apply(apply(None, deployment(replicas=2, paused=True)), deployment(replicas=2), "bob")
    assert owned(both, "alice")[0]["f:spec"]["f:replicas"] == owned(both, "bob")[0]["f:spec"]["f:replicas"] == {}

    one = apply(both, deployment(paused=True))
    assert one["spec"] == {"paused": True, "replicas": 2}

    none = apply(one, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}, "bob")
    assert none["spec"] == {"paused": True}
    assert not owned(none, "bob")


def test_another_value_for_a_field_of_another_manager_is_a_conflict_that_names_owner_and_path() -> None:
    made = apply(None, deployment(replicas=2))

    with pytest.raises(Conflict) as caught:
        apply(made, deployment(replicas=3), "bob")

    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "alice": .spec.replicas'
    [cause] = caught.value.details.causes
    assert (cause.reason, cause.message, cause.field) == (
        "FieldManagerConflict",
        'conflict with "alice"',
        ".spec.replicas",
    )


def test_every_conflict_is_named_with_its_manager() -> None:
    made = apply(None, deployment(template=containers({"name": "web", "image": "a"}), zones=["x"]))
    made = update(made, {**made, "spec": {**made["spec"], "replicas": 5}})

    with pytest.raises(Conflict) as caught:
        apply(made, deployment(replicas=3, template=containers({"name": "web", "image": "b"})), "bob")

    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "alice":\n- .spec.template.containers[name="web"].image\n'
        'conflicts with "controller" using apps/v1 at 2026-11-20T12:00:00Z:\n- .spec.replicas'
    )


def test_force_takes_the_field_over() -> None:
    made = apply(None, deployment(replicas=2, paused=True))

    forced = apply(made, deployment(replicas=3), "bob", force=True)

    assert forced["spec"]["replicas"] == 3
    assert owned(forced, "alice") == [{"f:spec": {"f:paused": {}}}]
    assert owned(forced, "bob") == [{"f:spec": {"f:replicas": {}}}]


def test_items_of_one_list_belong_to_different_appliers() -> None:
    made = apply(None, deployment(template=containers({"name": "web", "image": "w"})))
    both = apply(made, deployment(template=containers({"name": "side", "image": "s"})), "bob")
    assert [item["name"] for item in both["spec"]["template"]["containers"]] == ["web", "side"]

    after = apply(both, deployment(template=containers()))

    assert after["spec"]["template"]["containers"] == [{"name": "side", "image": "s"}]


def test_a_list_item_another_owner_still_needs_loses_only_what_was_dropped() -> None:
    made = apply(None, deployment(template=containers({"name": "web", "image": "w", "args": ["a"]})))
    both = apply(made, deployment(template=containers({"name": "web", "image": "w"})), "bob")

    after = apply(both, deployment(replicas=1))

    assert after["spec"] == {"template": {"containers": [{"name": "web", "image": "w"}]}, "replicas": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (deployment(selector={"a": "1"}), deployment(selector={"a": "1", "b": "2"})),
        (
            deployment(template=containers({"name": "web", "args": ["a"]})),
            deployment(template=containers({"name": "web", "args": ["a", "b"]})),
        ),
    ],
)
def test_what_is_atomic_changes_hands_as_a_whole(first: Any, second: Any) -> None:
    made = apply(None, first)

    with pytest.raises(Conflict):
        apply(made, second, "bob")


def test_a_set_merges_by_value() -> None:
    made = apply(None, deployment(zones=["a", "b"]))
    both = apply(made, deployment(zones=["c"]), "bob")

    assert both["spec"]["zones"] == ["a", "b", "c"]
    assert apply(both, deployment(zones=["b"]))["spec"]["zones"] == ["b", "c"]


def test_labels_and_finalizers_merge_although_no_schema_says_so() -> None:
    intent = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "x", "labels": {"a": "1"}, "finalizers": ["f/a"]},
    }
    other = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "x", "labels": {"b": "2"}, "finalizers": ["f/b"]},
    }

    both = apply(apply(None, intent, schema=Schema.OPEN), other, "bob", schema=Schema.OPEN)

    assert both["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert both["metadata"]["finalizers"] == ["f/a", "f/b"]


def test_what_the_server_sets_is_neither_owned_nor_taken_from_the_intent() -> None:
    made = apply(None, deployment(replicas=1))
    live = {**made, "metadata": {**made["metadata"], "uid": "u1", "resourceVersion": "7"}}
    intent = {
        **deployment(replicas=2),
        "metadata": {"name": "web", "uid": None, "resourceVersion": "7", "creationTimestamp": None},
    }

    after = apply(live, intent)

    assert after["metadata"]["uid"] == "u1"
    assert owned(after, "alice") == [{"f:spec": {"f:replicas": {}}}]


def test_a_null_in_the_intent_is_a_field_left_out() -> None:
    made = apply(None, deployment(replicas=1, paused=None))

    assert made["spec"] == {"replicas": 1}
    assert owned(made, "alice") == [{"f:spec": {"f:replicas": {}}}]


def test_an_update_owns_what_it_changed_and_takes_it_from_the_applier() -> None:
    made = apply(None, deployment(replicas=1, paused=True))

    scaled = update(made, {**made, "spec": {"replicas": 9, "paused": True}}, "hpa", now=LATER, subresource="scale")

    assert owned(scaled, "alice") == [{"f:spec": {"f:paused": {}}}]
    [entry] = [entry for entry in scaled["metadata"]["managedFields"] if entry["manager"] == "hpa"]
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert (entry["subresource"], entry["operation"], entry["time"]) == ("scale", "Update", "2026-11-20T12:05:00Z")


@pytest.mark.parametrize(
    "fields", ["f:spec", {"f:spec": ["x"]}, {"f:spec": {"k:{nojson": {}}}, {"f:spec": {"k:5": {}}}, {"odd": {}}]
)
def test_unreadable_bookkeeping_of_a_client_is_left_out(fields: Any) -> None:
    made = apply(None, deployment(replicas=1))
    entry = {**made["metadata"]["managedFields"][0], "manager": "odd", "fieldsV1": fields}
    sent = {**made, "spec": {"replicas": 2}, "metadata": {**made["metadata"], "managedFields": [entry]}}

    after = update(made, sent, "odd")

    assert owned(after, "odd") == [{"f:spec": {"f:replicas": {}}}]


def test_an_update_that_removes_a_field_removes_its_ownership() -> None:
    made = apply(None, deployment(replicas=1, template=containers({"name": "web", "image": "a"})))

    after = update(made, {**made, "spec": {"replicas": 1}})

    assert owned(after, "alice") == [{"f:spec": {"f:replicas": {}}}]
    assert not owned(after, "controller")


def test_a_client_may_clear_the_bookkeeping() -> None:
    made = apply(None, deployment(replicas=1))

    after = update(made, {**made, "metadata": {"name": "web", "managedFields": []}})

    assert "managedFields" not in after["metadata"]


def test_an_update_without_bookkeeping_keeps_the_stored_one() -> None:
    made = apply(None, deployment(replicas=1))

    after = update(made, {**made, "metadata": {"name": "web"}})

    assert owned(after, "alice") == [{"f:spec": {"f:replicas": {}}}]


def test_an_object_from_before_field_ownership_defends_its_fields() -> None:
    with pytest.raises(Conflict) as caught:
        apply(deployment(replicas=1), deployment(replicas=2))

    assert "before-first-apply" in caught.value.message


def test_many_clients_with_ever_new_names_are_folded_into_one_entry() -> None:
    live = update(None, deployment(extra={}))
    for number in range(30):
        extra = {**live["spec"]["extra"], f"key{number}": number}
        live = update(live, {**live, "spec": {"extra": extra}}, f"client-{number}", now=NOW + timedelta(seconds=number))

    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(names) == 10
    assert ANCIENT in names


def test_the_status_endpoint_writes_status_only() -> None:
    made = apply(None, deployment(replicas=1))

    after = apply(made, {**deployment(replicas=5), "status": {"readyReplicas": 1}}, "kubelet", subresource="status")

    assert after["spec"] == {"replicas": 1}
    assert after["status"] == {"readyReplicas": 1}


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (
            {**deployment(), "metadata": {"name": "web", "managedFields": [{"manager": "x"}]}},
            "managedFields must be nil",
        ),
        (deployment(template=containers({"name": "web"}, {"name": "web"})), 'duplicate entries for key [name="web"]'),
        (deployment(zones=["a", "a"]), 'duplicate entries for key [="a"]'),
    ],
)
def test_an_intent_that_contradicts_itself_is_refused(intent: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        apply(apply(None, deployment(replicas=1)), intent)

    assert words in caught.value.message


def test_nothing_given_is_ever_changed_in_place() -> None:
    live = apply(None, deployment(replicas=1, template=containers({"name": "web", "image": "a"}), zones=["a"]))
    intent = deployment(replicas=2, template=containers({"name": "side"}), zones=["b"])
    before = copy.deepcopy((live, intent))

    apply(live, intent)
    update(live, intent)

    assert (live, intent) == before


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [(1, True), (False, 0), ([1], [True]), ([{"on": 0}], [{"on": False}]), ({"on": 1}, {"on": True})],
)
def test_a_boolean_differs_from_the_number_that_is_equal_in_python(stored: Any, wanted: Any) -> None:
    made = apply(None, deployment(extra={"value": stored}))

    applied = apply(made, deployment(extra={"value": wanted}), now=LATER)
    with pytest.raises(Conflict):
        apply(made, deployment(extra={"value": wanted}), "bob")
    updated = update(made, {**applied, "metadata": made["metadata"]})

    assert repr(applied["spec"]["extra"]["value"]) == repr(wanted)
    assert owned(updated, "controller")


def test_a_field_below_an_empty_map_of_another_manager_is_no_conflict() -> None:
    """A manager that owns the empty map owns nothing below it, and a map that gets an entry is not another value."""
    created = update(None, deployment(extra={}))

    applied = apply(created, deployment(extra={"a": 1}))
    again = apply(applied, deployment(extra={}), "bob")
    emptied = update(applied, {**created, "metadata": applied["metadata"]}, "editor")

    assert applied["spec"]["extra"] == again["spec"]["extra"] == {"a": 1}
    assert owned(applied, "alice") == [{"f:spec": {"f:extra": {"f:a": {}}}}]
    assert owned(applied, "controller") == owned(again, "bob") == [{"f:spec": {"f:extra": {}}}]
    assert emptied["spec"]["extra"] == {}
    assert owned(emptied, "alice") == owned(emptied, "editor") == []


def test_an_item_that_is_no_longer_applied_goes_with_what_others_have_set_in_it() -> None:
    """Without its key, the rest of an item would be no item at all."""
    made = apply(None, deployment(template=containers({"name": "web"}, {"name": "side", "image": "a"})))
    changed = update(
        made,
        {
            **made,
            **deployment(template=containers({"name": "web"}, {"name": "side", "image": "a", "args": ["-v"]})),
            "metadata": made["metadata"],
        },
    )
    assert owned(changed, "controller")

    after = apply(changed, deployment(template=containers({"name": "web"})))

    assert after["spec"] == {"template": {"containers": [{"name": "web"}]}}
    assert not owned(after, "controller")

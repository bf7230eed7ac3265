"""Field ownership of an object that is written through two versions [definition-versions, built-in-versions]."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.apimachinery.errors import Conflict, StatusError
from controlplane.wire.field_versions import Version, with_metadata
from controlplane.wire.managed_fields import server_side_apply, track
from controlplane.wire.schema import Schema

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
V1, V2 = "example.com/v1", "example.com/v2"
NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def schema(**spec: Any) -> Schema:
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return with_metadata(Schema(node, {}))


SCHEMAS = {V1: schema(size=NUMBER, address=TEXT), V2: schema(size=NUMBER, host=TEXT, port=TEXT)}


def converter(to: str) -> Any:
    """Convert `address` of v1 to `host` and `port` of v2, and back."""

    def convert(document: Any) -> Any:
        if document["apiVersion"] == to:
            return document
        spec = dict(document.get("spec", {}))
        if to == V2 and (address := spec.pop("address", None)) is not None:
            spec["host"], _, spec["port"] = address.partition(":")
        elif to == V1 and ("host" in spec or "port" in spec):
            spec["address"] = f"{spec.pop('host', '')}:{spec.pop('port', '')}"
        made = {**document, "apiVersion": to}
        made.pop("spec", None)
        return {**made, "spec": spec} if spec else made

    return convert


def versions(api_version: str) -> Version | None:
    return Version(SCHEMAS[api_version], converter(api_version)) if api_version in SCHEMAS else None


def document(api_version: str, **spec: Any) -> Any:
    made = {"apiVersion": api_version, "kind": "Server", "metadata": {"name": "a"}}
    return {**made, "spec": spec} if spec else made


def options(manager: str, api_version: str) -> dict[str, Any]:
    words = {"manager": manager, "api_version": api_version, "schema": SCHEMAS[api_version]}
    return {**words, "now": NOW, "versions": versions}


def apply(live: Any, intent: Any, manager: str, *, force: bool = False) -> Any:
    api_version = intent["apiVersion"]
    stored = None if live is None else converter(api_version)(live)
    return server_side_apply(stored, intent, force=force, **options(manager, api_version))


def update(live: Any, manager: str, api_version: str, **spec: Any) -> Any:
    before = converter(api_version)(live)
    new = {**document(api_version, **spec), "metadata": before["metadata"]}
    return track(before, new, **options(manager, api_version))


def owned(made: Any) -> dict[str, tuple[str, list[str]]]:
    entries = made["metadata"].get("managedFields", [])
    return {one["manager"]: (one["apiVersion"], sorted(one["fieldsV1"].get("f:spec", {}))) for one in entries}


def test_a_conflict_is_found_in_the_version_of_the_owner_and_named_as_there() -> None:
    live = apply(None, document(V1, size=1, address="a:80"), "one")
    with pytest.raises(Conflict) as error:
        apply(live, document(V2, host="b"), "two")
    assert [(cause.message, cause.field) for cause in error.value.details.causes] == [
        ('conflict with "one"', ".spec.address")
    ]
    forced = apply(live, document(V2, host="b"), "two", force=True)
    assert forced["spec"] == {"size": 1, "host": "b", "port": "80"}
    assert owned(forced) == {"one": (V1, ["f:size"]), "two": (V2, ["f:host"])}


def test_the_same_value_through_another_version_is_shared() -> None:
    live = apply(None, document(V1, address="a:80"), "one")
    shared = apply(live, document(V2, host="a"), "two")
    assert owned(shared) == {"one": (V1, ["f:address"]), "two": (V2, ["f:host"])}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        pytest.param({"size": 1, "host": "b", "port": "80"}, ["f:size"], id="changed"),
        pytest.param({"size": 1}, ["f:size"], id="removed"),
        pytest.param({"size": 2, "host": "a", "port": "80"}, ["f:address"], id="another field"),
    ],
)
def test_an_update_through_another_version_takes_what_it_changes(spec: Any, left: list[str]) -> None:
    live = apply(None, document(V1, size=1, address="a:80"), "one")
    assert owned(update(live, "two", V2, **spec))["one"] == (V1, left)


def test_a_manager_that_changes_its_version_removes_what_it_no_longer_applies() -> None:
    live = apply(None, document(V1, size=1, address="a:80"), "one")
    made = apply(live, document(V2, size=1), "one")
    assert made["spec"] == {"size": 1}
    assert owned(made) == {"one": (V2, ["f:size"])}


def test_a_field_stays_that_the_same_manager_applies_in_its_new_version() -> None:
    live = apply(None, document(V1, size=1, address="a:80"), "one")
    made = apply(live, document(V2, host="a", port="80"), "one")
    assert made["spec"] == {"host": "a", "port": "80"}
    assert owned(made) == {"one": (V2, ["f:host", "f:port"])}


def test_a_field_stays_that_another_manager_owns_through_another_version() -> None:
    live = apply(None, document(V1, address="a:80"), "one")
    shared = apply(live, document(V2, host="a", port="80"), "two")
    made = apply(shared, document(V1, size=3), "one")
    assert made["spec"] == {"size": 3, "address": "a:80"}
    assert owned(made) == {"one": (V1, ["f:size"]), "two": (V2, ["f:host", "f:port"])}


def test_the_same_apply_through_another_version_stores_the_version() -> None:
    live = apply(None, document(V1, size=1), "one")
    made = apply(live, document(V2, size=1), "one")
    assert owned(made) == {"one": (V2, ["f:size"])}
    assert apply(made, document(V2, size=1), "one") is made


def test_a_manager_of_a_version_that_is_no_longer_served_does_not_conflict() -> None:
    live = apply(None, document(V2, size=1), "one")
    (entry,) = live["metadata"]["managedFields"]
    entry["apiVersion"] = "example.com/v0"
    made = apply(live, document(V2, size=2), "two")
    assert owned(made) == {"two": (V2, ["f:size"])}
    entry["apiVersion"] = V2
    with pytest.raises(Conflict):
        apply(live, document(V2, size=2), "two")


def test_what_a_manager_applied_in_a_version_that_is_no_longer_served_is_not_removed() -> None:
    live = apply(None, document(V2, size=1), "one")
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0"
    made = apply(live, document(V2, host="a"), "one")
    assert made["spec"] == {"size": 1, "host": "a"}
    assert owned(made) == {"one": (V2, ["f:host"])}


def test_a_conversion_that_fails_stops_an_apply_and_no_update() -> None:
    def only_v2(api_version: str) -> Version:
        def convert(made: Any) -> Any:
            if made["apiVersion"] != api_version:
                raise StatusError("conversion webhook for example.com/v2, Kind=Server failed")
            return made

        return Version(SCHEMAS[api_version], convert)

    live = apply(None, document(V1, address="a:80"), "one")
    live = {**live, "apiVersion": V2, "spec": {"host": "a", "port": "80"}}
    new = {**live, "spec": {"host": "b", "port": "80"}}
    made = track(live, new, **{**options("two", V2), "versions": only_v2})
    assert owned(made) == {"one": (V1, ["f:address"]), "two": (V2, ["f:host"])}
    with pytest.raises(StatusError):
        server_side_apply(live, document(V2, host="b"), **{**options("two", V2), "versions": only_v2}, force=True)

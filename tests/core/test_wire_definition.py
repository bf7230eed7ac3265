"""What a CustomResourceDefinition makes the API serve."""

from datetime import UTC, datetime

import orjson
import pytest

from controlplane.wire import definition
from controlplane.wire.openapi import OpenAPI
from controlplane.wire.schema import Schema
from controlplane.wire.table import columns_of, table

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
BOATS = {
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "shortNames": ["bo"], "categories": ["all"]},
        "versions": [
            {"name": "v1alpha1", "served": False, "storage": False},
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"seats": {"type": "integer"}}}},
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Seats", "type": "integer", "jsonPath": ".spec.seats"},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Afloat", "type": "boolean", "jsonPath": ".status.afloat"},
                    {"name": "Crew", "type": "string", "jsonPath": ".spec.crew", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            },
            {"name": "v2", "served": True, "storage": False},
        ],
    }
}


def test_only_versions_that_are_switched_on_are_served():
    versions = {resource.version: schema for resource, schema in definition.served(BOATS)}

    assert set(versions) == {"v1", "v2"}
    assert versions["v2"] is Schema.OPEN
    assert versions["v1"].property("spec").property("seats").type == "integer"
    assert versions["v1"].property("spec").property("sails") is None
    assert definition.storage_version(BOATS) == "v1"


def test_names_and_subresources_are_those_of_the_definition():
    (boat, _), _ = definition.served(BOATS)

    assert (boat.key, boat.plural, boat.singular, boat.namespaced) == ("example.io/Boat", "boats", "boat", True)
    assert (boat.short_names, boat.categories, boat.subresources) == (("bo",), ("all",), ("status", "scale"))


def test_columns_show_what_their_paths_find():
    (boat, _), _ = definition.served(BOATS)
    full = {
        "metadata": {"name": "one", "creationTimestamp": "2026-11-20T11:00:00Z"},
        "spec": {"seats": 4, "crew": ["ann", "bo"]},
        "status": {"afloat": True, "conditions": [{"type": "Ready", "status": "False"}]},
    }

    rows = table(boat, [full, {"metadata": {"name": "two"}}], now=NOW)["rows"]

    assert [column.name for column in columns_of(boat)] == ["Name", "Seats", "Ready", "Afloat", "Crew", "Age"]
    assert rows[0]["cells"] == ["one", 4, "False", True, '["ann","bo"]', "60m"]
    assert rows[1]["cells"] == ["two", "", "", "", "", ""]


ADDRESSES = {
    "spec": {"size": 1234567, "share": 1.5, "crew": ["ann", "bo"], "open": False},
    "status": {
        "sizes": [{"name": "a"}, {"name": "b", "bytes": 2000000, "main": True}, {"name": "c", "bytes": 3}],
        "addresses": [{"type": "IP"}, {"value": "10.0.0.1"}, {"value": "10.0.0.2"}],
    },
}


@pytest.mark.parametrize(
    ("path", "kind", "cell"),
    [  # as a kube-apiserver shows them: the first value that is found, and numbers without an exponent
        (".spec.size", "string", "1234567"),
        (".spec.share", "string", "1.5"),
        (".spec.open", "string", "false"),
        (".status.addresses[*].value", "string", "10.0.0.1"),
        (".status.sizes[*].bytes", "integer", 2000000),
        ('.status.sizes[?(@.name=="b")].bytes', "integer", 2000000),
        ('.status.sizes[?(@.name=="b")].bytes', "number", 2000000.0),
        ('.status.sizes[?(@.name=="b")].bytes', "string", "2000000"),
        (".status.sizes[?(@.main==true)].name", "string", "b"),
        (".status.sizes[?(@.bytes>5)].name", "string", "b"),
        (".status.sizes[?(@.main==true)].main", "boolean", True),
        (".status.sizes[9].bytes", "integer", ""),
        (".spec.crew", "string", '["ann","bo"]'),
        (".spec.crew[*]", "string", "ann"),
        (".spec.none[*].x", "string", ""),
    ],
)
def test_a_column_shows_the_first_value_that_its_path_finds(path: str, kind: str, cell: object) -> None:
    version = {"name": "v1", "served": True, "storage": True}
    version["additionalPrinterColumns"] = [{"name": "Shown", "type": kind, "jsonPath": path}]
    ((boat, _),) = definition.served({"spec": {**BOATS["spec"], "versions": [version]}})

    (row,) = table(boat, [{"metadata": {"name": "one"}, **ADDRESSES}], now=NOW)["rows"]

    assert row["cells"][1:] == [cell]
    assert type(row["cells"][1]) is type(cell)


@pytest.mark.parametrize(
    ("stated", "shown"),
    [([], ["Name", "Age"]), ([{"name": "Seats", "type": "integer", "jsonPath": ".spec.seats"}], ["Name", "Seats"])],
)
def test_age_is_shown_only_where_a_definition_states_no_columns(stated: list[dict], shown: list[str]) -> None:
    version = {"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": stated}

    ((boat, _),) = definition.served({"spec": {**BOATS["spec"], "versions": [version]}})

    assert [column.name for column in columns_of(boat)] == shown


def test_what_is_defined_can_be_explained():
    served = definition.served(BOATS)

    api = OpenAPI([resource for resource, _ in served], lambda resource: dict(served)[resource])

    document = orjson.loads(api.document("apis/example.io/v1"))
    assert document["components"]["schemas"]["io.example.v1.Boat"]["properties"]["spec"]["properties"]["seats"]


@pytest.mark.parametrize(
    ("versions", "asked", "warning"),
    [  # name, whether it is served, whether it is deprecated; as a kube-apiserver 1.36 answered
        ((("v1", True, False), ("v1beta1", True, True)), "v1beta1", "{}/v1beta1 Boat is deprecated; use {}/v1 Boat"),
        ((("v1", True, True), ("v1beta1", True, False)), "v1", "{}/v1 Boat is deprecated"),
        ((("v1", True, True), ("v2", False, False)), "v1", "{}/v1 Boat is deprecated"),
        (
            (("v1", True, True), ("v3", True, False), ("v4", True, False)),
            "v1",
            "{0}/v1 Boat is deprecated; use {0}/v4 Boat",
        ),
        ((("v1", True, False), ("v1beta1", True, True)), "v1", ""),
    ],
)
def test_a_deprecated_version_has_a_warning_with_the_version_to_use(
    versions: tuple[tuple[str, bool, bool], ...], asked: str, warning: str
) -> None:
    listed = [
        {"name": name, "served": served, "storage": False, "deprecated": deprecated}
        for name, served, deprecated in versions
    ]
    given = {"spec": {**BOATS["spec"], "versions": listed}}

    found = {resource.version: resource.deprecation for resource, _ in definition.served(given)}

    assert found[asked] == warning.format("example.io", "example.io")


def test_a_deprecated_version_may_say_its_own_words() -> None:
    own = {"name": "v1", "served": True, "storage": True, "deprecated": True, "deprecationWarning": "sold; walk"}
    ((boat, _),) = definition.served({"spec": {**BOATS["spec"], "versions": [own]}})

    assert boat.deprecation == "sold; walk"

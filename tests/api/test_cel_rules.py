"""Rules in CEL of a CustomResourceDefinition hold for every way to write an object, within limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.server import Client
from tests.api.test_definitions import DEFINITIONS, define, definition

Document = dict[str, Any]
SEATS: Document = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.seats <= self.limit", "message": "more seats than the limit", "fieldPath": ".seats"},
        {"rule": "self.limit >= oldSelf.limit", "message": "the limit may only grow"},
    ],
    "properties": {"seats": {"type": "integer"}, "limit": {"type": "integer"}},
}
STATUS: Document = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.taken >= 0", "message": "must not be negative"}],
    "properties": {"taken": {"type": "integer"}},
}
SCHEMA: Document = {"type": "object", "properties": {"spec": SEATS, "status": STATUS}}
SPEC = {"seats": 2, "limit": 4}
# Every step doubles the value, so that a comparison of the last one would take minutes.
ENDLESS = f"[self.seats]{'.map(a, [a, a])' * 27} == [self.limit]{'.map(a, [a, a])' * 27}"
# Few and large replacements: many small ones need too much time before they need too much memory.
HUNGRY = "'aaaaaaaaaa'" + f".replace('a', '{'a' * 1000}')" * 4 + ".size() > 0"


@pytest.fixture
def group(namespace: str) -> str:
    return f"rules-{namespace}.example.io"


@pytest.fixture
def boats(api: Client, namespace: str, group: str) -> str:
    define(api, group, SCHEMA)
    return f"/apis/{group}/v1/namespaces/{namespace}/boats"


def boat(name: str = "ferry", **spec: Any) -> Document:
    return {"metadata": {"name": name}, "spec": {**SPEC, **spec}}


def causes(body: Document) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in body["details"]["causes"]]


def test_every_way_to_write_an_object_is_held_to_the_rules(api: Client, group: str, boats: str) -> None:
    too_many = [("spec.seats", "Invalid value: more seats than the limit")]
    refused = api.post(boats, boat(seats=5))
    assert (refused.status, causes(refused.document)) == (422, too_many)

    made = api.post(boats, boat()).document
    applied = {"apiVersion": f"{group}/v1", "kind": "Boat", **boat(seats=5)}
    ways = [
        api.put(f"{boats}/ferry", {**made, "spec": {"seats": 5, "limit": 4}}),
        api.patch(f"{boats}/ferry", {"spec": {"seats": 5}}),
        api.patch(f"{boats}/ferry", applied, "application/apply-patch+yaml", fieldManager="test", force="true"),
    ]
    assert [(way.status, causes(way.document)) for way in ways] == [(422, too_many)] * 3

    shrunk = api.patch(f"{boats}/ferry", {"spec": {"limit": 3}})
    assert causes(shrunk.document) == [("spec", "Invalid value: the limit may only grow")]
    negative = api.patch(f"{boats}/ferry/status", {"status": {"taken": -1}})
    assert causes(negative.document) == [("status", "Invalid value: must not be negative")]
    assert api.patch(f"{boats}/ferry", {"spec": {"limit": 6, "seats": 6}}).status == 200
    assert api.patch(f"{boats}/ferry/status", {"status": {"taken": 1}}).status == 200


def test_a_definition_with_an_invalid_rule_is_refused_with_its_field(api: Client, group: str) -> None:
    broken = {**SEATS, "x-kubernetes-validations": [{"rule": "self.chairs < 5"}]}
    refused = api.post(DEFINITIONS, definition(group, {"type": "object", "properties": {"spec": broken}}))

    assert refused.status == 422
    ((field, message),) = causes(refused.document)
    assert field == "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert "undefined field 'chairs'" in message


@pytest.mark.parametrize(("rule", "why"), [(ENDLESS, "processor time"), (HUNGRY, "more memory than it may have")])
def test_a_rule_that_needs_too_much_is_a_refusal_that_names_it(
    api: Client, namespace: str, group: str, rule: str, why: str
) -> None:
    node = {**SEATS, "x-kubernetes-validations": [{"rule": rule}]}
    define(api, group, {"type": "object", "properties": {"spec": node}})
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"

    refused = api.post(where, boat(limit=2))

    assert refused.status == 422, refused.body
    ((field, message),) = causes(refused.document)
    assert field == "spec"
    assert why in message
    assert rule[:40] in message


def test_an_object_that_breaks_a_newer_rule_can_still_be_edited_elsewhere(
    api: Client, namespace: str, group: str
) -> None:
    loose = {key: value for key, value in SEATS.items() if key != "x-kubernetes-validations"}
    define(api, group, {"type": "object", "properties": {"spec": loose}})
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    assert api.post(where, boat(seats=9)).status == 201
    stored = api.get(f"{DEFINITIONS}/boats.{group}").document
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = SCHEMA
    assert api.put(f"{DEFINITIONS}/boats.{group}", stored).status == 200

    assert api.patch(f"{where}/ferry", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert api.patch(f"{where}/ferry", {"spec": {"seats": 10}}).status == 422

"""Schemas of kinds declared as msgspec types."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds import KINDS, failover_record, fleet_readiness, fleet_status
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of


class Port(Struct, frozen=True):
    """A port.

    Reported apart by number.
    """

    number: Annotated[int, Meta(ge=1, le=65535)]
    protocol: Literal["TCP", "UDP"] = "TCP"


class BoatSpec(Struct, frozen=True):
    """What it is. `launched_at` comes after `seat_count`, and `built_at` is no field."""

    seat_count: Annotated[int, Meta(description="How many it carries.")] = 0
    ports: Annotated[
        tuple[Port, ...],
        Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["number", "protocol"]}),
    ] = ()
    launched_at: datetime | None = None
    main: Annotated[Port | None, Meta(description="The big one.")] = None
    surge: int | str = 1
    labels: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    anything: Any = None
    share: float = 0.5
    afloat: bool = True
    crew: list[str] = []
    next: BoatSpec | None = None


class Boat(Object, frozen=True):
    """A boat."""

    spec: BoatSpec = BoatSpec()


class Unspeakable(Struct, frozen=True):
    pair: complex = 0j


def test_a_description_calls_fields_as_on_the_wire():
    text = "What it is. `launchedAt` comes after `seatCount`, and `built_at` is no field."

    assert schema_of(Boat).property("spec").description == text


def test_fields_are_called_and_typed_as_on_the_wire():
    spec = schema_of(Boat).property("spec")

    types = {name: field.type for name, field in spec.properties.items()}
    assert types == {
        "seatCount": "integer",
        "ports": "array",
        "launchedAt": "string",
        "main": "object",
        "surge": "",
        "labels": "object",
        "parameters": "object",
        "anything": "",
        "share": "number",
        "afloat": "boolean",
        "crew": "array",
        "next": "object",
    }
    assert spec.property("launchedAt").format == "date-time"
    assert spec.property("labels").additional.type == "string"
    assert spec.property("crew").items.type == "string"


def test_texts_come_from_the_declaration():
    boat = schema_of(Boat)

    assert boat.description == "A boat."
    assert boat.property("spec").property("seatCount").description == "How many it carries."
    assert boat.property("spec").property("main").description == "The big one."
    assert boat.property("spec").property("ports").items.description == "A port."


def test_merge_rules_limits_and_defaults_come_along():
    ports = schema_of(Boat).property("spec").property("ports")

    assert ports.list_type == "map"
    assert ports.list_map_keys == ("number", "protocol")
    assert ports.items.required == ("number",)
    assert ports.items.property("protocol").default == "TCP"
    assert ports.items.property("protocol").enum == ("TCP", "UDP")
    assert ports.items.property("number").node["maximum"] == 65535


def test_what_may_be_anything_is_open_and_the_rest_is_not():
    spec = schema_of(Boat).property("spec")

    assert spec.property("parameters").property("x").preserves_unknown
    assert spec.property("anything").preserves_unknown
    assert spec.property("surge").int_or_string
    assert spec.property("seats") is None


def test_a_type_may_contain_itself():
    spec = schema_of(Boat).property("spec")

    assert spec.property("next").property("next") is spec.property("next")


def test_metadata_merges_as_kubernetes_merges_it():
    metadata = schema_of(Boat).property("metadata")

    assert metadata.property("finalizers").list_type == "set"
    assert metadata.property("ownerReferences").patch_merge_key == "uid"


def test_a_schema_is_made_once_and_can_be_given_its_kind():
    resource = Resource("example.io", "v1", "Boat", "boats", "boat", True)

    assert schema_of(Boat) is schema_of(Boat)
    assert schema_of(Boat, resource).gvks[0].kind == "Boat"
    assert schema_of(Boat, resource).property("spec").property("seatCount").type == "integer"


def test_a_type_without_form_in_openapi_is_refused():
    with pytest.raises(TypeError, match="no form in OpenAPI"):
        schema_of(Unspeakable)


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.key)
def test_every_kind_we_serve_has_a_schema_with_metadata(kind):
    assert kind.schema().property("metadata") is not None


OURS = [one for one in KINDS if one.resource.group == "failover.lifeboat.io"]


@pytest.mark.parametrize(
    "kind", [*OURS, failover_record.KIND, fleet_readiness.KIND, fleet_status.KIND], ids=lambda one: one.key
)
def test_kubectl_explain_has_something_to_say_of_every_kind_of_ours_and_of_all_it_asks_for(kind: Kind) -> None:
    schema, silent = kind.schema(), list[str]()
    assert schema.description
    for part in ("spec", "status"):
        inner = schema.property(part)
        for name in inner.properties or () if inner is not None else ():
            reported = inner.property(name) if inner is not None else None
            silent += [f"{part}.{name}"] if reported is None or not reported.description else []

    assert [one for one in silent if one not in ("status.countedAt", "status.finishTime")] == []

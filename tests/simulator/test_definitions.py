"""Kinds people bring to a member: served as soon as they are defined, held to their schema, gone with their objects."""

from __future__ import annotations

from tests.simulator.cluster import MERGE, STRATEGIC, Cluster, simulated

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.io/v1/namespaces/default/widgets"


@simulated()
async def test_a_custom_kind_is_served_as_soon_as_it_is_defined(cluster: Cluster) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    definition = {
        "metadata": {"name": "widgets.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    assert (await cluster.ask("GET", WIDGETS)).status == 404

    await cluster.make(DEFINITIONS, definition)
    made = await cluster.make(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1, "colour": "red"}})

    assert made["spec"] == {"size": 1}
    strategic = await cluster.ask("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, kind=STRATEGIC)
    assert strategic.status == 415
    await cluster.until(
        DEFINITIONS, lambda one: bool(one.get("status", {}).get("conditions")), name="widgets.example.io"
    )


async def define_widgets(cluster: Cluster) -> None:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "extra": {"x-kubernetes-preserve-unknown-fields": True},
        },
    }
    node = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": node}}
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version]}
    await cluster.make(DEFINITIONS, {"metadata": {"name": "widgets.example.io"}, "spec": spec})


@simulated()
async def test_a_custom_kind_is_held_to_its_schema_as_by_the_api(cluster: Cluster) -> None:
    await define_widgets(cluster)

    refused = await cluster.ask("POST", WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 0, "colour": "blue"}})
    made = await cluster.make(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})

    assert refused.status == 422
    assert {cause["field"] for cause in refused.body["details"]["causes"]} == {"spec.size", "spec.colour"}
    assert made["spec"] == {"size": 1, "colour": "red"}
    patch = await cluster.ask("PATCH", f"{WIDGETS}/w", {"spec": {"size": "big"}}, kind=MERGE)
    assert patch.status == 422


@simulated()
async def test_a_number_is_replaced_by_a_boolean(cluster: Cluster) -> None:
    await define_widgets(cluster)
    await cluster.make(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1, "extra": 1}})

    changed = await cluster.ask("PATCH", f"{WIDGETS}/w", {"spec": {"extra": True}}, kind=MERGE)

    assert changed.body["spec"]["extra"] is True


@simulated()
async def test_a_schema_that_cannot_be_enforced_is_refused(cluster: Cluster) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "string"}}}
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version]}

    reply = await cluster.ask("POST", DEFINITIONS, {"metadata": {"name": "widgets.example.io"}, "spec": spec})

    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "spec.versions[0].schema.openAPIV3Schema.type"


@simulated()
async def test_a_deleted_definition_waits_for_its_objects_and_takes_them_along(cluster: Cluster) -> None:
    await define_widgets(cluster)
    await cluster.make(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    await cluster.make(WIDGETS, {"metadata": {"name": "held", "finalizers": ["example.io/hold"]}, "spec": {"size": 1}})

    assert (await cluster.ask("DELETE", f"{DEFINITIONS}/widgets.example.io")).status == 200
    assert (await cluster.ask("POST", WIDGETS, {"metadata": {"name": "late"}, "spec": {"size": 1}})).status == 405
    await cluster.until(WIDGETS, lambda one: bool(one["metadata"].get("deletionTimestamp")), name="held")
    assert (await cluster.ask("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, kind=MERGE)).status == 200

    await cluster.gone(DEFINITIONS, "widgets.example.io")
    assert (await cluster.ask("GET", WIDGETS)).status == 404

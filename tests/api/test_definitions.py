"""A CustomResourceDefinition applied to the API is served from then on, and holds its objects to its schema."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Answer, Client, Server
from tests.processes import until

Document = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPEN: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC: Document = {
    "type": "object",
    "required": ["seats"],
    "properties": {
        "seats": {"type": "integer", "minimum": 1, "maximum": 500, "description": "How many may sit."},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "sign": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
        "decks": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "bar": {"type": "boolean", "default": False}},
            },
        },
        "values": OPEN,
        "size": {"type": "integer"},
    },
}
STRICT: Document = {
    "type": "object",
    "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}}}},
}


def definition(group: str, node: Document = OPEN, **version: Any) -> Document:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "shortNames": ["bo"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": node},
                    "additionalPrinterColumns": [{"name": "Seats", "type": "integer", "jsonPath": ".spec.seats"}],
                    **version,
                }
            ],
        },
    }


def define(api: Client, group: str, node: Document = OPEN, **version: Any) -> Answer:
    made = api.post(DEFINITIONS, definition(group, node, **version))
    assert made.status == 201, made.body
    return made


def conditions(document: Document) -> dict[str, str]:
    return {one["type"]: one["status"] for one in document["status"]["conditions"]}


@pytest.fixture
def group(namespace: str) -> str:
    return f"ships-{namespace}.example.io"


@pytest.fixture
def boats(api: Client, namespace: str, group: str) -> str:
    """Where boats are that are held to a schema."""
    define(api, group, STRICT)
    return f"/apis/{group}/v1/namespaces/{namespace}/boats"


def test_objects_of_a_brought_kind_are_written_and_read_like_any_other(api: Client, namespace: str, group: str) -> None:
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    assert api.post(where, {"metadata": {"name": "ferry"}}).status == 404

    define(api, group)
    made = api.post(where, {"metadata": {"name": "ferry"}, "spec": {"seats": 12, "decks": [{"name": "a"}]}})

    assert made.status == 201, made.body
    assert made.document["kind"] == "Boat"
    assert api.get(f"{where}/ferry").document["spec"] == {"seats": 12, "decks": [{"name": "a"}]}
    assert [one["metadata"]["name"] for one in api.get(where).document["items"]] == ["ferry"]
    found = api.get(f"/apis/{group}/v1").document["resources"]
    assert [one["name"] for one in found] == ["boats", "boats/status"]


@pytest.mark.parametrize(("subresources", "raises"), [({"status": {}}, False), ({}, True)])
def test_a_change_of_anything_but_metadata_and_status_is_a_new_generation(
    api: Client, namespace: str, group: str, subresources: Document, *, raises: bool
) -> None:
    """A status that has no subresource is content like any other."""
    define(api, group, subresources=subresources)
    boat = f"/apis/{group}/v1/namespaces/{namespace}/boats/one"
    api.post(boat.rpartition("/")[0], {"metadata": {"name": "one"}, "spec": {"seats": 1}, "config": {"a": 1}})

    def generation(change: Document) -> int:
        found: int = api.patch(boat, change).document["metadata"]["generation"]
        return found

    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"config": {"a": 2}}) == 2
    assert generation({"config": {"a": 2}}) == 2
    assert generation({"spec": {"seats": 2}, "config": None}) == 3
    assert generation({"status": {"afloat": True}}) == 3 + raises


@pytest.mark.parametrize("seats", [1e30, "9" * 30, -(2**64)], ids=["a number", "a text", "a negative one"])
def test_a_number_that_no_integer_holds_hides_no_other_object(
    api: Client, namespace: str, group: str, seats: Any
) -> None:
    define(api, group)
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    for name, number in (("odd", seats), ("plain", 3)):
        assert api.post(where, {"metadata": {"name": name}, "spec": {"seats": number}}).status == 201

    listed = api.ask("GET", where, accept=TABLE)
    with api.watch(where, accept=TABLE) as watched:
        seen = [watched.next()["object"]["rows"][0]["cells"][:2] for _ in range(2)]

    assert listed.status == 200, listed.body
    assert [row["cells"][:2] for row in listed.document["rows"]] == seen == [["odd", "<invalid>"], ["plain", 3]]


def test_a_definition_says_at_once_that_it_is_established(api: Client, group: str) -> None:
    made = define(api, group).document

    assert conditions(made) == {"NamesAccepted": "True", "Established": "True"}
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"]["listKind"] == "BoatList"
    assert made["spec"]["names"]["listKind"] == "BoatList"


def test_a_definition_that_moves_its_storage_remembers_where_objects_may_be(api: Client, group: str) -> None:
    made = define(api, group).document
    old = {**made["spec"]["versions"][0], "storage": False}
    new = {**old, "name": "v2", "storage": True}

    done = api.patch(f"{DEFINITIONS}/boats.{group}", {"spec": {"versions": [old, new]}})

    assert done.document["status"]["storedVersions"] == ["v1", "v2"]
    assert "warning" not in done.headers
    refused = api.patch(f"{DEFINITIONS}/boats.{group}", {"spec": {"versions": [new]}})
    assert (refused.status, refused.document["details"]["causes"][0]["field"]) == (422, "status.storedVersions[0]")


@pytest.mark.parametrize(
    ("reported", "field", "why"),
    [
        ([], "status.storedVersions", "must have at least one stored version"),
        (["v9"], "status.storedVersions[0]", "must appear in spec.versions"),
        (["v1"], "status.storedVersions", "must have the storage version v2"),
        (["v2"], "", ""),
    ],
)
def test_a_definition_cannot_forget_the_version_in_which_objects_are_stored(
    api: Client, group: str, reported: list[str], field: str, why: str
) -> None:
    """Every later edit of its spec was refused, or objects stayed in a version that could be removed."""
    made = define(api, group).document
    versions = [{**made["spec"]["versions"][0], "storage": False}, {**made["spec"]["versions"][0], "name": "v2"}]
    assert api.patch(f"{DEFINITIONS}/boats.{group}", {"spec": {"versions": versions}}).status == 200

    done = api.patch(f"{DEFINITIONS}/boats.{group}/status", {"status": {"storedVersions": reported}})

    assert done.status == (422 if why else 200), done.body
    causes = done.document.get("details", {}).get("causes", ())
    assert any(cause["field"] == field and why in cause["message"] for cause in causes) is bool(why)


def test_a_definition_that_wants_names_of_ours_brings_nothing(api: Client) -> None:
    greedy = definition("cluster.karmada.io")
    greedy["metadata"]["name"] = "clusters.cluster.karmada.io"
    greedy["spec"]["names"] = {"kind": "Cluster", "plural": "clusters"}

    made = api.post(DEFINITIONS, greedy)

    assert made.status == 201, made.body
    assert conditions(made.document) == {"NamesAccepted": "False", "Established": "False"}
    assert api.get("/apis/cluster.karmada.io/v1alpha1/clusters").status == 200


def test_names_of_another_type_than_text_are_refused_by_field(api: Client, group: str) -> None:
    wrong = definition(group, OPEN)
    wrong["spec"]["names"] |= {"kind": 1, "shortNames": [{}]}

    refused = api.post(DEFINITIONS, wrong)

    assert refused.status == 422, refused.body
    reported = {one["field"] for one in refused.document["details"]["causes"]}
    assert reported >= {"spec.names.kind", "spec.names.shortNames[0]"}


def test_a_schema_that_cannot_be_enforced_is_refused_with_every_reason(api: Client, group: str) -> None:
    node = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}, "b": {}}}

    refused = api.post(DEFINITIONS, definition(group, node))

    assert refused.status == 422
    root = "spec.versions[0].schema.openAPIV3Schema.properties"
    assert {one["field"] for one in refused.document["details"]["causes"]} == {f"{root}[a].pattern", f"{root}[b].type"}


@pytest.mark.parametrize(
    ("inner", "field"),
    [
        ({"properties": []}, ".properties"),
        ({"properties": {"name": 5}}, ".properties.name"),
        ({"properties": {"name": {"type": "string", "enum": {}}}}, ".properties.name.enum"),
        ({"required": "name"}, ".required"),
    ],
)
@pytest.mark.parametrize("key", ["items", "additionalProperties"])
def test_a_schema_inside_a_list_or_a_map_is_checked_like_any_other(
    api: Client, group: str, inner: Document, field: str, key: str
) -> None:
    node = {"type": "array" if key == "items" else "object", key: {"type": "object", **inner}}

    answer = api.post(DEFINITIONS, definition(group, {"type": "object", "properties": {"spec": node}}))

    assert answer.status == 422, answer.body
    at = f"spec.versions[0].schema.openAPIV3Schema.properties.spec.{key}"
    assert f"{at}{field}" in {cause["field"] for cause in answer.document["details"]["causes"]}


def test_nulls_inside_a_schema_are_left_out(api: Client, namespace: str, group: str) -> None:
    items = {"type": "object", "properties": None, "required": None, "x-kubernetes-preserve-unknown-fields": True}
    values = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "enum": None}}}
    node = {"type": "object", "properties": {"decks": {"type": "array", "items": items}, "values": values}}
    define(api, group, {"type": "object", "properties": {"spec": node}})
    boat = {"metadata": {"name": "one"}, "spec": {"decks": [{"name": "upper"}], "values": {"a": ["b"]}}}

    assert api.post(f"/apis/{group}/v1/namespaces/{namespace}/boats", boat).document["spec"] == boat["spec"]
    assert api.get("/openapi/v2").status == 200


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, {"spec.seats"}),
        ({"seats": "12"}, {"spec.seats"}),
        ({"seats": 0}, {"spec.seats"}),
        ({"seats": 501, "colour": "blue", "sign": "x"}, {"spec.seats", "spec.colour", "spec.sign"}),
        ({"seats": 1, "decks": [{"bar": True}]}, {"spec.decks[0].name"}),
        ({"seats": 1, "decks": [{"name": "a"}, {"name": "a"}]}, {"spec.decks[1]"}),
    ],
)
def test_an_object_that_breaks_its_schema_is_refused(api: Client, boats: str, spec: Document, fields: set[str]) -> None:
    refused = api.post(boats, {"metadata": {"name": "ferry"}, "spec": spec})

    assert refused.status == 422, refused.body
    assert {one["field"] for one in refused.document["details"]["causes"]} == fields
    assert api.get(f"{boats}/ferry").status == 404


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("application/merge-patch+json", {"spec": {"seats": -1}}),
        ("application/json-patch+json", [{"op": "replace", "path": "/spec/seats", "value": "many"}]),
    ],
)
def test_no_patch_goes_round_the_schema(api: Client, boats: str, kind: str, patch: Any) -> None:
    api.post(boats, {"metadata": {"name": "ferry"}, "spec": {"seats": 3}})

    assert api.patch(f"{boats}/ferry", patch, kind).status == 422
    assert api.get(f"{boats}/ferry").document["spec"]["seats"] == 3


def test_what_is_left_out_is_filled_in_and_what_is_unknown_goes(api: Client, boats: str) -> None:
    sent = {"seats": 3, "sails": 2, "decks": [{"name": "a", "rails": 1}], "values": {"any": {"thing": 1}}}

    made = api.post(boats, {"metadata": {"name": "ferry"}, "spec": sent, "status": {"afloat": "perhaps"}})

    assert made.status == 201, made.body
    assert made.document["spec"] == {
        "seats": 3,
        "colour": "red",
        "decks": [{"name": "a", "bar": False}],
        "values": {"any": {"thing": 1}},
    }
    assert "status" not in made.document
    assert 'unknown field "spec.sails"' in made.headers["warning"].replace("\\", "")
    strict = api.post(boats, {"metadata": {"name": "yacht"}, "spec": sent}, fieldValidation="Strict")
    assert strict.status == 400
    assert "spec.decks[0].rails" in strict.document["message"]


def test_a_status_is_held_to_the_schema_too(api: Client, boats: str) -> None:
    api.post(boats, {"metadata": {"name": "ferry"}, "spec": {"seats": 3}})

    assert api.patch(f"{boats}/ferry/status", {"status": {"afloat": "perhaps"}}).status == 422
    assert api.patch(f"{boats}/ferry/status", {"status": {"afloat": True}}).document["status"] == {"afloat": True}


def test_an_object_that_a_stricter_schema_refuses_can_be_relabelled_and_deleted(
    api: Client, boats: str, group: str
) -> None:
    """Its finalizers could never be removed otherwise, and its namespace would stay for ever."""
    sent = {"seats": 300, "decks": [{"name": "upper"}]}
    api.post(boats, {"metadata": {"name": "ferry", "finalizers": ["example.io/crew"]}, "spec": sent})
    stricter = deepcopy(STRICT)
    fields = stricter["properties"]["spec"]["properties"]
    fields["seats"]["maximum"] = 100
    fields["rig"] = {"type": "string", "default": "sloop"}
    stricter["properties"]["spec"]["required"] = ["seats", "sign"]
    changed = api.get(f"{DEFINITIONS}/boats.{group}").document
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = stricter
    assert api.put(f"{DEFINITIONS}/boats.{group}", changed).status == 200

    assert api.patch(f"{boats}/ferry", {"metadata": {"labels": {"old": "yes"}}}).status == 200
    assert api.patch(f"{boats}/ferry/status", {"status": {"afloat": True}}).status == 200
    assert api.patch(f"{boats}/ferry", {"spec": {"sign": "AB-1"}}).status == 200
    refused = api.patch(f"{boats}/ferry", {"spec": {"seats": 200}})
    assert [one["field"] for one in refused.document["details"]["causes"]] == ["spec.seats"]
    assert api.delete(f"{boats}/ferry").status == 200
    assert api.patch(f"{boats}/ferry", {"metadata": {"finalizers": []}}).status == 200
    assert api.get(f"{boats}/ferry").status == 404


def test_lists_with_keys_are_merged_by_server_side_apply(api: Client, boats: str) -> None:
    def applied(manager: str, deck: str) -> Answer:
        body = {"apiVersion": "", "kind": "Boat", "metadata": {"name": "ferry"}, "spec": {"decks": [{"name": deck}]}}
        body["apiVersion"] = "/".join(boats.split("/")[2:4])
        body["spec"]["seats"] = 3
        kind = "application/apply-patch+yaml"
        return api.patch(f"{boats}/ferry", body, kind, fieldManager=manager)

    assert applied("one", "upper").status == 201
    both = applied("two", "lower")

    assert {one["name"] for one in both.document["spec"]["decks"]} == {"upper", "lower"}


def test_a_kind_says_where_its_scale_is(api: Client, namespace: str, group: str) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.who"}
    define(api, group, OPEN, subresources={"status": {}, "scale": scale})
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    api.post(where, {"metadata": {"name": "ferry"}, "spec": {"size": 3}})
    api.patch(f"{where}/ferry/status", {"status": {"size": 2, "who": "a=b"}})

    found = api.get(f"{where}/ferry/scale").document
    done = api.patch(f"{where}/ferry/scale", {"spec": {"replicas": 7}})

    assert (found["spec"], found["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    assert done.document["spec"] == {"replicas": 7}
    assert api.get(f"{where}/ferry").document["spec"] == {"size": 7}


def test_an_object_with_another_selector_than_labels_is_scaled(api: Client, namespace: str, group: str) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    define(api, group, OPEN, subresources={"scale": scale})
    ferry = f"/apis/{group}/v1/namespaces/{namespace}/boats/ferry"
    spec = {"size": 3, "selector": {"matchLabels": ["a=b"]}}
    assert api.post(ferry.rpartition("/")[0], {"metadata": {"name": "ferry"}, "spec": spec}).status == 201

    assert api.get(f"{ferry}/scale").document["status"] == {"replicas": 0, "selector": ""}
    assert api.patch(f"{ferry}/scale", {"spec": {"replicas": 7}}).document["spec"] == {"replicas": 7}


def test_a_deleted_definition_takes_its_objects_along_and_is_served_no_longer(
    server: Server, api: Client, namespace: str, group: str
) -> None:
    define(api, group)
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    held = {"metadata": {"name": "held", "finalizers": ["example.io/hold"]}}
    assert api.post(where, held).status == 201
    assert api.post(where, {"metadata": {"name": "ferry"}}).status == 201

    left = api.delete(f"{DEFINITIONS}/boats.{group}")
    assert left.document["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert api.post(where, {"metadata": {"name": "late"}}).status == 405

    work(server, "definitions")
    assert [one["metadata"]["name"] for one in api.get(where).document["items"]] == ["held"]
    assert conditions(api.get(f"{DEFINITIONS}/boats.{group}").document)["Terminating"] == "True"

    assert api.patch(f"{where}/held", {"metadata": {"finalizers": None}}).status == 200
    until(lambda: gone(server, api, group), within=120)
    until(lambda: api.get(where).status == 404, within=120)


def gone(server: Server, api: Client, group: str) -> bool:
    work(server, "definitions")
    return api.get(f"{DEFINITIONS}/boats.{group}").status == 404


def test_a_deleted_namespace_takes_objects_of_brought_kinds_along(
    server: Server, api: Client, namespace: str, group: str
) -> None:
    define(api, group)
    api.post(f"/apis/{group}/v1/namespaces/{namespace}/boats", {"metadata": {"name": "ferry"}})

    assert api.delete(f"/api/v1/namespaces/{namespace}").status == 200

    def emptied() -> bool:
        work(server, "namespace_content")
        return api.get(f"/api/v1/namespaces/{namespace}").status == 404

    until(emptied, within=120)
    assert api.get(f"/apis/{group}/v1/boats").document["items"] == []

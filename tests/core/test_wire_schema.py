"""Walking documents by their schema."""

from controlplane.wire.schema import Components, GroupVersionKind, Schema

TREE = {
    "example.Tree": {
        "type": "object",
        "description": "A tree.",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "children": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/example.Tree"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
            },
            "parent": {
                "allOf": [{"$ref": "#/components/schemas/example.Tree"}],
                "description": "Where it hangs.",
                "x-kubernetes-map-type": "atomic",
            },
            "tags": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
        },
        "x-kubernetes-group-version-kind": [{"group": "example.io", "version": "v1", "kind": "Tree"}],
    }
}


def tree() -> Schema:
    return Components(TREE).schema("example.Tree")


def test_a_recursive_schema_leads_back_to_itself():
    top = tree()

    children = top.property("children")

    assert children.items is top
    assert children.items.property("children") is children


def test_a_described_reference_keeps_what_stands_beside_it():
    parent = tree().property("parent")

    assert parent.description == "Where it hangs."
    assert parent.map_type == "atomic"
    assert tree().map_type == "granular"
    assert parent.property("name").type == "string"


def test_lists_are_atomic_unless_something_else_is_said():
    assert tree().property("tags").list_type == "atomic"
    assert tree().property("children").list_type == "map"
    assert tree().property("children").list_map_keys == ("name",)
    assert tree().property("children").patch_merge_key == "name"
    assert tree().property("children").patch_strategy == ("merge", "retainKeys")


def test_an_unknown_field_has_no_schema_unless_the_object_is_open():
    assert tree().property("colour") is None
    assert tree().property("extra").property("colour") is Schema.OPEN
    assert tree().property("extra").property("a").preserves_unknown


def test_any_key_of_a_map_has_the_schema_of_its_values():
    assert tree().property("labels").property("app").type == "string"
    assert tree().property("labels").preserves_unknown is False


def test_a_kind_without_schema_allows_everything():
    field = Schema.OPEN.property("spec").property("anything")

    assert field is Schema.OPEN
    assert field.items is Schema.OPEN
    assert field.list_type == "atomic"
    assert field.map_type == "granular"
    assert field.preserves_unknown


def test_numbers_written_as_text_are_reported_by_any_of_three_spellings():
    assert Schema({"x-kubernetes-int-or-string": True}).int_or_string
    assert Schema({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}).int_or_string
    assert Schema({"anyOf": [{"type": "string"}, {"type": "number"}]}).int_or_string
    assert not Schema({"type": "string"}).int_or_string
    assert not Schema({"x-kubernetes-int-or-string": True}).preserves_unknown


def test_an_embedded_object_has_the_fields_every_object_has():
    embedded = Schema({"type": "object", "x-kubernetes-embedded-resource": True})

    assert embedded.property("kind").type == "string"
    assert embedded.property("metadata").preserves_unknown
    assert embedded.property("spec") is None


def test_the_top_of_a_kind_says_which_kind_it_is():
    assert tree().gvks == (GroupVersionKind("example.io", "v1", "Tree"),)
    assert tree().required == ("name",)

"""Definitions whose lists, columns or paths no kube-apiserver accepts are refused, with its texts."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.wire import definition_rules

Document = dict[str, Any]

ROOT = "spec.versions[0]"
ONE = f"{ROOT}.schema.openAPIV3Schema.properties[one]"
LIST, KEYS, MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
TEXT = {"type": "string"}


def definition(one: Document, **version: Any) -> Document:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"one": one}}}
    return {
        "metadata": {"name": "boats.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }


def said(new: Document, old: Document | None = None) -> dict[str, str]:
    return {cause.field: cause.message for cause in definition_rules.faults(new, old)}


def keyed(keys: list[str], properties: Document, **more: Any) -> Document:
    items = {"type": "object", "properties": properties, **more}
    return {"type": "array", LIST: "map", KEYS: keys, "items": items}


@pytest.mark.parametrize(
    ("one", "field", "message"),
    [
        (
            {"type": "array", LIST: "mpa", "items": TEXT},
            LIST,
            'Unsupported value: "mpa": supported values: "atomic", "set", "map"',
        ),
        (
            {"type": "object", MAP: "fine"},
            MAP,
            'Unsupported value: "fine": supported values: "atomic", "granular"',
        ),
        (
            {"type": "string", LIST: "set"},
            "type",
            f'Invalid value: "string": must be array if {LIST} is specified',
        ),
        (
            {"x-kubernetes-int-or-string": True, MAP: "atomic"},
            "type",
            f"Required value: must be object if {MAP} is specified",
        ),
        (
            {"type": "array", "items": TEXT, KEYS: ["a"]},
            LIST,
            f"Required value: must be map if {KEYS} is non-empty",
        ),
        (
            {"type": "array", "items": TEXT, LIST: "set", KEYS: ["a"]},
            LIST,
            f'Invalid value: "set": must be map if {KEYS} is non-empty',
        ),
        (
            {"type": "array", "items": {"type": "object"}, LIST: "map"},
            KEYS,
            f"Required value: must not be empty if {LIST} is map",
        ),
        (
            {"type": "array", "items": TEXT, LIST: "map", KEYS: ["a"]},
            "items.type",
            f'Invalid value: "string": must be object if parent array\'s {LIST} is map',
        ),
        (
            keyed(["b"], {"a": TEXT}),
            KEYS,
            'Invalid value: ["b"]: entries must all be names of item properties',
        ),
        (
            keyed(["a", "a"], {"a": TEXT}, required=["a"]),
            KEYS,
            'Invalid value: ["a","a"]: must not contain duplicate entries',
        ),
        (
            keyed(["a"], {"a": {"type": "object"}}, required=["a"]),
            "items.properties[a].type",
            f'Invalid value: "object": must be a scalar type if parent array\'s {LIST} is map',
        ),
        (
            keyed(["a"], {"a": TEXT}),
            "items.properties[a].default",
            f"Required value: this property is in {KEYS}, so it must have a default or be a required property",
        ),
        (
            keyed(["a"], {"a": {**TEXT, "nullable": True}}, required=["a"]),
            "items.properties[a].nullable",
            f"Forbidden: this property is in {KEYS}, so it cannot be nullable",
        ),
        (
            {"type": "array", LIST: "set", "items": {**TEXT, "nullable": True}},
            "items.nullable",
            f"Forbidden: cannot be nullable when {LIST} is set",
        ),
        (
            {"type": "array", LIST: "set", "items": {"type": "object"}},
            f"items.{MAP}",
            f'Invalid value: "": must be atomic as item of a list with {LIST}=set',
        ),
        (
            {"type": "array", LIST: "set", "items": {"type": "array", LIST: "set", "items": TEXT}},
            f"items.{LIST}",
            f'Invalid value: "set": must be atomic as item of a list with {LIST}=set',
        ),
    ],
)
def test_a_list_that_cannot_be_is_refused(one: Document, field: str, message: str) -> None:
    assert said(definition(one)) == {f"{ONE}.{field}": message}


@pytest.mark.parametrize(
    "one",
    [
        {"type": "array", LIST: "atomic", "items": {"type": "object"}},
        {"type": "array", LIST: "set", "items": {"type": "object", MAP: "atomic"}},
        {"type": "array", LIST: "set", "items": {"type": "array", "items": TEXT}},
        {"type": "object", MAP: "granular"},
        keyed(["a"], {"a": {**TEXT, "default": ""}}),
        keyed(["a", "b"], {"a": TEXT, "b": {"type": "integer", "default": 0}}, required=["a"]),
    ],
)
def test_a_list_that_can_be_is_accepted(one: Document) -> None:
    assert said(definition(one)) == {}


COLUMN = {"name": "One", "type": "string", "jsonPath": ".one"}


@pytest.mark.parametrize(
    ("version", "field", "message"),
    [
        (
            {"additionalPrinterColumns": [{**COLUMN, "type": "text"}]},
            "additionalPrinterColumns[0].type",
            'Invalid value: "text": must be one of boolean,date,integer,number,string',
        ),
        (
            {"additionalPrinterColumns": [{**COLUMN, "format": "name"}]},
            "additionalPrinterColumns[0].format",
            'Invalid value: "name": must be one of byte,date,date-time,double,float,int32,int64,password',
        ),
        (
            {"additionalPrinterColumns": [COLUMN, {**COLUMN, "jsonPath": "one"}]},
            "additionalPrinterColumns[1].JSONPath",
            'Invalid value: "one": must be a simple json path starting with .',
        ),
        ({"additionalPrinterColumns": [{**COLUMN, "name": ""}]}, "additionalPrinterColumns[0].name", "Required value"),
        (
            {"selectableFields": [{"jsonPath": ".two"}]},
            "selectableFields[0].jsonPath",
            'Invalid value: ".two": is an invalid path: does not refer to a valid field',
        ),
        (
            {"selectableFields": [{"jsonPath": ".one"}, {"jsonPath": ".one"}]},
            "selectableFields[1].jsonPath",
            'Duplicate value: ".one"',
        ),
        (
            {"subresources": {"scale": {"specReplicasPath": ".one", "statusReplicasPath": ".status.one"}}},
            "subresources.scale.specReplicasPath",
            'Invalid value: ".one": should be a json path under .spec',
        ),
        (
            {"subresources": {"scale": {"specReplicasPath": ".spec.one"}}},
            "subresources.scale.statusReplicasPath",
            "Required value",
        ),
    ],
)
def test_a_path_that_cannot_be_is_refused(version: Document, field: str, message: str) -> None:
    assert said(definition(TEXT, **version)) == {f"{ROOT}.{field}": message}


def test_a_field_that_is_no_plain_value_or_in_the_metadata_cannot_be_selected() -> None:
    plain = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats"
    fields = [{"jsonPath": path} for path in (".one", ".metadata.name", ".one.deep.er", ".one.none", ".kind")]
    deep = {"type": "object", "properties": {"deep": {"type": "object", "additionalProperties": TEXT}}}

    found = said(definition(deep, selectableFields=fields))

    assert set(found) == {f"{ROOT}.selectableFields[{index}].jsonPath" for index in (0, 1, 3)}
    assert plain in found[f"{ROOT}.selectableFields[0].jsonPath"]


def test_at_most_eight_fields_can_be_selected() -> None:
    one = {"type": "object", "properties": {f"a{number}": TEXT for number in range(9)}}
    fields = [{"jsonPath": f".one.a{number}"} for number in range(9)]

    assert said(definition(one, selectableFields=fields[:8])) == {}
    assert list(said(definition(one, selectableFields=fields))) == [f"{ROOT}.selectableFields"]


def test_a_definition_that_is_stored_with_such_a_mistake_can_be_changed_but_gets_no_second_one() -> None:
    old = definition({"type": "array", LIST: "mpa", "items": TEXT})
    more = definition({"type": "array", LIST: "mpa", "items": TEXT}, additionalPrinterColumns=[{**COLUMN, "type": "x"}])

    assert said(old, old) == {}
    assert list(said(more, old)) == [f"{ROOT}.additionalPrinterColumns[0].type"]


APPROVAL = "api-approved.kubernetes.io"
SEE = ", see https://github.com/kubernetes/enhancements/pull/1111"
NEEDED = f'Required value: protected groups must have approval annotation "{APPROVAL}"{SEE}'
EITHER = 'with either a URL or a reason starting with "unapproved"'
WITH = f'protected groups must have approval annotation "{APPROVAL}" {EITHER}'


@pytest.mark.parametrize(
    ("group", "stated", "before", "message"),
    [
        ("other.io", None, "", ""),
        ("x-k8s.io", None, "", ""),
        ("sigs.k8s.io", None, "", NEEDED),
        ("sigs.kubernetes.io", "", "", NEEDED),
        ("sigs.k8s.io", "bad value", "", f'Invalid value: "bad value": {WITH}{SEE}'),
        ("sigs.k8s.io", "http://[", "", f'Invalid value: "http://[": {WITH}{SEE}'),
        ("sigs.k8s.io", "https://github.com/kubernetes/kubernetes/pull/79724", "", ""),
        ("sigs.k8s.io", "unapproved, experimental-only", "", ""),
        ("sigs.k8s.io", "bad", "worse", ""),
        ("sigs.k8s.io", None, None, ""),
        ("sigs.k8s.io", None, "bad", NEEDED),
    ],
)
def test_a_group_of_kubernetes_needs_an_approval_as_on_a_member(
    group: str, stated: str | None, before: str | None, message: str
) -> None:
    """`before`: the annotation of the stored definition, "": there is none."""

    def named(annotation: str | None) -> Document:
        made = definition({"type": "string"})
        made["metadata"] = {"name": f"boats.{group}"}
        if annotation is not None:
            made["metadata"]["annotations"] = {APPROVAL: annotation}
        made["spec"]["group"] = group
        return made

    old = None if before == "" else named(before)

    assert said(named(stated), old) == ({f"metadata.annotations[{APPROVAL}]": message} if message else {})

"""Schemas of CustomResourceDefinitions: what they refuse, prune and fill in, and which of them are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from controlplane.wire import definition_rules, document_check
from controlplane.wire.patterns import translated
from controlplane.wire.prune import prune
from controlplane.wire.structural import StructuralSchema, filled

Document = dict[str, Any]


def schema(**spec: Any) -> StructuralSchema:
    """A schema whose spec has these fields."""
    return StructuralSchema({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def faults(found: StructuralSchema, **spec: Any) -> list[tuple[str, str]]:
    """Which fields of a spec are refused, and with which reason."""
    return [(cause.field, cause.reason) for cause in document_check.faults({"spec": spec}, found)]


@pytest.mark.parametrize(
    ("field", "good", "bad", "reason"),
    [
        ({"type": "integer"}, 3, "3", "FieldValueTypeInvalid"),
        ({"type": "integer"}, 3, 3.5, "FieldValueTypeInvalid"),
        ({"type": "boolean"}, True, "true", "FieldValueTypeInvalid"),
        ({"type": "string", "enum": ["Red", "Green"]}, "Red", "Blue", "FieldValueNotSupported"),
        ({"type": "integer", "minimum": 1}, 1, 0, "FieldValueInvalid"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1, "FieldValueInvalid"),
        ({"type": "integer", "format": "int32"}, 2147483647, 2147483648, "FieldValueInvalid"),
        ({"type": "integer", "format": "int32", "minimum": -1e300}, -2147483648, -2147483649, "FieldValueInvalid"),
        ({"type": "integer", "format": "int64"}, -(2**63), 1e19, "FieldValueInvalid"),
        ({"type": "integer"}, 2**63 - 1, 2**63, "FieldValueInvalid"),
        ({"x-kubernetes-int-or-string": True}, 2**63 - 1, 2**63, "FieldValueInvalid"),
        ({"type": "integer", "format": "int32", "maximum": 5}, 5, 6, "FieldValueInvalid"),
        ({"type": "number", "maximum": 1.5}, 1.5, 1.6, "FieldValueInvalid"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "abc", "ab1", "FieldValueInvalid"),
        ({"type": "string", "maxLength": 3}, "abc", "abcd", "FieldValueInvalid"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", "yesterday", "FieldValueInvalid"),
        ({"type": "string", "format": "duration"}, "1h30m", "1 fortnight", "FieldValueInvalid"),
        ({"type": "string", "format": "cidr"}, "10.0.0.0/8", "10.0.0.0/99", "FieldValueInvalid"),
        ({"type": "string", "format": "ipv4"}, "10.0.0.1", "10.0.0.256", "FieldValueInvalid"),
        ({"type": "string", "format": "uri"}, "/healthz", "not a uri", "FieldValueInvalid"),
        ({"type": "string", "format": "email"}, "ops@example.io", "nobody", "FieldValueInvalid"),
        ({"type": "string", "format": "uuid"}, "0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d", "0c2b", "FieldValueInvalid"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-30", "FieldValueInvalid"),
        ({"type": "string", "pattern": "(?i)^on|off$"}, "ON", "perhaps", "FieldValueInvalid"),
        ({"type": "string", "pattern": "^[[:alpha:]]+$"}, "abc", "ab1", "FieldValueInvalid"),
        ({"type": "number", "maximum": 2, "exclusiveMaximum": True}, 1.9, 2, "FieldValueInvalid"),
        ({"type": "string", "format": "not-known"}, "anything", 1, "FieldValueTypeInvalid"),
        ({"x-kubernetes-int-or-string": True}, "80%", 1.5, "FieldValueTypeInvalid"),
        ({"type": "string", "nullable": True}, None, 1, "FieldValueTypeInvalid"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a"], ["a", "b"], "FieldValueInvalid"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            {"a": "b"},
            "FieldValueTypeInvalid",
        ),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
            {"a": "b"},
            {},
            "FieldValueRequired",
        ),
    ],
)
def test_a_value_has_to_be_what_its_schema_says(field: Document, good: Any, bad: Any, reason: str) -> None:
    found = schema(one=field)

    assert faults(found, one=good) == []
    assert [why for _, why in faults(found, one=bad)] == [reason]


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [  # as strfmt reads them, which a kube-apiserver uses
        (
            "duration",
            ("1d", "2w", "22 ns", "1 hour", "3 days 4 hrs", "5Minutes", "10 milliseconds", "1.5h", "-3s", "0", "7µs"),
            ("1", "", "1.5d", "3 parsecs", "h", "٣s"),
        ),
        ("cidr", ("10.1.2.3/8", "::/0"), ("10.0.0.0", "10.0.0.0/255.0.0.0", "fe80::1%eth0/64", "10.0.0/8")),
        ("date", ("2026-02-28",), ("20260228", "2026-W09-6", "2026-2-8")),
        (
            "mac",
            ("00:1a:2B:3c:4d:5e", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "02:00:5e:10:00:00:00:01"),
            ("00:1a-2b:3c:4d:5e", "001a2b3c4d5e", "00:1a:2b:3c:4d"),
        ),
        (
            "uuid",
            ("0C2B8A4E-5f6d-4a3b-9c1d-7e8f9a0b1c2d", "0c2b8a4e5f6d4a3b9c1d7e8f9a0b1c2d"),
            ("{0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d}", "urn:uuid:0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d"),
        ),
    ],
)
def test_formats_are_those_of_kubernetes(format_: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    found = schema(one={"type": "string", "format": format_})

    assert {text for text in good if faults(found, one=text)} == set()
    assert {text for text in bad if not faults(found, one=text)} == set()


def test_everything_wrong_is_said_at_once() -> None:
    found = schema(seats={"type": "integer"}, colour={"type": "string", "enum": ["Red"]})

    assert {field for field, _ in faults(found, seats="many", colour="Blue")} == {"spec.seats", "spec.colour"}


@pytest.mark.parametrize(
    ("words", "items", "twice"),
    [
        ({"x-kubernetes-list-type": "set", "items": {"type": "string"}}, ["a", "b", "a"], "spec.one[2]"),
        (
            {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
            },
            [{"name": "a", "size": 1}, {"name": "a", "size": 2}],
            "spec.one[1]",
        ),
    ],
)
def test_a_set_and_a_map_hold_everything_once(words: Document, items: list[Any], twice: str) -> None:
    assert faults(schema(one={"type": "array", **words}), one=items) == [(twice, "FieldValueDuplicate")]


@pytest.mark.parametrize(
    ("items", "twice"),
    [([0, False], 0), ([1, True, "1"], 0), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], 1), ([[1, 2], [2, 1], [1, 2]], 1)],
)
def test_values_of_a_set_are_compared_as_values_of_json(items: list[Any], twice: int) -> None:
    found = schema(one={"type": "array", "x-kubernetes-list-type": "set"})

    assert len(found.duplicates({"spec": {"one": items}})) == twice


def test_a_long_set_is_checked_in_linear_time() -> None:
    found = schema(one={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
    document = {"spec": {"one": [str(number) for number in range(50_000)]}}
    begun = time.thread_time()

    assert found.duplicates(document) == []
    assert time.thread_time() - begun < 5  # if each item is compared with those before it: half a minute


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[\w-.]+$", "a-b.c", "a b"),
        (r"^[\pL-.]+$", "é-.", "1"),
        (r"^[\d\p{Greek}-/]+$", "1-α/", "b"),
        (r"^[\w-]+$", "a-b", "a.b"),
        (r"^[^[\]]+$", "ab", "a[b"),
        (r"^[]a]+$", "]a", "b"),
        (r"^[][]+$", "[]", "b"),
        (r"^[^][&&]+$", "ab", "&"),
        (r"^[[:^alpha:]]+$", "1 é", "a"),
        (r"^[^[:^digit:]]+$", "12", "a"),
        (r"^[[:alpha:]-.]+$", "a-.", "1"),
        (r"^[[:word:]-.]+$", "a_-.", "~"),
        (r"^[[:blank:]-.]+$", " -.", "#"),
        (r"^[[:word:]-]+$", "a-", "."),
        (r"^[^\<\>]+$", "ab", "<"),
        (r"^\Q<a>\E$", "<a>", "a"),
        ("^\\Qa–b\\E$", "a–b", "ab"),
        (r"^\S+$", "a\u3000b\v", "a b"),
        (r"^[\S]$", "\u00a0", " "),
        (r"^\s$", "\t", "\u00a0"),
        (r"^[\s-.]$", "-", "\v"),
        (r"^[\a]$", "\a", "a"),
        (r"^\a$", "\a", "a"),
        (r"^\Qa.b{\E+$", "a.b{{", "axb{"),
        (r"^\Q(a", "(a", "a"),
        (r"^\<a\>$", "<a>", "a"),
        (r"^\${[^}]+}$", "${a}", "$a"),
        (r"^a{,3}$", "a{,3}", "aa"),
        (r"^a{2}b{1,}c{0,3}$", "aabbc", "abc"),
        (r"^\x{41}\p{Lu}$", "AB", "Ab"),
        (r"^\{[{}]\}$", "{{}", "{a}"),
    ],
)
def test_a_pattern_is_read_as_go_reads_it(pattern: str, good: str, bad: str) -> None:
    found = schema(one={"type": "string", "pattern": pattern})

    assert faults(found, one=good) == []
    assert faults(found, one=bad) == [("spec.one", "FieldValueInvalid")]


@pytest.mark.parametrize("part", ["[", "[[:", "[:a", r"\p{", "{1", r"\Q", "[]", r"[\p{", "[a\\"])
def test_a_pattern_is_read_once_however_it_is_written(part: str) -> None:
    began = time.thread_time()

    assert translated(part * 100_000)
    assert time.thread_time() - began < 2


def test_a_hostile_pattern_costs_no_time() -> None:
    found = schema(one={"type": "string", "pattern": "^(a+)+$"})
    begun = time.thread_time()

    assert len(faults(found, one="a" * 100_000 + "b")) == 1
    assert time.thread_time() - begun < 5  # a backtracking engine needs longer than the universe has


def test_unknown_fields_go_unless_the_schema_keeps_them() -> None:
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = schema(seats={"type": "integer"}, values=kept, strict={"type": "object"})
    sent = {"spec": {"seats": 1, "sails": 2, "values": {"any": 1}, "strict": {"any": 1}}, "metadata": {"name": "a"}}

    assert prune(sent, found)["spec"] == {"seats": 1, "values": {"any": 1}, "strict": {}}


def test_defaults_fill_what_is_left_out_however_deep() -> None:
    port = {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}
    found = schema(
        seats={"type": "integer", "default": 4},
        ports={"type": "array", "items": port},
        crew={"type": "object", "default": {}, "properties": {"size": {"type": "integer", "default": 2}}},
    )
    sent = {"metadata": {"name": "a"}, "spec": {"ports": [{}, {"protocol": "UDP"}]}}

    made = filled(sent, found)

    assert made["spec"] == {
        "seats": 4,
        "ports": [{"protocol": "TCP"}, {"protocol": "UDP"}],
        "crew": {"size": 2},
    }
    assert filled(made, found) == made
    assert sent == {"metadata": {"name": "a"}, "spec": {"ports": [{}, {"protocol": "UDP"}]}}


def definition(node: Document | None, **more: Any) -> Document:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": node}}
    names = {"kind": "Boat", "plural": "boats"}
    spec = {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version], **more}
    return definition_rules.defaulted({"metadata": {"name": "boats.example.io"}, "spec": spec})


NODE: Document = {"type": "object"}


def at(field: Document) -> Document:
    return {"type": "object", "properties": {"one": field}}


ROOT = "spec.versions[0].schema.openAPIV3Schema"
ONE = f"{ROOT}.properties[one]"


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        (definition(None), ROOT, "schemas are required"),
        (definition({"type": "string"}), f"{ROOT}.type", 'must be "object" at the root'),
        (definition(at({})), f"{ONE}.type", "must not be empty"),
        (definition(at({"type": "text"})), f"{ONE}.type", "must be one of"),
        (definition(at({"type": "array"})), f"{ONE}.items", "must be specified"),
        (definition(at({"type": "string", "$ref": "#/x"})), f"{ONE}.$ref", "not allowed"),
        (definition(at({"type": "string", "pattern": "("})), f"{ONE}.pattern", "RE2"),
        (definition(at({"type": "string", "pattern": "(?=a)"})), f"{ONE}.pattern", "no lookaround"),
        (definition(at({"type": "string", "default": 3})), f"{ONE}.default", "3 is not of type"),
        (
            definition(at({"type": "array", "items": {"type": "string"}, "uniqueItems": True})),
            f"{ONE}.uniqueItems",
            "set",
        ),
        (definition(at({"type": "object", "additionalProperties": False})), f"{ONE}.additionalProperties", "false"),
        (definition(at({"type": "string", "allOf": [{"pattern": "("}]})), ROOT, "cannot be enforced"),
        (definition(NODE, group="other.io"), "metadata.name", "boats.other.io"),
        (definition(NODE, scope="Everywhere"), "spec.scope", "Namespaced"),
        (definition(NODE, preserveUnknownFields=True), "spec.preserveUnknownFields", "must be false"),
        (definition(NODE, names={"kind": "Boat", "plural": "Boats"}), "spec.names.plural", "lower case"),
        (
            definition(NODE, versions=[{"name": "v1", "served": True, "schema": {"openAPIV3Schema": NODE}}]),
            "spec.versions",
            "exactly one version",
        ),
    ],
)
def test_a_definition_that_cannot_be_enforced_is_refused(wrong: Document, field: str, said: str) -> None:
    found = [cause for cause in definition_rules.faults(wrong, None) if cause.field == field]

    assert found, definition_rules.faults(wrong, None)
    assert said in found[0].message


def test_what_says_everything_right_is_taken() -> None:
    assert definition_rules.faults(definition(at({"type": "string", "default": "a", "pattern": "^a"})), None) == []
    assert definition_rules.warnings(definition(NODE)) == []


def test_a_kind_keeps_its_names_for_life() -> None:
    old = definition(NODE)
    new = definition(NODE, scope="Cluster", names={"kind": "Ship", "plural": "boats"})

    assert {cause.field for cause in definition_rules.faults(new, old)} == {"spec.scope", "spec.names.kind"}


def version_of(name: str, *, served: bool, storage: bool) -> Document:
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": NODE}}


V1, V2 = version_of("v1", served=True, storage=True), version_of("v2", served=True, storage=False)
SERVICE = {"clientConfig": {"service": {"name": "a", "namespace": "b"}}, "conversionReviewVersions": ["v1"]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"versions": [V1, V2], "conversion": {"strategy": "Webhook", "webhook": SERVICE}},
            "there are no Services here",
        ),
        ({"versions": [{**V1, "served": False}, V2]}, "v1 is stored and not served"),
        ({"versions": [V1, V2]}, ""),
    ],
)
def test_what_has_no_effect_here_is_warned_of(more: Document, said: str) -> None:
    warned = definition_rules.warnings(definition(NODE, **more))
    assert len(warned) == (1 if said else 0)
    assert all(said in one for one in warned)


HOOK = {"clientConfig": {"url": "https://hooks.example.com/"}, "conversionReviewVersions": ["v1"]}


@pytest.mark.parametrize(
    ("conversion", "field"),
    [
        ({"strategy": "Webhook", "webhook": HOOK}, ""),
        ({"strategy": "Magic"}, "spec.conversion.strategy"),
        ({"strategy": "None", "webhook": HOOK}, "spec.conversion.webhook"),
        ({"strategy": "Webhook"}, "spec.conversion.webhook.clientConfig"),
        (
            {"strategy": "Webhook", "webhook": {**HOOK, "clientConfig": {"url": "http://a/"}}},
            "spec.conversion.webhook.clientConfig.url",
        ),
        (
            {"strategy": "Webhook", "webhook": {**HOOK, "conversionReviewVersions": ["v1beta1"]}},
            "spec.conversion.webhook.conversionReviewVersions",
        ),
    ],
)
def test_a_conversion_that_cannot_be_done_is_refused_by_field(conversion: Document, field: str) -> None:
    fields = {cause.field for cause in definition_rules.faults(definition(NODE, conversion=conversion), None)}
    if field == "spec.conversion.webhook.clientConfig":
        assert fields == {field, "spec.conversion.webhook.conversionReviewVersions"}
    else:
        assert fields == ({field} if field else set())

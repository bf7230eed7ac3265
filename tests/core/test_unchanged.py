"""What an edit leaves as it is may break a schema that came later; what it changes may not."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.wire.document_check import faults
from controlplane.wire.structural import StructuralSchema

Document = dict[str, Any]

WORD: Document = {"type": "string", "maxLength": 3}
ITEM: Document = {"type": "object", "required": ["size"], "properties": {"name": WORD, "size": {"type": "integer"}}}
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SCHEMA = StructuralSchema(
    {
        "type": "object",
        "required": ["must"],
        "properties": {
            "word": WORD,
            "box": {"type": "object", "required": ["lid"], "properties": {"lid": WORD, "1": WORD}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": WORD, "b": WORD}},
            "map": {"type": "object", "additionalProperties": WORD},
            "list": {"type": "array", "items": WORD},
            "set": {"type": "array", "items": WORD, "x-kubernetes-list-type": "set"},
            "named": {"type": "array", "items": ITEM, **BY_NAME},
            "must": {"type": "string"},
        },
    }
)
LONG = "long word"
CASES: list[tuple[str, Document, Document, list[str]]] = [
    ("kept", {"word": LONG}, {"word": LONG, "box": {"lid": "a"}}, []),
    ("changed", {"word": LONG}, {"word": "longer word"}, ["word"]),
    ("changed type", {"word": True}, {"word": 1}, ["word"]),
    ("new", {}, {"word": LONG}, ["word"]),
    ("field beside it changed", {"box": {"lid": LONG, "1": "a"}}, {"box": {"lid": LONG, "1": "b"}}, []),
    ("field with the name of a number", {"box": {"lid": "a", "1": LONG}}, {"box": {"lid": "b", "1": LONG}}, []),
    ("lacking as before", {"box": {"1": "a"}}, {"box": {"1": "a"}, "word": "b"}, []),
    ("lacking in what changed", {"box": {"1": "a"}}, {"box": {"1": "b"}}, ["box.lid"]),
    ("entry of a map", {"map": {"a": LONG}}, {"map": {"a": LONG, "b": "c"}}, []),
    ("entry under another key", {"map": {"a": LONG}}, {"map": {"b": LONG}}, ["map.b"]),
    ("field of an atomic map", {"whole": {"a": LONG}}, {"whole": {"a": LONG, "b": "c"}}, ["whole.a"]),
    ("atomic map", {"whole": {"a": LONG}}, {"whole": {"a": LONG}, "word": "b"}, []),
    ("item of a list", {"list": [LONG]}, {"list": [LONG, "a"]}, ["list[0]"]),
    ("list", {"list": [LONG]}, {"list": [LONG], "word": "b"}, []),
    ("item of a set", {"set": [LONG]}, {"set": [LONG, "a"]}, ["set[0]"]),
    (
        "item of a list with keys, elsewhere",
        {"named": [{"name": LONG, "size": 1}]},
        {"named": [{"name": "a", "size": 1}, {"name": LONG, "size": 2}]},
        [],
    ),
    ("another item", {"named": [{"name": "a"}]}, {"named": [{"name": "b"}]}, ["named[0].size"]),
    ("list that was something else", {"named": "a"}, {"named": [{"name": LONG, "size": 1}]}, ["named[0].name"]),
    ("map that was something else", {"box": "a"}, {"box": {"lid": LONG}}, ["box.lid"]),
    ("duplicates that were there", {"set": ["a", "a"]}, {"set": ["b", "b"]}, []),
    ("new duplicates", {"set": ["a"]}, {"set": ["b", "b"]}, ["set[1]"]),
]


@pytest.mark.parametrize(("before", "after", "fields"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_only_what_an_edit_changes_is_held_to_the_schema(before: Document, after: Document, fields: list[str]) -> None:
    before, after = {**before, "must": "a"}, {**after, "must": "a"}

    assert [cause.field for cause in faults(after, SCHEMA, read_before=lambda: before)] == fields


def test_the_document_before_is_read_only_if_something_is_wrong() -> None:
    def read() -> Document:
        raise AssertionError("nothing is wrong")

    assert faults({"must": "a", "word": "b"}, SCHEMA, read_before=read) == []

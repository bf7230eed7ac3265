"""An object that its edited definition does not change is decoded once, and shown as its definition says each time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apps.objects.defined_texts import DefinedTexts
from apps.objects.versions import texts_in_version
from controlplane.kind import Kind
from controlplane.propagation.definitions import kind_of
from controlplane.wire.schema import Schema
from tests.builders.templates import definition

Document = dict[str, Any]
TEXT: Document = {"type": "string"}


def edited(**fields: Document) -> Kind:
    """Return a kind whose definition was edited, and has these fields in its spec."""
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": node}}
    made = kind_of(definition(group="texts.example.io", versions=[version], generation=2))
    assert made is not None
    return made


def boat(**spec: Any) -> bytes:
    head = {"apiVersion": "texts.example.io/v1", "kind": "Boat", "metadata": {"name": "ferry"}}
    return orjson.dumps({**head, "spec": spec})


def specs(kind: Kind, *texts: bytes) -> list[Any]:
    return [orjson.loads(text)["spec"] for text in texts_in_version(kind, texts)]


def test_an_object_that_is_as_its_edited_definition_shows_it_is_decoded_once() -> None:
    kind, texts = edited(motor=TEXT), [boat(motor="steam"), boat(motor="diesel")]

    assert list(texts_in_version(kind, texts)) == texts
    assert texts_in_version(kind, texts) is texts


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ({"motor": "steam", "gone": 1}, {"motor": "steam", "mode": "slow"}),
        ({"motor": "steam"}, {"motor": "steam", "mode": "slow"}),
        ({"mode": "fast", "seats": 1.0}, {"mode": "fast", "seats": 1}),
    ],
)
def test_an_object_that_its_definition_changes_is_shown_so_each_time(stored: Document, shown: Document) -> None:
    kind = edited(motor=TEXT, seats={"type": "number"}, mode={**TEXT, "default": "slow"})

    found = [specs(kind, boat(**stored), boat(mode="fast")) for _ in range(2)]

    assert found == [[shown, {"mode": "fast"}]] * 2
    assert type(found[0][0].get("seats", 1)) is int


def test_an_object_that_was_as_shown_is_changed_by_the_next_edit() -> None:
    text = boat(motor="steam")
    assert specs(edited(motor=TEXT), text) == specs(edited(motor=TEXT), text) == [{"motor": "steam"}]

    assert specs(edited(seats={"type": "integer"}), text) == [{}]


def test_the_texts_that_were_noted_first_are_forgotten() -> None:
    known, schema = DefinedTexts(most=2), Schema({"type": "object"})
    digests = [known.digest(schema, text) for text in (b"a", b"b", b"c")]
    for digest in digests:
        known.add(digest)

    assert [digest in known for digest in digests] == [False, True, True]
    assert known.digest(Schema({"type": "object"}), b"c") not in known

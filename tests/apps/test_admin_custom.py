"""The admin edits custom objects as the definition of their kind shows them now, like the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.objects.definitions import definitions
from apps.objects.store import store
from apps.objects.writer import Author, Change, Writer, document_of
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Put
from controlplane.kind import KINDS
from controlplane.kinds import DEFINITION
from controlplane.settings import Settings
from tests.api.test_definitions import definition
from tests.apps.pages import found, page_of, save, stored, text_in
from tests.builders.templates import namespace

Document = dict[str, Any]
GROUP = "edited.example.io"
NAME = f"boats.{GROUP}"
TEXT: Document = {"type": "string"}
FERRY = Ref(f"{GROUP}/Boat", "shop", "ferry")


def version(name: str, *, stored: bool, **fields: Document) -> Document:
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    (made,) = definition(GROUP, node)["spec"]["versions"]
    return {**made, "name": name, "storage": stored}


@pytest.fixture
def boats(root: Client) -> Iterator[Client]:
    """Who looks at the boat `ferry`, which was stored before its definition was edited: `motor` is gone, `mode` new."""
    stored(namespace("shop"))
    writer = Writer(store(), Settings(), Author("eva", "Test"))
    document = definition(GROUP)
    document["spec"]["versions"] = [version("v1", stored=True, seats={"type": "integer"}, motor=TEXT)]
    made = writer.create(KINDS[DEFINITION], document).stored
    ferry = {"metadata": {"name": "ferry", "namespace": "shop"}, "spec": {"seats": 2, "motor": "steam"}}
    writer.create(KINDS[FERRY.kind], ferry)
    edit(writer, made.ref, version("v1", stored=True, seats={"type": "integer"}, mode={**TEXT, "default": "slow"}))
    yield root
    KINDS.set_custom([])
    definitions()._versions = {}


def edit(writer: Writer, ref: Ref, *versions: Document, **more: Document) -> None:
    live = writer.live(ref)
    document = document_of(live)
    document["spec"] |= {"versions": list(versions), **more}
    writer.change(ref, lambda: Change(Put(writer.admit_change(KINDS[DEFINITION], document, live).object, live)))


def test_an_object_of_before_an_edit_of_its_definition_is_shown_and_saved_as_the_api_does(boats: Client) -> None:
    url = page_of(found(FERRY))
    text = text_in(boats, url)

    said = save(boats, url, text.replace("seats: 2", "seats: 3")).content.decode()

    assert "motor" not in text
    assert "mode: slow" in text
    assert "strict decoding error" not in said
    assert found(FERRY).spec == {"seats": 3, "mode": "slow"}
    assert found(FERRY).metadata.generation == 2


def test_an_object_of_an_earlier_stored_version_is_shown_and_saved_in_the_present_one(boats: Client) -> None:
    fields = {"seats": {"type": "integer"}}
    versions = version("v1", stored=False, **fields), version("v2", stored=True, **fields)
    edit(Writer(store(), Settings(), Author("eva", "Test")), Ref(DEFINITION, "", NAME), *versions)
    url = page_of(found(FERRY))

    said = save(boats, url, text_in(boats, url).replace("seats: 2", "seats: 3")).content.decode()

    assert "field is immutable" not in said
    assert (found(FERRY).api_version, found(FERRY).spec) == (f"{GROUP}/v2", {"seats": 3})


def test_an_object_is_added_in_any_served_version(boats: Client) -> None:
    fields = {"seats": {"type": "integer"}}
    versions = version("v1", stored=False, **fields), version("v2", stored=True, **fields)
    edit(Writer(store(), Settings(), Author("eva", "Test")), Ref(DEFINITION, "", NAME), *versions)
    text = f"apiVersion: {GROUP}/v1\nkind: Boat\nmetadata: {{name: raft, namespace: shop}}\nspec: {{seats: 1}}\n"

    answer = boats.post(reverse("admin:objects_object_add"), {"document": text, "_save": "1"}, follow=True)

    assert "raft created" in answer.content.decode()
    assert found(FERRY._replace(name="raft")).api_version == f"{GROUP}/v2"


def test_an_object_that_no_webhook_converts_is_shown_as_it_is_stored_and_not_saved(boats: Client) -> None:
    client = {"url": "https://127.0.0.1:1/convert"}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    fields = {"seats": {"type": "integer"}}
    versions = version("v1", stored=False, **fields), version("v2", stored=True, **fields)
    writer = Writer(store(), Settings(), Author("eva", "Test"))
    edit(writer, Ref(DEFINITION, "", NAME), *versions, conversion=conversion)
    url = page_of(found(FERRY))
    text = text_in(boats, url)

    said = save(boats, url, text).content.decode()

    assert f"apiVersion: {GROUP}/v1" in text
    assert "conversion webhook for" in said
    assert found(FERRY).spec == {"seats": 2, "motor": "steam"}

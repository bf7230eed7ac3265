"""What users write is what is stored: every field of every kind they write, with its default, its zero and another
value. Declared defaults are stored, and applying the same again changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kind import KINDS, Kind
from controlplane.wire.schema import Schema
from tests.api.server import Client
from tests.api.written import MOVED, SPECS, UNWRITTEN, Document, Variant, fields, variants, without_positions
from tests.builders.documents import CLUSTERS, cluster

APPLY = "application/apply-patch+yaml"
WRITTEN_BY_USERS = sorted({key for key, _ in SPECS})


def _spec_schema(key: str) -> Schema:
    found = KINDS[key].schema().property("spec")
    assert found is not None
    return found


def _url(kind: Kind, namespace: str, name: str) -> str:
    resource = kind.resource
    place = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"/apis/{resource.api_version}{place}/{resource.plural}/{name}"


def _kept(written: Any, stored: Any, schema: Schema) -> bool:
    """Test whether `kubectl apply` finds no difference: all that was written stands there, and lists as a whole."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return all(
            name in stored and _kept(item, stored[name], schema.property(name) or Schema.OPEN)
            for name, item in written.items()
        )
    if isinstance(written, list) and isinstance(stored, list) and schema.items is not None:
        return len(written) == len(stored) and all(
            _kept(one, other, schema.items) and _extra(one, other) <= _declared(schema.items)
            for one, other in zip(written, stored, strict=True)
        )
    return type(written) is type(stored) and bool(written == stored)


def _extra(written: Any, stored: Any) -> set[str]:
    return set(stored) - set(written) if isinstance(stored, dict) else set()


def _declared(schema: Schema) -> set[str]:
    return {name for name, inner in schema.properties.items() if inner.default is not None}


def test_every_kind_of_this_product_with_a_spec_has_a_manifest_here() -> None:
    ours = {
        kind.key
        for kind in KINDS
        if kind.resource.group.endswith(("karmada.io", "lifeboat.io"))
        and "create" in kind.resource.verbs
        and kind.schema().property("spec") is not None
    }

    assert ours - set(UNWRITTEN) == set(WRITTEN_BY_USERS), "add a spec with all fields to SPECS in tests/api/written.py"


@pytest.mark.parametrize("key", WRITTEN_BY_USERS)
def test_the_manifests_of_this_test_say_every_field_of_a_kind(key: str) -> None:
    said = {
        without_positions(one.path)
        for found, spec in SPECS
        if found == key
        for one in variants(key, spec, _spec_schema(key))
    }
    moved = tuple(field for kind, field in MOVED if kind == key)
    known = {field for field in fields(_spec_schema(key)) if not field.startswith(moved)}

    assert known - said == set(), "add values of these fields to SPECS in tests/api/written.py"


@pytest.mark.parametrize("key", WRITTEN_BY_USERS)
def test_what_is_written_stays_and_applying_it_again_changes_nothing(api: Client, namespace: str, key: str) -> None:
    kind, schema = KINDS[key], _spec_schema(key)
    api.post(CLUSTERS, cluster("member1"))  # for kinds that name one; another test may have made it
    accepted: set[str] = set()
    for number, (found, spec) in enumerate(SPECS):
        if found == key:
            for turn, variant in enumerate(variants(key, spec, schema)):
                if _stays(api, _url(kind, namespace, f"written-{number}-{turn}"), kind, schema, variant):
                    accepted |= {without_positions(one.path) for one in variants(key, variant.spec, schema)}

    moved = tuple(field for kind, field in MOVED if kind == key)
    never = {field for field in fields(schema) if not field.startswith(moved)} - accepted
    assert not never, "no value of these fields was accepted"


def _stays(api: Client, url: str, kind: Kind, schema: Schema, variant: Variant) -> bool:
    """Apply a variant twice, and put back what is read; return whether the API takes it at all."""
    body: Document = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": url.rpartition("/")[2]},
        "spec": variant.spec,
    }
    made = api.patch(url, body, APPLY, fieldManager="tests", force="true")
    if made.status == 422:
        return False
    reported = f"{kind.key} {variant.path} = {variant.value!r}"
    assert made.status == 201, f"{reported}: {made.body.decode()}"
    stored = api.get(url).document
    assert _kept(variant.spec, stored["spec"], schema), f"{reported}: stored is {stored['spec']}"
    _defaults_stand(schema, stored["spec"], reported)
    again = api.patch(url, body, APPLY, fieldManager="tests", force="true")
    put = api.put(url, again.document)
    versions = [one.document["metadata"]["resourceVersion"] for one in (made, again, put)]
    assert len(set(versions)) == 1, f"{reported}: applied again at {versions}"
    assert {one.document["metadata"].get("generation", 0) for one in (made, again, put)} == {
        stored["metadata"].get("generation", 0)
    }
    api.delete(url)
    return True


def _defaults_stand(schema: Schema, stored: Any, reported: str) -> None:
    """Every declared default is in what is read, wherever the part is that declares it."""
    if isinstance(stored, dict):
        missing = {name for name in _declared(schema) if name not in stored}
        assert not missing, f"{reported}: {missing} are not in what is read"
        for name, item in stored.items():
            _defaults_stand(schema.property(name) or Schema.OPEN, item, reported)
    elif isinstance(stored, list) and schema.items is not None:
        for item in stored:
            _defaults_stand(schema.items, item, reported)

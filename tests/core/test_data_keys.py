"""ConfigMaps and Secrets: how keys are spelled, and data that was declared immutable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.documents import Document
from tests.core.admitted import created, refused, updated

TEXTS = {"ConfigMap": "plain", "Secret": "cGxhaW4="}
MISSPELT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
FROZEN = "Forbidden: field is immutable when `immutable` is set"


def kept(kind: str, data: Document, **more: Any) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "data": data, **more}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("key", ["key.name", "KEY_NAME", "key-name", ".dockerconfigjson", "0", "a" * 253, "a..b"])
def test_such_keys_are_taken(kind: str, key: str) -> None:
    assert created(kept(kind, {key: TEXTS[kind]})).object.content["data"] == {key: TEXTS[kind]}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    ("key", "rules"),
    [
        ("", [MISSPELT]),
        ("a b", [MISSPELT]),
        ("dir/file", [MISSPELT]),
        ("schlüssel", [MISSPELT]),
        ("line\n", [MISSPELT]),
        (".", ["must not be '.'"]),
        ("..", ["must not be '..'"]),
        ("..data", ["must not start with '..'"]),
        ("a" * 254, ["must be no more than 253 characters"]),
        ("/" * 254, ["must be no more than 253 characters", MISSPELT]),
    ],
)
def test_a_misspelt_key_is_refused_with_every_rule_it_breaks(kind: str, key: str, rules: list[str]) -> None:
    causes = refused(kept(kind, {key: TEXTS[kind]}))

    assert [one.field for one in causes] == [f"data[{key}]"] * len(rules)
    assert [one.message.rpartition(": ")[2] for one in causes] == rules


@pytest.mark.parametrize(
    ("kind", "field"), [("ConfigMap", "binaryData"), ("Secret", "stringData")], ids=["binary", "text"]
)
def test_keys_beside_data_are_spelled_the_same(kind: str, field: str) -> None:
    (cause,) = refused(kept(kind, {}, **{field: {"dir/file": "YQ=="}}))

    assert cause.message.endswith(MISSPELT)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"immutable": False}, ["immutable"]),
        ({"immutable": None}, ["immutable"]),
        ({"data": {"key": "b3RoZXI="}}, ["data"]),
        ({"data": {}}, ["data"]),
        ({"data": {}, "immutable": False}, ["immutable", "data"]),
        ({"metadata": {"name": "one", "labels": {"a": "b"}}}, []),
    ],
)
def test_of_what_is_immutable_only_metadata_changes(kind: str, change: Document, wrong: list[str]) -> None:
    doc = kept(kind, {"key": TEXTS[kind]}, immutable=True)
    old = created(doc).object

    if not wrong:
        assert updated({**doc, **change}, old).object.metadata.labels == {"a": "b"}
        return
    causes = refused({**doc, **change}, old=old)
    assert [(one.field, one.message) for one in causes] == [(field, FROZEN) for field in wrong]


def test_binary_data_is_immutable_too() -> None:
    doc = kept("ConfigMap", {}, immutable=True, binaryData={"key": "YQ=="})

    (cause,) = refused({**doc, "binaryData": {"key": "Yg=="}}, old=created(doc).object)

    assert cause.field == "binaryData"


@pytest.mark.parametrize("kind", TEXTS)
def test_what_is_not_immutable_yet_may_become_so(kind: str) -> None:
    old = created(kept(kind, {"key": TEXTS[kind]})).object

    new = updated(kept(kind, {"other": TEXTS[kind]}, immutable=True), old).object

    assert (new.content["data"], new.content["immutable"]) == ({"other": TEXTS[kind]}, True)

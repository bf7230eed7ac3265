"""Roles decide as in a kube-apiserver: its answers to thousands of questions, kept as data (tests/rbac)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import pytest

from controlplane.apimachinery.errors import Forbidden
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.default_roles import documents
from controlplane.authorization.escalation import CHECKS
from controlplane.authorization.policy import GROUP, KINDS, Policy
from tests.rbac.__main__ import ANSWERS
from tests.rbac.questions import DEFAULT_KINDS, DEFAULT_ROLES, VERBS, WRITERS, Document, questions, stored, writes

OF_DEFAULT_ROLES = len(DEFAULT_ROLES) * len(DEFAULT_KINDS) * (len(VERBS) - 1) * 2


@cache
def answers() -> Document:
    found: Document = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    return found


@cache
def policy() -> Policy:
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for document in (*documents(), *stored(), *WRITERS):
        found[f"{GROUP}/{document['kind']}"].append(document)
    return Policy(found)


def decided(spec: Document) -> bool:
    caller = Caller(spec["user"], tuple(spec["groups"]))
    if path := spec.get("nonResourceAttributes"):
        return policy().authorize(caller, Request(path["verb"], path=path["path"])).allowed
    asked = dict(spec["resourceAttributes"])
    request = Request(
        *(asked.get(field, "") for field in ("verb", "group", "resource", "subresource", "namespace", "name"))
    )
    return policy().authorize(caller, request).allowed


def wrong(first: int, last: int) -> list[tuple[Document, bool]]:
    pairs = zip(questions()[first:last], answers()["allowed"][first:last], strict=True)
    return [(spec, allowed) for spec, allowed in pairs if decided(spec) is not allowed]


def test_rules_and_bindings_allow_what_they_allow_there() -> None:
    asked = len(questions()) - OF_DEFAULT_ROLES

    assert asked >= 1500
    assert wrong(0, asked) == []


def test_default_roles_allow_what_they_allow_there() -> None:
    assert wrong(len(questions()) - OF_DEFAULT_ROLES, len(questions())) == []


@pytest.mark.parametrize("number", range(len(writes())))
def test_a_role_or_binding_is_refused_that_is_refused_there(number: int) -> None:
    write, status = writes()[number], answers()["written"][number]
    document = write["document"]
    check = CHECKS[f"{GROUP}/{document['kind']}"]

    if status == 201:
        check(policy(), Caller(write["user"]), document, None)
    elif status == 403:
        with pytest.raises(Forbidden):
            check(policy(), Caller(write["user"]), document, None)
    else:
        assert status == 422  # admission refuses these: tests/core/test_rbac.py

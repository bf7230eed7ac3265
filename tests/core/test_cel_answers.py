"""Rules in CEL: our answers are those of a real kube-apiserver (tests/cel)."""

from __future__ import annotations

import json

import pytest

from controlplane.apimachinery.errors import Cause
from controlplane.wire.cel.rule_faults import RuleFault, faults
from controlplane.wire.cel.rules import MISSING, RuledNode, violations
from tests.cel.__main__ import ANSWERS
from tests.cel.cases import DEFINITIONS, WRITES, Case, definition

RECORDED = json.loads(ANSWERS.read_text())
OF_THE_SCHEMA = {42}  # the schema itself refuses this write, before its rules are run
ROOT = "spec.validation.openAPIV3Schema"


def ignore(field: str, rule: str) -> None:
    """Rules of tests need no time limit."""


def ours(case: Case) -> list[Cause]:
    schema = {"type": "object", "properties": {"spec": case.schema}}
    old = MISSING if case.old is None else {"spec": case.old}
    return violations(RuledNode(schema, is_root=True), {"spec": case.new}, old, begins=ignore)


@pytest.mark.parametrize("index", [index for index in range(len(WRITES)) if index not in OF_THE_SCHEMA])
def test_a_write_is_answered_as_by_a_kube_apiserver(index: int) -> None:
    recorded = [Cause(one["reason"], one["message"], one["field"]) for one in RECORDED["writes"][index]["causes"]]
    assert ours(WRITES[index]) == recorded


@pytest.mark.parametrize("index", range(len(DEFINITIONS)))
def test_a_definition_is_refused_where_a_kube_apiserver_refuses_it(index: int) -> None:
    root = definition(index, DEFINITIONS[index])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: list[RuleFault] = faults(root, ROOT, begins=ignore)
    recorded = RECORDED["definitions"][index]["causes"]
    assert [fault.field for fault in found] == [cause["field"] for cause in recorded]
    for fault, cause in zip(found, recorded, strict=True):
        assert fault.is_missing == (cause["reason"] == "FieldValueRequired")
        assert bool(fault.choices) == (cause["reason"] == "FieldValueNotSupported")
        if "Syntax error" not in fault.why:  # the parsers name the expected tokens differently
            assert cause["message"].endswith(fault.why)

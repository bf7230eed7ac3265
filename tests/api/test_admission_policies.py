"""ValidatingAdmissionPolicies: writes are answered as a kube-apiserver answers them (tests/admission)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.admission import asking
from tests.admission.__main__ import ANSWERS, warnings_in
from tests.admission.asking import Ask, Reply, content_type
from tests.admission.policy_cases import NAMESPACE
from tests.admission.policy_documents import POLICIES
from tests.api.server import Client

RECORDED = json.loads(ANSWERS.read_text())["policies"]


def asker(api: Client) -> Ask:
    def ask(method: str, path: str, body: Any) -> Reply:
        answer = api.ask(method, path, body, type=content_type(method, path))
        return Reply(answer.status, answer.document, warnings_in([answer.headers.get("warning", "")]))

    return ask


@pytest.fixture(scope="module")
def ask(server: Any) -> Ask:
    """The server with the namespace of the cases."""
    ask = asker(server.client())
    asking.make_namespace(ask)
    return ask


UNLIMITED = 85  # a kube-apiserver cancels an expression that asks `authorizer` more than twice; we answer up to 100


@pytest.mark.parametrize("case", [case for case in range(len(POLICIES)) if case != UNLIMITED])
def test_writes_are_answered_as_by_a_kube_apiserver(ask: Ask, case: int) -> None:
    asking.make_policy(ask, case)
    try:
        found = asking.policy_writes(ask, case)
    finally:
        asking.remove_policy(ask, case)
    assert found == RECORDED[case]


def test_the_status_of_a_policy_says_which_expressions_do_not_fit_its_kinds(server: Any) -> None:
    api = server.client()
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.foo == 1"}]}
    document = {"metadata": {"name": "typed"}, "spec": spec}
    url = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    try:
        made = api.ask("POST", url, document).document
        spec["validations"] = [{"expression": "object.spec.replicas > 1"}]
        changed = api.ask("PATCH", f"{url}/typed", {"spec": spec}, type="application/merge-patch+json").document
    finally:
        api.ask("DELETE", f"{url}/typed", None)

    (warning,) = made["status"]["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert warning["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'")
    assert changed["status"] == {"observedGeneration": 2, "typeChecking": {}}
    assert [owned for owned in made["metadata"]["managedFields"] if "f:status" in owned["fieldsV1"]] == []


def test_a_policy_forbids_long_tokens_of_service_accounts(ask: Ask) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts/token"]}
    expression = "object.spec.expirationSeconds <= 3600"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    url, accounts = "/apis/admissionregistration.k8s.io/v1", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    policy, binding = f"{url}/validatingadmissionpolicies", f"{url}/validatingadmissionpolicybindings"
    ask("POST", accounts, {"metadata": {"name": "robot"}})
    made = [
        ask("POST", policy, {"metadata": {"name": "tokens"}, "spec": spec}),
        ask(
            *("POST", binding),
            {"metadata": {"name": "tokens"}, "spec": {"policyName": "tokens", "validationActions": ["Deny"]}},
        ),
    ]
    try:
        long, short = (
            ask("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": seconds}}) for seconds in (7200, 3600)
        )
    finally:
        ask("DELETE", f"{binding}/tokens", None)
        ask("DELETE", f"{policy}/tokens", None)

    assert [one.status for one in made] == [201, 201]
    assert (long.status, long.body["reason"]) == (422, "Invalid")
    assert 'serviceaccounts "robot" is forbidden: ValidatingAdmissionPolicy' in long.body["message"]
    assert expression in long.body["message"]
    assert short.status == 201

"""Admission webhooks of users: writes are answered as a kube-apiserver answers them (tests/admission)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.admission import asking
from tests.admission.__main__ import ANSWERS, without_ports
from tests.admission.asking import Ask
from tests.admission.hook_cases import HOOKS, configurations
from tests.admission.hook_server import HookServer
from tests.admission.policy_cases import NAMESPACE
from tests.admission.version_cases import DEFINED
from tests.api.test_admission_policies import asker
from tests.builders.templates import definition

ALLOW, SLOW = 0, 21  # cases with one webhook of these paths
ON = {"enabled": 1}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ANYTHING = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": OPEN}}
RECORDED = json.loads(ANSWERS.read_text())["hooks"]
_CALL = re.compile(
    r'(failed calling webhook "[^"]+": (?:failed to call|received (?:invalid|undecodable))?).*', re.DOTALL
)
_PATCH = re.compile(
    r"(Internal error occurred: |^)(replace operation|json: cannot|the patch of|the object).*", re.DOTALL
)


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    server = HookServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def ask(server: Any) -> Ask:
    """The server with the namespace of the cases."""
    ask = asker(server.client())
    asking.make_namespace(ask)
    return ask


def without_words(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return answers without the words in which two programs describe the failure of a connection or a patch."""
    for answer in answers:
        if answer["status"] == 500:
            answer["message"] = _PATCH.sub(r"\1", _CALL.sub(r"\1", answer["message"]))
            answer["causes"] = len(answer["causes"])
        answer["causes"] = answer.get("causes") or []
        answer["reason"] = answer.get("reason") or ""
    return answers


OF_THE_TYPE = 35  # we name the field that the patch of a webhook breaks, where a kube-apiserver says 500


@pytest.mark.parametrize("case", [case for case in range(len(HOOKS)) if case != OF_THE_TYPE])
def test_writes_are_answered_as_by_a_kube_apiserver(ask: Ask, hooks: HookServer, case: int) -> None:
    asking.make_hooks(ask, case, hooks)
    try:
        found = asking.hook_writes(ask, case)
    finally:
        asking.remove_hooks(ask, case)
    assert without_words(without_ports(found)) == without_words(RECORDED[case])


def config_map(name: str, case: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {"case": case}}, "data": {"a": "1"}}


def test_a_slow_webhook_holds_no_other_write(ask: Ask, hooks: HookServer, server: Any) -> None:
    (configured,) = configurations(SLOW, hooks.url, hooks.bundle, hooks.other)
    configured["webhooks"][0]["timeoutSeconds"] = 4
    url = f"{asking.URL}/validatingwebhookconfigurations"
    assert ask("POST", url, configured).status == 201
    try:
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(asker(server.client()), "POST", asking.MAPS, config_map("slow", f"hook{SLOW}"))
            assert hooks.asked.wait(20)
            assert ask("POST", asking.MAPS, config_map("quick", "none")).status == 201
            assert not slow.done()
            hooks.release()
            assert slow.result(20).status == 201
    finally:
        ask("DELETE", f"{url}/{configured['metadata']['name']}", None)


def test_an_address_that_must_not_be_called_is_not_called(ask: Ask, hooks: HookServer) -> None:
    (configured,) = configurations(ALLOW, "https://169.254.169.254", hooks.bundle, hooks.other)
    url = f"{asking.URL}/validatingwebhookconfigurations"
    assert ask("POST", url, configured).status == 201
    try:
        refused = ask("POST", asking.MAPS, config_map("refused", f"hook{ALLOW}"))
    finally:
        ask("DELETE", f"{url}/{configured['metadata']['name']}", None)
    assert refused.status == 500
    assert "which must not be called (setting members.refused_addresses)" in refused.body["message"]


def test_a_webhook_changes_a_number_to_a_boolean(ask: Ask, hooks: HookServer) -> None:
    """In a field of any type. Python considers both equal."""
    made = definition("Switch", "switches", group="hooks.example.com", versions=[ANYTHING])
    defined = ask("POST", DEFINED, {"metadata": {"name": made.metadata.name}, **made.content})
    (configured,) = configurations(ALLOW, hooks.url, hooks.bundle, hooks.other)
    (webhook,) = configured["webhooks"]
    webhook["clientConfig"]["url"] = f"{hooks.url}/patch-true"
    webhook["rules"] = [{**webhook["rules"][0], "apiGroups": ["hooks.example.com"], "resources": ["switches"]}]
    webhook["objectSelector"] = {}
    url = f"{asking.URL}/mutatingwebhookconfigurations"
    hooked = ask("POST", url, {**configured, "kind": "MutatingWebhookConfiguration"})
    try:
        document = {"apiVersion": "hooks.example.com/v1", "kind": "Switch", "metadata": {"name": "one"}}
        stored = ask("POST", f"/apis/hooks.example.com/v1/namespaces/{NAMESPACE}/switches", document | {"spec": ON})
    finally:
        ask("DELETE", f"{url}/{configured['metadata']['name']}", None)
        ask("DELETE", f"{DEFINED}/{made.metadata.name}", None)

    assert (defined.status, hooked.status, stored.status) == (201, 201, 201)
    assert stored.body["spec"]["enabled"] is True


@pytest.mark.parametrize(("answer", "status", "seconds"), [("patch-short", 201, 700), ("patch-too-short", 422, None)])
def test_a_webhook_shortens_a_requested_token_within_the_rules(
    ask: Ask, hooks: HookServer, answer: str, status: int, seconds: int | None
) -> None:
    (configured,) = configurations(ALLOW, hooks.url, hooks.bundle, hooks.other)
    (webhook,) = configured["webhooks"]
    webhook["clientConfig"]["url"] = f"{hooks.url}/{answer}"
    webhook["rules"] = [{**webhook["rules"][0], "apiGroups": [""], "resources": ["serviceaccounts/token"]}]
    webhook["objectSelector"] = {}
    url, accounts = f"{asking.URL}/mutatingwebhookconfigurations", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    ask("POST", accounts, {"metadata": {"name": "robot"}})
    assert ask("POST", url, {**configured, "kind": "MutatingWebhookConfiguration"}).status == 201
    try:
        made = ask("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 3600}})
    finally:
        ask("DELETE", f"{url}/{configured['metadata']['name']}", None)

    assert made.status == status, made.body
    assert made.body.get("spec", {}).get("expirationSeconds") == seconds


def test_a_webhook_gets_a_token_request_as_a_kube_apiserver_sends_it(ask: Ask, hooks: HookServer) -> None:
    (configured,) = configurations(ALLOW, hooks.url, hooks.bundle, hooks.other)
    (webhook,) = configured["webhooks"]
    webhook["clientConfig"]["url"] = f"{hooks.url}/describe"
    webhook["rules"] = [{**webhook["rules"][0], "apiGroups": [""], "resources": ["serviceaccounts/token"]}]
    webhook["objectSelector"] = {}
    url, accounts = f"{asking.URL}/validatingwebhookconfigurations", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    ask("POST", accounts, {"metadata": {"name": "robot"}})
    assert ask("POST", url, configured).status == 201
    try:
        made = ask("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 3600}})
    finally:
        ask("DELETE", f"{url}/{configured['metadata']['name']}", None)

    (warning,) = made.warnings
    seen = json.loads(warning)
    assert (made.status, seen["operation"], seen["subResource"], seen["name"]) == (201, "CREATE", "token", "robot")
    assert seen["kind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert seen["resource"] == {"group": "", "version": "v1", "resource": "serviceaccounts"}
    assert seen["object"]["spec"]["expirationSeconds"] == 3600

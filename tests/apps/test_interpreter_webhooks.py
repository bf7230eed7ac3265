"""Interpreter webhooks are called over TLS, with the caller's limits, and an answer that cannot be used says why
[resource-interpreter]."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from apps.interpretation.webhooks import Webhooks, request_of
from controlplane.interpret.customized import Answer, Hook, Question
from controlplane.kinds.interpreter_webhook import ClientConfig, Webhook
from controlplane.settings import MemberSettings
from tests.apps.tls_server import TlsServer

ANYWHERE = MemberSettings(allowed_addresses=("127.0.0.0/8",))
DOC = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}, "spec": {}}
PATCH = base64.b64encode(json.dumps([{"op": "add", "path": "/spec/replicas", "value": 7}]).encode()).decode()


@pytest.fixture(scope="module")
def server() -> Iterator[TlsServer]:
    with TlsServer() as started:
        yield started


@pytest.fixture(scope="module")
def webhooks() -> Iterator[Webhooks]:
    made = Webhooks(ANYWHERE)
    yield made
    made.close()


def asked(server: TlsServer, operation: str, *arguments: Any, **changes: Any) -> Question:
    config = ClientConfig(url=server.url, ca_bundle=base64.b64encode(server.certificate).decode())
    webhook = replace(Webhook("things.example.com", config, timeout_seconds=5), **changes)
    return Question(Hook("hooks", operation, webhook), json.dumps([DOC, *arguments]).encode(), "key")


def answer(webhooks: Webhooks, question: Question) -> Answer:
    return webhooks.ask(question).result(20)


@pytest.mark.parametrize(
    ("operation", "arguments", "response", "values"),
    [
        ("InterpretReplica", (), {"replicas": 3, "replicaRequirements": {"namespace": "n"}}, (3, {"namespace": "n"})),
        ("InterpretHealth", (), {"healthy": True}, (True,)),
        ("InterpretStatus", (), {"rawStatus": {"a": 1}}, ({"a": 1},)),
        ("InterpretDependency", (), {}, ([],)),
        ("ReviseReplica", (7,), {"patch": PATCH, "patchType": "JSONPatch"}, ({**DOC, "spec": {"replicas": 7}},)),
        ("Retain", ({"spec": {"kept": 1}},), {}, (DOC,)),
    ],
)
def test_an_answer_becomes_the_results_of_its_operation(
    server: TlsServer, webhooks: Webhooks, operation: str, arguments: tuple[Any, ...], response: Any, values: Any
) -> None:
    server.respond(lambda request: {"uid": request["uid"], "successful": True, **response})

    assert answer(webhooks, asked(server, operation, *arguments)) == Answer(values)
    assert server.last["request"]["operation"] == operation
    assert server.last["request"]["kind"] == {"group": "example.com", "version": "v1", "kind": "Thing"}


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"uid": "other", "successful": True}, "response.uid must be"),
        ({"successful": False, "status": {"message": "no such field"}}, "no such field"),
        ({"successful": False, "status": "no such field"}, "no such field"),
        ({"successful": False, "status": ["no"]}, "it gives no reason"),
        ({"successful": True, "patch": "!"}, "the patch cannot be applied"),
        ({"successful": True, "patch": PATCH, "patchType": "Merge"}, "patchType Merge is not supported"),
    ],
)
def test_an_answer_that_cannot_be_used_says_why(
    server: TlsServer, webhooks: Webhooks, response: dict[str, Any], why: str
) -> None:
    server.respond(lambda request: {"uid": request["uid"], **response})

    assert why in answer(webhooks, asked(server, "ReviseReplica", 7)).error


def test_a_certificate_of_another_authority_is_refused(server: TlsServer, webhooks: Webhooks) -> None:
    stranger = ClientConfig(url=server.url)

    assert "certificate" in answer(webhooks, asked(server, "InterpretHealth", client_config=stranger)).error


def test_an_address_of_this_host_is_not_called_unless_it_is_allowed(server: TlsServer) -> None:
    wary = Webhooks(MemberSettings())
    try:
        assert "must not be called" in answer(wary, asked(server, "InterpretHealth")).error
    finally:
        wary.close()


def test_a_webhook_that_hangs_ends_with_its_own_timeout_and_does_not_hold_up_another(
    server: TlsServer, webhooks: Webhooks
) -> None:
    server.respond(lambda request: {"uid": request["uid"], "successful": True, "healthy": True})
    hanging = ClientConfig(url=server.url + "hang", ca_bundle=base64.b64encode(server.certificate).decode())
    stuck = webhooks.ask(asked(server, "InterpretHealth", client_config=hanging, timeout_seconds=2, name="a.b.c"))

    assert answer(webhooks, asked(server, "InterpretHealth")).values == (True,)
    assert not stuck.done()
    assert stuck.result(20).error == "no answer within 2 s"


def test_redirects_and_failures_of_the_server_are_errors(server: TlsServer, webhooks: Webhooks) -> None:
    moved = ClientConfig(url=server.url + "moved", ca_bundle=base64.b64encode(server.certificate).decode())

    assert "answered 302" in answer(webhooks, asked(server, "InterpretHealth", client_config=moved)).error


def test_a_request_has_what_its_operation_needs() -> None:
    retain = request_of("Retain", [DOC, {"a": 1}], uid="u")["request"]
    aggregate = request_of("AggregateStatus", [DOC, [{"clusterName": "m"}]], uid="u")["request"]

    assert retain["observedObject"] == {"a": 1}
    assert aggregate["aggregatedStatus"] == [{"clusterName": "m"}]
    assert (retain["name"], retain["namespace"], retain["uid"]) == ("t", "default", "u")

"""Calls of interpreter webhooks: one HTTPS request for each question, with a ResourceInterpreterContext."""

from __future__ import annotations

import base64
import uuid
from concurrent.futures import Future
from typing import Any

import orjson

from apps.objects.webhook_client import FAILURES, Unusable, WebhookClient
from controlplane.interpret.customized import Answer, Hook, Question
from controlplane.kinds.interpreter_webhook import CONTEXT_VERSION, DEFAULT_TIMEOUT_SECONDS
from controlplane.wire.patch import json_patch

API_VERSION, CONTEXT = f"config.karmada.io/{CONTEXT_VERSION}", "ResourceInterpreterContext"

Document = dict[str, Any]


class Webhooks(WebhookClient):
    """Calls webhooks from a thread of its own."""

    def ask(self, question: Question) -> Future[Answer]:
        """Return the answer of the webhook as a future. It never raises: a failure is an answer with an error."""
        return self.run(self._answer(question))

    async def _answer(self, question: Question) -> Answer:
        assert isinstance(question.rule, Hook)
        webhook = question.rule.webhook
        seconds = webhook.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        arguments: list[Any] = orjson.loads(question.arguments)
        url, bundle = webhook.client_config.url or "", webhook.client_config.ca_bundle or ""
        try:
            uid = str(uuid.uuid4())
            body = orjson.dumps(request_of(question.rule.operation, arguments, uid=uid))
            found = await self.post(webhook.name, url, body, bundle=bundle, seconds=seconds)
            return Answer(values_of(question.rule.operation, arguments, found, uid=uid))
        except TimeoutError:
            return Answer(error=f"no answer within {seconds} s")
        except FAILURES as error:
            return Answer(error=f"{type(error).__name__}: {error}"[:1024])


def request_of(operation: str, arguments: list[Any], *, uid: str) -> Document:
    """Return the ResourceInterpreterContext that is sent. `arguments`: those of the operation."""
    doc, *rest = arguments
    group, _, version = str(doc.get("apiVersion", "")).rpartition("/")
    metadata = doc.get("metadata") or {}
    request: Document = {
        "uid": uid,
        "kind": {"group": group, "version": version, "kind": doc.get("kind", "")},
        "name": metadata.get("name", ""),
        "operation": operation,
        "object": doc,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    field = {"ReviseReplica": "replicas", "Retain": "observedObject", "AggregateStatus": "aggregatedStatus"}
    if operation in field and rest[0] is not None:
        request[field[operation]] = rest[0]
    return {"apiVersion": API_VERSION, "kind": CONTEXT, "request": request}


def values_of(operation: str, arguments: list[Any], context: Any, *, uid: str) -> tuple[Any, ...]:
    """Return the results in an answer, in the form that scripts return them. Raises Unusable."""
    if not isinstance(context, dict) or (context.get("apiVersion"), context.get("kind")) != (API_VERSION, CONTEXT):
        raise Unusable(f"the answer must be a {CONTEXT} of {API_VERSION}")
    response = context.get("response")
    if not isinstance(response, dict):
        raise Unusable("the answer has no response")
    if response.get("uid") != uid:
        raise Unusable(f"response.uid must be {uid}, that of the request")
    if response.get("successful") is not True:
        status = response.get("status")
        reason = status.get("message") if isinstance(status, dict) else status if isinstance(status, str) else None
        raise Unusable(f"the webhook could not interpret the object: {reason or 'it gives no reason'}")
    match operation:
        case "InterpretReplica":
            return response.get("replicas"), response.get("replicaRequirements")
        case "InterpretComponent":
            return (response.get("components"),)
        case "InterpretDependency":
            return (response.get("dependencies") or [],)
        case "InterpretStatus":
            return (response.get("rawStatus") or {},)
        case "InterpretHealth":
            return (response.get("healthy"),)
    return (_patched(arguments[0], response),)


def _patched(doc: Document, response: Document) -> Document:
    """Return the object with the JSON patch of an answer."""
    if not response.get("patch"):
        return doc
    if response.get("patchType", "JSONPatch") != "JSONPatch":
        raise Unusable(f"patchType {response['patchType']} is not supported: use JSONPatch")
    try:
        patched: Document = json_patch(doc, orjson.loads(base64.b64decode(response["patch"], validate=True)))
    except Exception as error:
        raise Unusable(f"the patch cannot be applied: {error}") from error
    return patched

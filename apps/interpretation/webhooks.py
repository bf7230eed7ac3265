"""Calls of interpreter webhooks: one HTTPS request for each question, with a ResourceInterpreterContext."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import threading
import uuid
from concurrent.futures import Future
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from apps.clusters.address_guard import CheckedResolver, check
from controlplane.interpret.customized import Answer, Hook, Question
from controlplane.kinds.interpreter_webhook import CONTEXT_VERSION, DEFAULT_TIMEOUT_SECONDS, Webhook
from controlplane.settings import MemberSettings
from controlplane.wire.patch import json_patch

API_VERSION, CONTEXT = f"config.karmada.io/{CONTEXT_VERSION}", "ResourceInterpreterContext"
IN_FLIGHT = 8  # requests to one webhook at the same time; others wait, and those to other webhooks do not
MAX_ANSWER_BYTES = 4 * 2**20

Document = dict[str, Any]


class Unusable(ValueError):
    """An answer of a webhook that cannot be used."""


class Webhooks:
    """Calls webhooks from a thread of its own, which starts at the first call."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._starting = threading.Lock()

    def ask(self, question: Question) -> Future[Answer]:
        """Return the answer of the webhook as a future. It never raises: a failure is an answer with an error."""
        return asyncio.run_coroutine_threadsafe(self._answer(question), self._running())

    def close(self) -> None:
        """Close all connections and end the thread."""
        loop, self._loop = self._loop, None
        if loop is not None:
            if self._session is not None:
                asyncio.run_coroutine_threadsafe(self._session.close(), loop).result(5)
            self._session = None
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True).start()
            return self._loop

    async def _answer(self, question: Question) -> Answer:
        assert isinstance(question.rule, Hook)
        webhook = question.rule.webhook
        seconds = webhook.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        arguments: list[Any] = orjson.loads(question.arguments)
        try:
            async with self._gates.setdefault(webhook.name, asyncio.Semaphore(IN_FLIGHT)), asyncio.timeout(seconds):
                uid = str(uuid.uuid4())
                body = orjson.dumps(request_of(question.rule.operation, arguments, uid=uid))
                found = await self._post(webhook, body)
            return Answer(values_of(question.rule.operation, arguments, found, uid=uid))
        except TimeoutError:
            return Answer(error=f"no answer within {seconds} s")
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return Answer(error=f"{type(error).__name__}: {error}"[:1024])

    async def _post(self, webhook: Webhook, body: bytes) -> Any:
        url = webhook.client_config.url or ""
        check(url, self._settings)
        if self._session is None:
            resolver = CheckedResolver(self._settings)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=resolver), trust_env=False)
        async with self._session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=_trusted(webhook.client_config.ca_bundle or ""),
            allow_redirects=False,
        ) as response:
            text = await response.content.read(MAX_ANSWER_BYTES + 1)
            while len(text) <= MAX_ANSWER_BYTES and (part := await response.content.read(MAX_ANSWER_BYTES)):
                text += part
            if len(text) > MAX_ANSWER_BYTES:
                raise Unusable(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
            if response.status != HTTPStatus.OK:
                raise Unusable(f"the webhook answered {response.status} {response.reason}")
        return orjson.loads(text)


@lru_cache(maxsize=64)
def _trusted(bundle: str) -> ssl.SSLContext:
    """Return what certificates are checked against: the bundle, PEM in base64; "": what this machine trusts."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise Unusable(f"clientConfig.caBundle holds no certificates: {error}") from error


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
        status = response.get("status") or {}
        raise Unusable(f"the webhook could not interpret the object: {status.get('message') or 'it gives no reason'}")
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

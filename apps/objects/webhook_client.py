"""Requests to webhooks of users: over TLS, to addresses that may be called, with limits of time and size."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
import orjson

from apps.objects.address_guard import CheckedResolver, check
from controlplane.settings import MemberSettings

IN_FLIGHT = 8  # requests to one webhook at the same time; others wait, and those to other webhooks do not
MAX_ANSWER_BYTES = 4 * 2**20
FAILURES = (TimeoutError, aiohttp.ClientError, OSError, ssl.SSLError, ValueError)
"""The errors of a request whose webhook does not answer, or gives an answer that cannot be used."""

T = TypeVar("T")


class Unusable(ValueError):
    """An answer of a webhook that cannot be used."""


class WebhookClient:
    """Sends requests from a thread of its own, which starts at the first request."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work that sends requests, and return its result as a future."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def close(self) -> None:
        """Close all connections and end the thread."""
        loop, self._loop = self._loop, None
        if loop is not None:
            if self._session is not None:
                asyncio.run_coroutine_threadsafe(self._session.close(), loop).result(5)
            self._session = None
            loop.call_soon_threadsafe(loop.stop)

    async def post(self, name: str, url: str, body: bytes, *, bundle: str, seconds: float) -> Any:
        """Return the JSON that a webhook answers. `name`: of the webhook; `bundle`: PEM in base64, or "".

        Raises one of FAILURES. The seconds include the wait for earlier requests to the same webhook.
        """
        async with asyncio.timeout(seconds), self._gates.setdefault(name, asyncio.Semaphore(IN_FLIGHT)):
            return await self._post(url, body, bundle)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True).start()
            return self._loop

    async def _post(self, url: str, body: bytes, bundle: str) -> Any:
        check(url, self._settings)
        if self._session is None:
            resolver = CheckedResolver(self._settings)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=resolver), trust_env=False)
        async with self._session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=_trusted(bundle),
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

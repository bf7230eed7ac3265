"""Reading a request before Django sees it: the body with its limits, and the WSGI environment.

A small body that arrives in one piece is accepted at once. For any other body the caller is identified first, and the
bytes count against the caller's budget. Callers without a login therefore cannot make this process hold megabytes.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from apps.api.budget import ANONYMOUS, Budget, Hold
from apps.api.client_certificates import CERTIFICATE, certificate_of
from controlplane.apimachinery.errors import BadRequest, StatusError, TooLarge, Unauthorized
from controlplane.wire.body import MAX_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Identify = Callable[[], Awaitable[str]]  # the name of the caller, ANONYMOUS without valid credentials

BODY_SECONDS = 60.0  # an identified client has this long to send its body
ANONYMOUS_SECONDS = 10.0  # any other client
SMALL = 16 * 1024  # bytes: a whole body up to this size counts against no budget
MAX_ANONYMOUS = 64 * 1024  # bytes of a body without credentials; a login form is far smaller
MAX_DRAINED = 32 * 1024 * 1024  # bytes discarded after a refusal before the connection is closed
DRAIN_SECONDS = 5.0
IMPERSONATION: Final = "lifeboat.impersonation"
"""Key of the WSGI environment: the headers about impersonation as they came, (name in lower case, value) each."""
PREFIX: Final = "impersonate-"
_CHARSET: Final = re.compile(r";\s*charset\b[^;]*", re.IGNORECASE)  # of Content-Type


class Disconnected(Exception):
    """The client has disconnected."""


class CompleteBody(NamedTuple):
    """A complete body, and the share of the memory budget that it takes.

    Call `hold.release()` when the request is answered.
    """

    data: bytes
    hold: Hold


async def body_of(receive: Receive, *, budget: Budget, identify: Identify) -> CompleteBody:
    """Return the body of a request.

    Raises Disconnected, TooLarge, Unauthorized for a larger body without credentials, TooManyRequests if the budget is
    used up, and BadRequest for a body that does not arrive in time. After a refusal the rest of the body is read and
    discarded for a while, because a client that is still sending does not read the answer.
    """
    reading = _Reading(receive, budget.hold(ANONYMOUS))
    try:
        return await reading.body(identify)
    except StatusError:
        reading.discard()
        await reading.receive.discard()
        raise
    except BaseException:
        reading.discard()
        raise


class Incoming:
    """What a client sends. `more`: the body of the request has not arrived completely."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.more = True

    async def __call__(self) -> Message:
        """Return the next message, as the function `receive` of ASGI does."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.more = False
        return message

    async def discard(self) -> None:
        """Read and discard the rest of the body for a while, because a client that is sending reads no answer."""
        discarded = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.more and discarded < MAX_DRAINED:
                    discarded += len((await self()).get("body", b""))


class _Reading:
    """Reads one body, within its limits of size and time."""

    def __init__(self, receive: Receive, hold: Hold) -> None:
        self.receive = Incoming(receive)
        self.hold = hold
        self.parts: list[bytes] = []
        self.size = 0

    async def body(self, identify: Identify) -> CompleteBody:
        await self._within(ANONYMOUS_SECONDS, self._next())
        if not self.receive.more and self.size <= SMALL:
            return self._whole()
        self.hold.grow(self.size)
        user = await identify()
        if user != ANONYMOUS:
            self.hold.move_to(user)
            await self._within(BODY_SECONDS, self._rest(MAX_BYTES))
        else:
            await self._within(ANONYMOUS_SECONDS, self._rest(MAX_ANONYMOUS))
        return self._whole()

    def discard(self) -> None:
        self.parts.clear()
        self.hold.release()

    def _whole(self) -> CompleteBody:
        return CompleteBody(b"".join(self.parts), self.hold)

    async def _rest(self, most: int) -> None:
        self._check(most)
        while self.receive.more:
            part = await self._next()
            self.hold.grow(part)
            self._check(most)

    def _check(self, most: int) -> None:
        if self.size > MAX_BYTES:
            raise TooLarge(f"the body has more than {MAX_BYTES} bytes, which is the limit")
        if self.size > most:
            raise Unauthorized(
                f"a body of more than {most} bytes needs a login: send a bearer token (manage.py token create)"
            )

    async def _next(self) -> int:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        self.parts.append(part)
        self.size += len(part)
        return len(part)

    async def _within(self, seconds: float, step: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await step
        except TimeoutError:
            raise BadRequest(f"the body did not arrive within {seconds:g} s") from None


def environ_of(scope: Scope, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment of a request.

    Headers with underscores are dropped, because WSGI could not distinguish `X_A` from `X-A`. So is the charset of
    Content-Type: bodies are UTF-8, and Django would decode the query by it, so that utf-16 hides every parameter.
    Headers about impersonation are noted as they came, because a value may contain a comma, and a name an underscore.
    """
    server = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": scope.get("root_path", ""),
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if scope.get("client"):
        environ["REMOTE_ADDR"] = scope["client"][0]
        environ["REMOTE_PORT"] = str(scope["client"][1])
    if (certificate := certificate_of(scope)) is not None:
        environ[CERTIFICATE] = certificate
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1")
        if name.startswith(PREFIX):
            environ.setdefault(IMPERSONATION, []).append((name, value.decode("latin-1")))
        if "_" in name or name == "content-length":
            continue
        key = "CONTENT_TYPE" if name == "content-type" else "HTTP_" + name.upper().replace("-", "_")
        text = value.decode("latin-1")
        if key in environ:
            text = f"{environ[key]}{'; ' if name == 'cookie' else ','}{text}"
        environ[key] = text
    if "CONTENT_TYPE" in environ:
        environ["CONTENT_TYPE"] = _CHARSET.sub("", environ["CONTENT_TYPE"])
    return environ

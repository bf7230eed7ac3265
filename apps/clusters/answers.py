"""Answers: the meaning of a response of a member, or of the failure to get a response."""

from __future__ import annotations

import errno
from http import HTTPStatus
from typing import Any

import aiohttp

from apps.clusters.response_reader import decoded, without_nul
from apps.objects.address_guard import AddressRefused
from controlplane.clusters.questions import NOT_FOUND, Answer
from controlplane.kinds.cluster import (
    ACCESS_REFUSED,
    ADDRESS_REFUSED,
    CERTIFICATE_EXPIRED,
    CERTIFICATE_REFUSED,
    REDIRECTED,
)

MESSAGE_CHARACTERS = 1_000
_NOT_CONNECTED = {
    errno.ECONNREFUSED: "the connection was refused by",
    errno.EHOSTUNREACH: "there is no route to",
    errno.ENETUNREACH: "there is no route to",
    errno.ETIMEDOUT: "no connection in time to",
}
_X509_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL


def too_much(what: str) -> Answer:
    """Return the answer for a response that exceeded a limit. `what`: the limit and its value."""
    return Answer(0, problem=f"a limit was exceeded: {what}", exceeded=what)


REDIRECT = "redirects of members are not followed: set spec.apiEndpoint of the Cluster to the API server itself"


def is_redirect(status: int) -> bool:
    return 300 <= status < 400


def answer_of(status: int, content_type: str, raw: bytes) -> Answer:
    """Return the answer for a response that was received."""
    if is_redirect(status):  # 304 as well: no request is conditional
        return Answer(status, problem=f"HTTP {status}: {REDIRECT}", access=True, reason=REDIRECTED)
    body: Any = None
    if content_type.endswith("json") and raw:
        try:
            body = decoded(raw)
        except ValueError as error:
            return Answer(0, problem=f"the answer is not JSON: {first_line(error)}")
    if 200 <= status < 300:
        return Answer(status, body)
    message = body.get("message", "") if isinstance(body, dict) else raw[:200].decode(errors="replace")
    text = _plain(str(message)[:MESSAGE_CHARACTERS])
    found_by_server = isinstance(body, dict) and body.get("kind") == "Status"
    reason = NOT_FOUND if status == HTTPStatus.NOT_FOUND and found_by_server else ""
    problem = f"HTTP {status}: {text}".rstrip(": ")
    return Answer(status, problem=problem, access=status in (401, 403, 407), reason=reason)


def untrusted(error: Exception) -> Answer:
    """Return the answer for a failure of TLS: a server that has not proved to be the member [lost-access]."""
    cause: Any = getattr(error, "certificate_error", error)
    if getattr(cause, "verify_code", 0) == _X509_EXPIRED:
        problem = "TLS: the certificate of the member has expired; renew it on the member, the Cluster stays as it is"
        return Answer(0, problem=problem, access=True, reason=CERTIFICATE_EXPIRED)
    return Answer(0, problem=f"TLS: {first_line(error)}", access=True, reason=CERTIFICATE_REFUSED)


def by_proxy(error: aiohttp.ClientHttpProxyError) -> Answer:
    """Return the answer for a proxy that does not connect: it refuses the credentials, or cannot reach the member."""
    problem = _plain(f"the proxy answered {error.status} {error.message}").rstrip()
    if error.status in (401, 403, 407):
        return Answer(0, problem=f"{problem}; see spec.proxyHeader", access=True, reason=ACCESS_REFUSED)
    return Answer(0, problem=problem)


def not_reached(error: BaseException) -> Answer:
    """Return the answer for a connection that failed or broke."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return Answer(0, problem=first_line(cause), access=True, reason=ADDRESS_REFUSED)
        cause = cause.__cause__
    return Answer(0, problem=_connection_problem(error))


def _connection_problem(error: BaseException) -> str:
    """Return why there is no connection, in words; the message of the error if it is another one than the usual."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name {error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno in _NOT_CONNECTED:
        return f"{_NOT_CONNECTED[error.os_error.errno]} {error.host}:{error.port}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the member closed the connection without an answer"
    if isinstance(error, OSError) and error.errno == errno.ECONNRESET:
        return "the member reset the connection"
    return first_line(error)


def _plain(text: str) -> str:
    return str(without_nul(text))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 300 characters; for an empty message the error's class."""
    return _plain((str(error) or type(error).__name__).splitlines()[0][:300])

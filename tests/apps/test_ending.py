"""An API process that ends answers every request that it has begun."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import orjson

from apps.api.shell import Shell
from tests.apps.stack import WITHIN

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "scheme": "http",
    "method": "POST",
    "path": "/api/v1/namespaces",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    "client": ("127.0.0.1", 40000),
    "server": ("127.0.0.1", 8000),
}


def test_a_write_that_is_not_done_when_the_process_ends_is_answered_as_every_other_refusal() -> None:
    """Before, it got a page of uvicorn: 500 and no Status. A client does not try again after that."""
    began, may_end, sent = Event(), Event(), list[dict[str, Any]]()

    def slow(*request: Any) -> list[bytes]:
        began.set()
        may_end.wait(WITHIN)
        return []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def story() -> None:
        request = asyncio.create_task(application(dict(SCOPE), receive, send))
        await asyncio.to_thread(began.wait, WITHIN)
        request.cancel()  # as uvicorn does after its time for open requests
        await asyncio.wait([request])
        may_end.set()

    application = Shell(slow, threads=3, buffer=100_000)
    try:
        asyncio.run(story())
    finally:
        may_end.set()
        application.pool.shutdown(wait=True)

    start, body = sent
    status = orjson.loads(body["body"])
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"1")
    assert (status["kind"], status["reason"]) == ("Status", "ServiceUnavailable")
    assert "may have been stored" in status["message"]

"""Requests to the API: documents in, documents out. An answer that is not a success becomes an error of the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from apps.command import answers, exit_codes
from apps.command.errors import CommandError, Document, Refused, code_of
from apps.command.kubeconfig import Access
from apps.command.kubectl import APPLY, FIELD_MANAGER, MERGE, Attempt
from controlplane import __version__

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60  # longer than the server takes for any answer
PAGE: Final = 500  # objects in one page of a list
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Api:
    """The API of one Lifeboat. `warn` is called with the text of every Warning header.

    `reason`: sent with every write, for the change log; "": none. `tried`: the writes that were sent as dry runs.
    """

    def __init__(self, access: Access, *, warn: Callable[[str], None], reason: str = "") -> None:
        self._access = access
        self._warn = warn
        self.reason = reason
        self.tried: list[Attempt] = []
        self._authorizing = Lock()  # several threads may send; a credential plugin runs once for all of them

    @property
    def server(self) -> str:
        return self._access.server

    def get(self, path: str, *, accept: str = "application/json", **query: Any) -> Document:
        """Return the document at a path. Raises Refused, and CommandError if the API does not answer."""
        return self._document("GET", path, query=query, accept=accept)

    def text(self, path: str, **query: Any) -> str:
        """Return the answer as text, as it was sent."""
        return self._ask("GET", path, query=query, accept="text/plain").data.decode(errors="replace")

    def items(self, path: str, **query: Any) -> Document:
        """Return a list with all its objects. It is read in pages."""
        return self._pages("items", path, query, accept="application/json")

    def table(self, path: str, **query: Any) -> Document:
        """Return a list, or an object, as the Table that kubectl prints."""
        return self._pages("rows", path, query, accept=TABLE)

    def post(self, path: str, body: Document, *, dry_run: bool = False, **query: Any) -> Document:
        return self._write(Attempt("POST", path, body, "application/json"), query, dry_run=dry_run)

    def patch(self, path: str, body: Document, *, type: str = MERGE, dry_run: bool = False, **query: Any) -> Document:
        return self._write(Attempt("PATCH", path, body, type), query, dry_run=dry_run)

    def apply(self, path: str, body: Document, *, dry_run: bool = False) -> Document:
        """Create or change an object, so that it has the fields of the body (server-side apply)."""
        return self.patch(path, body, type=APPLY, dry_run=dry_run, fieldManager=FIELD_MANAGER, force="true")

    def delete(self, path: str, *, dry_run: bool = False) -> Document:
        return self._write(Attempt("DELETE", path), {}, dry_run=dry_run)

    def _write(self, attempt: Attempt, query: Mapping[str, Any], *, dry_run: bool) -> Document:
        why = {"reason": self.reason} if self.reason else {}
        dry = {"dryRun": "All"} if dry_run else {}
        sent = {} if attempt.body is None else {"body": attempt.body, "type": attempt.type}
        document = self._document(attempt.method, attempt.path, query={**query, **why, **dry}, **sent)
        if dry_run:
            self.tried.append(attempt)
        return document

    def health(self) -> tuple[int, str]:
        """Return the HTTP status and the text of /readyz?verbose. 503 is an answer here, not an error."""
        answer = self._send("GET", "/readyz?verbose", None, {})
        return answer.status, answer.data.decode(errors="replace")

    def watch(self, path: str, name: str, *, seconds: int) -> Iterator[Document]:
        """Yield an object whenever it changes, first as it is now, until it is deleted or the time is over."""
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": max(1, seconds)}
        answer = self._ask("GET", path, query=query, stream=True)
        try:
            rest = b""
            for chunk in answer.stream(amt=None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = answers.decoded(line, self.server)
                    if event["type"] == "ERROR":
                        raise Refused(event["object"], code_of(event["object"]))
                    if event["type"] == "DELETED":
                        return
                    yield event["object"]
        except HTTPError as error:
            raise self._unreachable(error) from None
        finally:
            answer.close()

    def _pages(self, part: str, path: str, query: Mapping[str, Any], *, accept: str) -> Document:
        found = self._document("GET", path, query={"limit": PAGE, **query}, accept=accept)
        found[part] = self._part(found, part)
        while token := (found.get("metadata") or {}).pop("continue", ""):
            page = self._document("GET", path, query={"limit": PAGE, **query, "continue": token}, accept=accept)
            found[part].extend(self._part(page, part))
            found["metadata"] = page["metadata"]
        found.get("metadata", {}).pop("remainingItemCount", None)
        return found

    def _document(self, method: str, path: str, **more: Any) -> Document:
        """Return the document that the API has sent. Raises CommandError for anything else, as a proxy may send it."""
        found = answers.decoded(self._ask(method, path, **more).data, self.server)
        if f"{path}/".startswith(("/api/", "/apis/")):
            answers.check_kind(found, self.server, status=method == "DELETE")
        return found

    def _part(self, found: Document, part: str) -> list[Document]:
        """Return the objects of a page. Go writes an empty list as null."""
        if part not in found:
            raise answers.strange(self.server, f"it has no field {part}")
        inner = found.get(part) or []
        if not isinstance(inner, list):
            raise answers.strange(self.server, f"its field {part} is no list")
        for one in inner:
            answers.check_parts(one, self.server)
        return inner

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any],
        body: Document | None = None,
        type: str = "application/json",
        accept: str = "application/json",
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": accept, **({"Content-Type": type} if body is not None else {})}
        raw = None if body is None else json.dumps(body).encode()
        answer = self._send(method, f"{path}?{urlencode(query)}" if query else path, raw, headers, stream=stream)
        for warning in _WARNING.findall(", ".join(answer.headers.getlist("Warning"))):
            self._warn(re.sub(r"\\(.)", r"\1", warning))
        if answer.status >= 400:
            raise Refused(_status(answer.data), answer.status)
        return answer

    def _send(
        self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str], *, stream: bool = False
    ) -> urllib3.BaseHTTPResponse:
        own = {"User-Agent": f"lifeboat/{__version__}", **headers}
        with self._authorizing:
            authorization = self._access.authorization()
        if authorization:
            own["Authorization"] = authorization
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=None if stream else READ_SECONDS)
        try:
            answer: urllib3.BaseHTTPResponse = self._access.pool.request(
                method,
                f"{self.server.rstrip('/')}{path}",
                body=raw,
                headers=own,
                timeout=timeout,
                retries=False,
                preload_content=not stream,
            )
        except HTTPError as error:
            raise self._unreachable(error) from None
        if stream and answer.status >= 400:
            answer.drain_conn()
        return answer

    def _unreachable(self, error: HTTPError) -> CommandError:
        why = f"no answer within {READ_SECONDS} s" if isinstance(error, ReadTimeoutError) else str(error)
        return CommandError(f"{self.server} cannot be reached: {why}", code=exit_codes.UNREACHABLE)


def _status(raw: bytes) -> Document:
    found = answers.as_object(raw)
    return {"message": raw[:300].decode(errors="replace").strip()} if found is None else found

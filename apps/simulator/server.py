"""The API of a member over HTTP: discovery, health, authentication, watch streams and faults."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from urllib.parse import unquote

import orjson
from aiohttp import web

from apps.simulator import pod_streams
from apps.simulator.catalogue import Catalogue
from apps.simulator.faults import Fault, Trouble
from apps.simulator.request_log import RequestLog
from apps.simulator.requests import Request, nothing_here, target_of
from apps.simulator.rest import Answer, Rest
from apps.simulator.store import Subscriber
from apps.simulator.watching import Watch
from controlplane.apimachinery.errors import Expired, InternalError, NotAcceptable, StatusError, TooLarge, Unauthorized
from controlplane.wire import discovery
from controlplane.wire.body import MAX_BYTES
from controlplane.wire.negotiate import DISCOVERY, representation
from controlplane.wire.status import status_of

log = logging.getLogger("simulator")

_HEALTH = frozenset(("readyz", "livez", "healthz"))
_OPEN_TO_ALL = _HEALTH | {"version"}


class Server:
    """Answers the HTTP requests of one member."""

    def __init__(self, rest: Rest, requests: RequestLog, *, bookmark_every: float) -> None:
        self.http = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._rest = rest
        self._requests = requests
        self._bookmark_every = bookmark_every
        self._trouble = Trouble()
        self._reachable = asyncio.Event()
        self._reachable.set()

    @property
    def _catalogue(self) -> Catalogue:
        return self._rest.objects.catalogue

    def set_fault(self, trouble: Trouble) -> None:
        """Start or end a fault."""
        self._trouble = trouble
        if trouble.fault is Fault.BLACKHOLE:
            self._reachable.clear()
        else:
            self._reachable.set()

    def release(self) -> None:
        """End all waiting requests and watches, before the server stops."""
        self._reachable.set()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        entry = self._requests.begin(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=http.method,
            path=http.path_qs,
            user_agent=http.headers.get("User-Agent", ""),
            impersonated=_impersonated(http),
        )
        await self._endure(http)
        try:
            response = await self._answer(http, entry)
        except StatusError as error:
            response = _failure(error)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:  # a defect fails one request with a 500
            log.exception("%s %s failed", http.method, http.path_qs)
            response = _failure(InternalError("the simulator has a defect; its log says more"))
        entry["status"] = response.status
        entry["seconds"] = round(loop.time() - began, 4)
        return response

    async def _endure(self, http: web.BaseRequest) -> None:
        """Delay a request as the present fault demands."""
        if not self._reachable.is_set():
            await self._reachable.wait()
            await asyncio.sleep(0.02)  # lets closed connections be noticed first
            if http.transport is None or http.transport.is_closing():
                raise ConnectionResetError  # the client gave up, so its request must have no effect
        if self._trouble.fault is Fault.SLOW:
            await asyncio.sleep(self._trouble.seconds)

    async def _answer(self, http: web.BaseRequest, entry: dict[str, object]) -> web.StreamResponse:
        parts = [unquote(part) for part in http.rel_url.raw_path.split("/") if part]
        head = parts[0] if parts else ""
        if self._trouble.fault is Fault.UNAUTHORIZED:
            raise Unauthorized("Unauthorized")
        if head not in _OPEN_TO_ALL:
            self._authenticate(http)
        if head in _HEALTH:
            sick = self._trouble.fault is Fault.UNHEALTHY
            return web.Response(text="[-]simulated failed" if sick else "ok", status=503 if sick else 200)
        if _is_discovery(parts):
            return self._discover(http, parts)
        if stream := pod_streams.stream_of(parts, dict(http.query)):
            entry["status"] = 200
            return await pod_streams.serve(http, self._rest.objects, parts, stream)
        request = Request(
            method=http.method,
            target=target_of(parts, self._catalogue),
            query=dict(reversed(list(http.query.items()))),
            accept=http.headers.get("Accept", ""),
            content_type=http.headers.get("Content-Type", ""),
            user_agent=http.headers.get("User-Agent", ""),
            impersonated=_impersonated(http),
            body=await _body(http),
        )
        if http.method == "GET" and request.flag("watch") and not request.target.subresource:
            return await self._watch(http, request, entry)
        return _response(self._rest.answer(request))

    def _authenticate(self, http: web.BaseRequest) -> None:
        """Raise Unauthorized for a missing or wrong token.

        Over plain HTTP a request without a token is accepted, because kubectl never sends a token without TLS.
        """
        header = http.headers.get("Authorization", "")
        if not header and not http.secure:
            return
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or token.strip() not in self._rest.tokens:
            raise Unauthorized("Unauthorized")

    def _discover(self, http: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """Answer /version, /api, /apis, /openapi and the discovery documents below them."""
        if parts[0] == "version":
            return web.json_response(discovery.version_document("simulator"))
        if parts[0] == "openapi":
            return self._openapi(parts[1:])
        resources = self._catalogue.all()
        form = representation(http.headers.get("Accept"), offered=DISCOVERY)
        if len(parts) == 1 and form.convert:
            document = discovery.aggregated(resources, core=parts[0] == "api", version=form.version)
            return _json(orjson.dumps(document), content_type=discovery.content_type(form.version))
        found = None
        if len(parts) == 1:
            found = discovery.api_versions() if parts[0] == "api" else discovery.api_group_list(resources)
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.api_group(resources, parts[1])
        else:
            group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
            found = discovery.api_resource_list(resources, group, version)
        if found is None:
            raise nothing_here()
        return _json(orjson.dumps(found))

    def _openapi(self, parts: list[str]) -> web.StreamResponse:
        if parts[:1] == ["v2"]:
            raise NotAcceptable("OpenAPI v2 is not served; use /openapi/v3")
        if parts == ["v3"]:
            return _json(orjson.dumps(self._catalogue.openapi.index()))
        text = self._catalogue.openapi.document("/".join(parts[1:])) if parts[:1] == ["v3"] else None
        if text is None:
            raise nothing_here()
        return _json(text)

    async def _watch(self, http: web.BaseRequest, request: Request, entry: dict[str, object]) -> web.StreamResponse:
        more = asyncio.Event()
        subscriber = Subscriber(more.set)
        store, kind = self._rest.objects.store, request.target.resource.key
        watch = Watch(request, store, subscriber)
        stream = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        store.subscribe(kind, subscriber)
        entry["status"] = 200
        try:
            first = b"".join(watch.first())
            await stream.prepare(http)
            if first:
                await stream.write(first)
            if not watch.over:
                await self._follow(stream, watch, more)
        except Expired:
            pass  # the client lists again
        finally:
            store.unsubscribe(kind, subscriber)
        await stream.write_eof()
        return stream

    async def _follow(self, stream: web.StreamResponse, watch: Watch, more: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + watch.timeout_seconds if watch.timeout_seconds else float("inf")
        bookmark_at = loop.time() + self._bookmark_every if watch.bookmarks else float("inf")
        while loop.time() < end:
            more.clear()
            frames = watch.more()
            if watch.bookmarks and loop.time() >= bookmark_at:
                frames += watch.bookmark()
                bookmark_at = loop.time() + self._bookmark_every
            if frames:
                await self._reachable.wait()
                await stream.write(frames)
                continue
            wait = min(end, bookmark_at) - loop.time()
            try:
                async with asyncio.timeout(None if wait == float("inf") else wait):
                    await more.wait()
            except TimeoutError:
                continue


def _impersonated(http: web.BaseRequest) -> dict[str, object]:
    """Return the user whom a request impersonates; {}: it impersonates no user. Every caller may do it here."""
    name, prefix = http.headers.get("Impersonate-User", ""), "impersonate-extra-"
    if not name:
        return {}
    extra: dict[str, list[str]] = {}
    for header, value in http.headers.items():
        if header.lower().startswith(prefix):
            extra.setdefault(unquote(header.lower().removeprefix(prefix)), []).append(value)
    groups = [*http.headers.getall("Impersonate-Group", []), "system:authenticated"]
    uid = http.headers.get("Impersonate-Uid", "")
    return {"username": name, "groups": groups, **({"uid": uid} if uid else {}), **({"extra": extra} if extra else {})}


def _is_discovery(parts: list[str]) -> bool:
    if not parts or parts[0] in ("version", "openapi"):
        return bool(parts)
    return (parts[0] == "api" and len(parts) <= 2) or (parts[0] == "apis" and len(parts) <= 3)


async def _body(http: web.BaseRequest) -> bytes:
    """Return the body. Raises TooLarge as soon as it exceeds the limit."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise TooLarge(f"the body has more than {MAX_BYTES} bytes")
    return b"".join(chunks)


def _response(answer: Answer) -> web.Response:
    response = _json(answer.body, status=answer.status, content_type=answer.content_type)
    for warning in answer.warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _failure(error: StatusError) -> web.Response:
    response = _json(orjson.dumps(status_of(error)), status=error.code)
    if error.details.retry_after_seconds:
        response.headers["Retry-After"] = str(error.details.retry_after_seconds)
    return response


def _json(body: bytes, *, status: int = 200, content_type: str = "application/json") -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": content_type})

"""The client of member clusters: the Kubernetes API over HTTP. Every response and every failure becomes an Answer."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import aiohttp
import orjson
from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError
from msgspec.structs import replace

from apps.clusters import discovery, inventory
from apps.clusters.answers import (
    MESSAGE_CHARACTERS,
    REDIRECT,
    answer_of,
    by_proxy,
    first_line,
    is_redirect,
    not_reached,
    too_much,
    untrusted,
)
from apps.clusters.applying import Applying, may_write
from apps.clusters.connection import Connections, connector, credentials, through
from apps.clusters.object_urls import NoName, Unservable, object_path, object_path_by
from apps.clusters.ownership import belongs_to, not_ours
from apps.clusters.releasing import has_left_copies, release
from apps.clusters.response_reader import PROBE_BYTES, Account, TooMuch, lines, whole
from apps.clusters.watch_events import Expired, event_of, object_of
from apps.objects.address_guard import CheckedResolver, check
from controlplane.clusters.comparing import comparison
from controlplane.clusters.questions import (
    NOT_FOUND,
    REMOVING,
    Answer,
    Collect,
    Compare,
    Discard,
    Ensure,
    Packed,
    Probe,
    Target,
)
from controlplane.clusters.removing import held_back
from controlplane.kinds.cluster import MISCONFIGURED
from controlplane.settings import MemberSettings

log = logging.getLogger(__name__)

USER_AGENT = "lifeboat"
ANSWER_SECONDS = 10.0
BYTES_PER_SECOND = 10_000  # speed of a loaded API server: a request of 10,000 bytes may take one second longer
LONGEST_SECONDS = 120.0
WATCH_SECONDS = 60
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=WATCH_SECONDS + 30, connect=4)
PAGE = 500
PAGES = 2_000
LIST_SECONDS = 300.0
TOKEN_CHARACTERS = 8_192  # longest continue token; those of Kubernetes are shorter than 2,000
_BY_SOCKS = (ProxyConnectionError, ProxyError, ProxyTimeoutError)  # errors of a SOCKS5 proxy have no common base class

T = TypeVar("T")
Listed = tuple[list[T], str] | Answer


# Connections of a member by purpose, so that slow writes and open watches never delay a probe.
WORK, PROBE, WATCH = "work", "probe", "watch"
CONNECTIONS = {WORK: 24, PROBE: 2, WATCH: 0}  # 0: as many as there are watched kinds


def _as_it_is(item: Any) -> Any:
    return item


class MemberClient:
    """Sends requests to members and keeps connections to each member. To be used in one event loop."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._resolver = CheckedResolver(settings)
        self._sessions: dict[tuple[str, str], Connections] = {}
        self._replaced: set[aiohttp.ClientSession] = set()
        self._accounts: dict[tuple[str, str], Account] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._exceeded: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close all connections."""
        sessions = [known.session for known in self._sessions.values()] + list(self._replaced)
        self._sessions.clear()
        for session in sessions:
            await session.close()

    @asynccontextmanager
    async def _connected(self, target: Target, lane: str) -> AsyncIterator[aiohttp.ClientSession]:
        """Use the session of a member for a request, which a change of endpoint or credentials does not break off."""
        known = self._session(target, lane)
        known.used += 1
        try:
            yield known.session
        finally:
            known.used -= 1
            self._close_unused(known)

    def _close_unused(self, known: Connections) -> None:
        if known.replaced and not known.used:
            self._closing.add(task := asyncio.create_task(known.session.close()))
            task.add_done_callback(self._closing.discard)
            self._replaced.discard(known.session)

    def _session(self, target: Target, lane: str) -> Connections:
        """Return the session of a member. Raises AddressRefused or ValueError if its address must not be called."""
        known, to = self._sessions.get((target.cluster, lane)), replace(target, token="")
        if known is None or known.to != to:
            if known is not None:  # endpoint or credentials changed
                known.replaced = True
                self._replaced.add(known.session)
                self._close_unused(known)
                del self._sessions[target.cluster, lane]
            for url in filter(None, (target.endpoint, target.proxy)):
                check(url, self._settings)
            session = aiohttp.ClientSession(
                connector=connector(
                    target, limit=CONNECTIONS[lane], resolver=self._resolver, account=self.account(target.cluster, lane)
                ),
                auto_decompress=False,  # within limits: apps.clusters.response_reader
                headers={
                    "User-Agent": USER_AGENT,
                    "Accept": "application/json",
                    "Accept-Encoding": "identity" if lane == WATCH else "gzip",
                },  # aiohttp sends these headers to the proxy as well
            )
            known = self._sessions[target.cluster, lane] = Connections(to, session)
        return known

    async def call(
        self,
        target: Target,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
        lane: str = WORK,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Send a request and return the answer. Every failure is an Answer too: no behaviour of a member raises.

        `seconds`: time for the answer; large bodies get more. The time in which a WORK request waits for a free
        connection does not count.
        """
        sent = None if body is None else orjson.dumps(body)
        headers = credentials(target) | ({} if sent is None else {"Content-Type": content_type})
        if accept:
            headers["Accept"] = accept
        seconds = min(seconds + len(sent or b"") / BYTES_PER_SECOND, max(seconds, LONGEST_SECONDS))
        account = self.account(target.cluster, lane)
        limit = PROBE_BYTES if lane == PROBE else account.longest
        try:
            async with (
                self._slot(target, lane),
                self._connected(target, lane) as session,
                session.request(
                    method,
                    target.endpoint.rstrip("/") + path,
                    params=params,
                    data=sent,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=seconds),
                    allow_redirects=False,
                    **through(target),
                ) as response,
            ):
                raw = await whole(response, account, limit=limit)
                with account.share.used():
                    return answer_of(response.status, response.content_type, raw)
        except TooMuch as error:
            return too_much(f"{method} {path}: {error}")
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError) as error:
            return untrusted(error)
        except TimeoutError:
            return Answer(0, problem=f"no answer within {seconds:g} s")
        except aiohttp.ClientHttpProxyError as error:
            return by_proxy(error)
        except (aiohttp.InvalidURL, ValueError) as error:
            return Answer(0, problem=f"cannot be called: {first_line(error)}", access=True, reason=MISCONFIGURED)
        except (aiohttp.ClientError, OSError, *_BY_SOCKS) as error:
            return not_reached(error)

    def account(self, cluster: str, lane: str = WORK) -> Account:
        """Return the account of a member: the memory and time that it uses in this process.

        Probes have an account of their own, so that their answers are read whatever else the member sends.
        """
        key = (cluster, PROBE if lane == PROBE else WORK)
        return self._accounts.setdefault(key, Account(longest=self._settings.answer_bytes))

    def complain(self, cluster: str, what: str) -> None:
        """Log that a member exceeded a limit, and note it for the answer to the next Collect."""
        self._exceeded[cluster] = what
        log.warning("cluster %s exceeded a limit, and its response was not read: %s", cluster, what)

    def _slot(self, target: Target, lane: str) -> AbstractAsyncContextManager[Any]:
        if lane != WORK:
            return nullcontext()
        return self._turns.setdefault(target.cluster, asyncio.Semaphore(CONNECTIONS[WORK]))

    async def probe(self, question: Probe) -> Answer:
        """Return the answer to GET /readyz; if the member has no /readyz, to GET /healthz [cluster-status]."""
        answer = await self.call(question.target, "GET", "/readyz", lane=PROBE, seconds=question.seconds)
        if answer.code != 404:
            return answer
        return await self.call(question.target, "GET", "/healthz", lane=PROBE, seconds=question.seconds)

    async def collect(self, question: Collect) -> Answer:
        """Return version, API resources, nodes, pods and quotas of a member, or the first answer that is a failure.

        The answer also reports which limit the member exceeded since the last Collect.
        """
        answer = await self._collected(question)
        exceeded = self._exceeded.pop(question.target.cluster, "")
        return replace(answer, exceeded=answer.exceeded or exceeded)

    async def _collected(self, question: Collect) -> Answer:
        version = await self._read(question.target, "/version")
        if not version.ok:
            return version
        apis = await discovery.apis(partial(self._read, question.target))
        if isinstance(apis, Answer):
            return apis
        known = {"gitVersion": str(version.body.get("gitVersion", ""))[:MESSAGE_CHARACTERS]}
        body: dict[str, Any] = {"version": known, "apis": apis, "nodes": None, "pods": None}
        names = ("nodes", "pods") if question.resources else ()
        for name in (*names, "resourcequotas") if question.quotas else names:
            found = await self.list(
                question.target, f"/api/v1/{name}", keep=inventory.packer(name, whole_nodes=question.single_nodes)
            )
            if isinstance(found, Answer):
                return found
            body[name] = Packed(found[0])
        return Answer(200, body)

    async def _read(
        self, target: Target, path: str, params: dict[str, str] | None = None, *, accept: str = ""
    ) -> Answer:
        """Return the answer to GET, and a failure if it is not a JSON object, for example the login page of a proxy.

        `accept`: the forms that are asked for, if not plain JSON.
        """
        answer = await self.call(target, "GET", path, params=params, accept=accept)
        if answer.ok and not isinstance(answer.body, dict):
            return Answer(0, problem=f"GET {path}: the answer is not a JSON object")
        return answer

    async def list(
        self, target: Target, path: str, *, selector: str = "", keep: Callable[[dict[str, Any]], T] = _as_it_is
    ) -> Listed[T]:
        """Return the results of `keep` for each object of a list, and the list's resourceVersion; an Answer: a failure.

        The list is read page by page. `keep` may raise TooMuch, and ValueError for an object that is malformed: both
        become an Answer.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return await self._listed(target, path, selector, keep)
        except TimeoutError:
            return too_much(f"GET {path}: the list takes longer than {LIST_SECONDS:g} s")
        except TooMuch as error:
            return too_much(f"GET {path}: {error}")
        except ValueError as error:
            return Answer(0, problem=f"GET {path}: {first_line(error)}")

    async def _listed(self, target: Target, path: str, selector: str, keep: Callable[[dict[str, Any]], T]) -> Listed[T]:
        kept, size, token, share = list[T](), PAGE, "", self.account(target.cluster).share
        for _ in range(PAGES):
            params = {"limit": str(size)} | ({"labelSelector": selector} if selector else {})
            answer = await self._read(target, path, params | ({"continue": token} if token else {}))
            if answer.exceeded and size > 1:  # the objects are large: ask for fewer of them at once
                size = max(size // 10, 1)  # 0 would mean no limit
                continue
            if not answer.ok:
                return answer
            items, metadata = answer.body.get("items") or (), answer.body.get("metadata") or {}
            if not isinstance(items, list | tuple) or not isinstance(metadata, dict):
                raise ValueError("the answer is not a list")
            with share.used():
                kept += [keep(object_of(item)) for item in items]
            next_token, version = metadata.get("continue") or "", metadata.get("resourceVersion") or ""
            if not next_token:
                return kept, str(version)[:TOKEN_CHARACTERS]
            if not isinstance(next_token, str) or len(next_token) > TOKEN_CHARACTERS or next_token == token:
                raise TooMuch(f"a continue token came twice, or is longer than {TOKEN_CHARACTERS} characters")
            token = next_token
        raise TooMuch(f"the list has more than {PAGES:,} pages")

    async def watch(
        self, target: Target, path: str, *, since: str, selector: str
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield (type, object) of each change until the stream ends.

        Raises Expired on 410, TooMuch, aiohttp.ClientError, OSError, and ValueError if the answer is not a watch.
        """
        params = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "labelSelector": selector,
        }
        url, account = target.endpoint.rstrip("/") + path, self.account(target.cluster)
        options = {
            "params": params,
            "headers": credentials(target),
            "timeout": WATCH_TIMEOUT,
            "allow_redirects": False,
            **through(target),
        }
        try:
            response = await self._session(target, WATCH).session.get(url, **options)
        except _BY_SOCKS as error:
            raise OSError(f"the proxy: {first_line(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise OSError(not_reached(error).problem) from error
        async with response:
            if response.status == 410:
                raise Expired
            if is_redirect(response.status):
                raise OSError(REDIRECT)
            response.raise_for_status()
            async for line in lines(response, account):
                with account.share.used():
                    event = event_of(line)
                yield event

    async def ensure(self, question: Ensure, known: dict[str, Any] | None = None) -> Answer:
        """Write an object to the member by server-side apply; by create or update if the member cannot apply it.

        If the object exists and is not managed by Lifeboat, the answer is a refusal, unless the question has
        `overwrite`. Fields that the member sets itself are kept. `known`: the object on the member, as a watch reported
        it last; None: no watch has reported one. If the member still has that object, one request is enough.
        """
        try:
            path = object_path(question.manifest)
        except Unservable as error:
            return Answer(0, problem=str(error))
        return await self._applying(question, path).ensure(known)

    async def compare(self, question: Compare) -> Answer:
        """Return what an Ensure would change, from a dry run of the member. Nothing is written.

        The body of the answer is the object as it is on the member.
        """
        ensure = question.ensure
        try:
            path = object_path(ensure.manifest)
        except Unservable as error:
            return Answer(0, problem=str(error))
        current = await self._read(ensure.target, path)
        if current.code == 404:
            return comparison(None, {})
        if not current.ok:
            return current
        if not may_write(ensure, current.body):
            return not_ours(current.body)
        return await self._applying(ensure, path).compare(current.body)

    def _applying(self, question: Ensure, path: str) -> Applying:
        target = question.target
        return Applying(partial(self.call, target), partial(self._read, target), question, path)

    async def discard(self, question: Discard) -> Answer:
        """Delete an object of Lifeboat in the background, or release it: remove only the marks of Lifeboat.

        Code 404: the object does not exist, or is not a copy for this cluster.
        """
        answer = await self._discarded(question)
        return await self.confirmed(question.target, question.manifest, answer)

    async def confirmed(self, target: Target, manifest: dict[str, Any], answer: Answer) -> Answer:
        """Return an answer; if it is a 404 that the API server of the member has not given, a failure."""
        if answer.code != 404:
            return answer
        return await discovery.confirmed(partial(self._read, target), manifest, answer)

    async def _discarded(self, question: Discard) -> Answer:
        path = await self._path(question)
        if isinstance(path, Answer):
            return path
        current = await self._read(question.target, path)
        if not current.ok:
            return current
        if not belongs_to(question.target.cluster, current.body):
            return replace(not_ours(current.body), code=404)
        if question.release or has_left_copies(question.manifest, current.body):
            sending = partial(self.call, question.target), partial(self._read, question.target)
            return await release(*sending, path, current.body)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        uid = current.body.get("metadata", {}).get("uid")
        answer = await self.call(
            question.target, "DELETE", path, body=options | ({"preconditions": {"uid": uid}} if uid else {})
        )
        return answer if not answer.ok else await self._gone(question.target, path)

    async def _path(self, question: Discard) -> str | Answer:
        """Return the URL path of an object to remove, or why there is none.

        The definition of its kind may be gone from Lifeboat while the member was away. Then the member knows the path.
        """
        try:
            return object_path(question.manifest)
        except NoName as error:  # no member has such an object
            return Answer(404, problem=str(error), reason=NOT_FOUND)
        except Unservable:
            plural = await discovery.plural_of(partial(self._read, question.target), question.manifest)
            return plural if isinstance(plural, Answer) else object_path_by(plural, question.manifest)

    async def _gone(self, target: Target, path: str) -> Answer:
        """Return an answer with code 404 if the object is gone; REMOVING while its finalizers keep it."""
        current = await self.call(target, "GET", path)
        return Answer(REMOVING, note=held_back(current.body)) if current.ok else current

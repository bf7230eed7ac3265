"""How a member cluster is talked to: the Kubernetes API over HTTP, every answer turned into data."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import msgspec
import orjson
from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError
from python_socks import parse_proxy_url

from apps.clusters.addresses import AddressRefused, CheckedResolver, CheckedSocks, check
from controlplane.kinds import KINDS
from controlplane.kinds.cluster import (
    ACCESS_REFUSED,
    ADDRESS_REFUSED,
    CERTIFICATE_EXPIRED,
    CERTIFICATE_REFUSED,
    MISCONFIGURED,
    REDIRECTED,
)
from controlplane.members import FIELD_MANAGER, NOT_OURS, REMOVING, Answer, Collect, Discard, Ensure, Probe, Target
from controlplane.meta import kind_key
from controlplane.names import MANAGED_LABEL, MANAGED_LABEL_VALUE
from controlplane.removing import held_back
from controlplane.replacing import is_unapplicable, replacement, taken_over
from controlplane.settings import MemberSettings

USER_AGENT = "lifeboat"
ANSWER_SECONDS = 10.0
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=4, sock_read=90)
WATCH_SECONDS = 60
PAGE = 500
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE = "application/merge-patch+json"
ATTEMPTS = 3  # of an update whose object changed meanwhile
_BY_SOCKS = (ProxyConnectionError, ProxyError, ProxyTimeoutError)  # of a SOCKS5 proxy; they share no base
_X509_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
# Annotations and labels that mark an object as ours; releasing an object strips them.
OUR_PREFIXES = (
    *("karmada.io/", "work.karmada.io/", "resourcetemplate.karmada.io/"),
    *("resourcebinding.karmada.io/", "clusterresourcebinding.karmada.io/"),
    *("propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"),
)


_NOT_OURS = Answer(
    409,
    problem="an object of that name exists and is not managed by us; set conflictResolution: Overwrite to take it over",
    reason=NOT_OURS,
)


class Unservable(Exception):
    """The manifest is of a kind we do not know a URL for."""


class Expired(Exception):
    """The member no longer has the history a watch asked for: list again."""


# Connections of a member by what they are for: slow applies and open watches never keep a probe waiting.
WORK, PROBE, WATCH = "work", "probe", "watch"
CONNECTIONS = {WORK: 24, PROBE: 2, WATCH: 0}  # 0: as many as there are watched kinds


class MemberClient:
    """Answers questions about members; connections are kept per member. Use inside one loop."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._resolver = CheckedResolver(settings)
        self._sessions: dict[tuple[str, str], tuple[Target, aiohttp.ClientSession]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for _, session in sessions:
            await session.close()

    def _session(self, target: Target, lane: str) -> aiohttp.ClientSession:
        """Return the session of a member. Raises AddressRefused, ValueError where its address must not be called."""
        known, session = self._sessions.get((target.cluster, lane), (None, None))
        if session is None or known != target:
            if session is not None:  # endpoint or credentials changed
                self._closing.add(task := asyncio.create_task(session.close()))
                task.add_done_callback(self._closing.discard)
                del self._sessions[target.cluster, lane]
            for url in filter(None, (target.endpoint, target.proxy)):
                check(url, self._settings)
            session = aiohttp.ClientSession(
                connector=_connector(target, lane, self._resolver),
                headers={
                    "User-Agent": USER_AGENT,
                    "Accept": "application/json",
                },  # aiohttp tells them the proxy as well
                json_serialize=lambda one: orjson.dumps(one).decode(),
            )
            self._sessions[target.cluster, lane] = (target, session)
        return session

    async def call(
        self,
        target: Target,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        lane: str = WORK,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Ask one thing. Every failure is an answer too; nothing is raised for what a member may do."""
        headers = _credentials(target) | ({"Content-Type": content_type} if body is not None else {})
        try:
            async with self._session(target, lane).request(
                method,
                target.endpoint.rstrip("/") + path,
                params=params,
                data=None if body is None else orjson.dumps(body),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
                **_through(target),
            ) as response:
                raw = await response.read()
                return _answer(response.status, response.content_type, raw)
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError) as error:
            return _untrusted(error)
        except TimeoutError:
            return Answer(0, problem=f"no answer within {seconds:g} s")
        except aiohttp.ClientHttpProxyError as error:
            return _by_proxy(error)
        except (aiohttp.InvalidURL, ValueError) as error:
            return Answer(0, problem=f"cannot be called: {_first_line(error)}", access=True, reason=MISCONFIGURED)
        except (aiohttp.ClientError, OSError, *_BY_SOCKS) as error:
            return _not_reached(error)

    async def probe(self, question: Probe) -> Answer:
        """GET /readyz, and /healthz where there is no /readyz (semantics 2.1)."""
        answer = await self.call(question.target, "GET", "/readyz", lane=PROBE, seconds=question.seconds)
        if answer.code != 404:
            return answer
        return await self.call(question.target, "GET", "/healthz", lane=PROBE, seconds=question.seconds)

    async def collect(self, question: Collect) -> Answer:
        """Return version, API resources, nodes and pods; the first answer that fails where one fails."""
        version = await self._read(question.target, "/version")
        if not version.ok:
            return version
        apis = await self._apis(question.target)
        if isinstance(apis, Answer):
            return apis
        body: dict[str, Any] = {"version": version.body, "apis": apis, "nodes": None, "pods": None}
        if question.resources:
            for name in ("nodes", "pods"):
                found = await self.list(question.target, f"/api/v1/{name}")
                if isinstance(found, Answer):
                    return found
                body[name] = found[0]
        return Answer(200, body)

    async def _apis(self, target: Target) -> list[dict[str, Any]] | Answer:
        """Return [{groupVersion, resources: [{name, kind}]}] without subresources.

        `resources` is None where one version does not answer: an aggregated API whose server is down is not the member.
        """
        groups = await self._read(target, "/apis")
        if not groups.ok:
            return groups
        versions = ["v1"]
        for group in _part(groups.body, "groups"):
            versions += [version["groupVersion"] for version in _part(group, "versions")]
        core, *others = await asyncio.gather(*(self._resources(target, version) for version in versions))
        if isinstance(core, Answer):
            return core
        return [
            {"groupVersion": version, "resources": None if isinstance(found, Answer) else found}
            for version, found in zip(versions, (core, *others), strict=True)
        ]

    async def _resources(self, target: Target, version: str) -> list[dict[str, str]] | Answer:
        path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        answer = await self._read(target, path)
        if not answer.ok:
            return answer
        found = _part(answer.body, "resources")
        return [{"name": one["name"], "kind": one["kind"]} for one in found if "/" not in one["name"]]

    async def _read(self, target: Target, path: str, params: dict[str, str] | None = None) -> Answer:
        """GET what has to be a JSON object: a page somebody put in between says nothing of the member."""
        answer = await self.call(target, "GET", path, params=params)
        if answer.ok and not isinstance(answer.body, dict):
            return Answer(0, problem=f"GET {path}: the answer is no JSON object")
        return answer

    async def list(self, target: Target, path: str, *, selector: str = "") -> tuple[list[dict[str, Any]], str] | Answer:
        """Return all objects under a path, page by page, and the list's resourceVersion; an Answer where it fails."""
        items: list[dict[str, Any]] = []
        params = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            answer = await self._read(target, path, params)
            if not answer.ok:
                return answer
            items += _part(answer.body, "items")
            metadata = answer.body.get("metadata", {})
            if not metadata.get("continue"):
                return items, metadata.get("resourceVersion", "")
            params["continue"] = metadata["continue"]

    async def watch(
        self, target: Target, path: str, *, since: str, selector: str
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield (type, object) until the stream ends.

        Raises Expired on 410, aiohttp.ClientError, OSError, ValueError where the answer is no watch.
        """
        params = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "labelSelector": selector,
        }
        url = target.endpoint.rstrip("/") + path
        options = {
            "params": params,
            "headers": _credentials(target),
            "timeout": WATCH_TIMEOUT,
            "allow_redirects": False,
            **_through(target),
        }
        try:
            response = await self._session(target, WATCH).get(url, **options)
        except _BY_SOCKS as error:
            raise OSError(f"the proxy: {_first_line(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise OSError(_not_reached(error).problem) from error
        async with response:
            if response.status == 410:
                raise Expired
            if _is_redirect(response.status):
                raise OSError(_REDIRECTED)
            response.raise_for_status()
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in filter(None, lines):
                    yield _event(line)

    async def ensure(self, question: Ensure) -> Answer:
        """Bring an object to the member: server-side apply, or create and update where the member cannot apply it.

        An object that exists and is not ours is refused unless `overwrite`. What the member decided about it stays.
        """
        manifest = question.manifest
        try:
            path = object_path(manifest)
        except Unservable as error:
            return Answer(0, problem=str(error))
        if question.looks_first:
            held = await self.call(question.target, "GET", path)
            if not held.ok and held.code != 404:
                return held
            if held.ok and not question.overwrite and not _ours(held.body):
                return _NOT_OURS
            manifest = question.over(held.body) if held.ok else manifest
        answer = await self._apply(question.target, path, manifest)
        if is_unapplicable(answer):
            return await self._create_or_update(question, path, answer)
        return await self._owning(question, path, manifest, answer) if answer.ok else answer

    async def _apply(self, target: Target, path: str, manifest: dict[str, Any]) -> Answer:
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.call(target, "PATCH", path, params=params, body=manifest, content_type=APPLY)

    async def _create_or_update(self, question: Ensure, path: str, refused: Answer) -> Answer:
        """Create the object, or update the one that is there; the answer says why it was not applied."""
        target, params = question.target, {"fieldManager": FIELD_MANAGER}
        answer = refused
        for _ in range(ATTEMPTS):
            held = await self.call(target, "GET", path)
            if held.code == 404:
                answer = await self.call(target, "POST", path.rpartition("/")[0], params=params, body=question.manifest)
            elif not held.ok:
                return held
            elif not question.overwrite and not _ours(held.body):
                return _NOT_OURS
            else:
                body = replacement(question, held.body)
                answer = await self.call(target, "PUT", path, params=params, body=body)
            if answer.code != 409:
                break
        if not answer.ok:
            return answer
        return msgspec.structs.replace(answer, note=f"created or updated, not applied server-side: {refused.problem}")

    async def _owning(self, question: Ensure, path: str, manifest: dict[str, Any], answer: Answer) -> Answer:
        """Apply again after an earlier create or update of ours, so that what the manifest lost since is removed."""
        for _ in range(ATTEMPTS):
            patch = taken_over(answer.body)
            if patch is None:
                break
            taken = await self.call(question.target, "PATCH", path, body=patch, content_type=MERGE)
            if not taken.ok and taken.code != 409:
                return taken
            answer = await self._apply(question.target, path, manifest)
            if not answer.ok:
                break
        return answer

    async def discard(self, question: Discard) -> Answer:
        """Delete an object of ours in the background, or strip our marks from it. One that is gone is an answer 404."""
        try:
            path = object_path(question.manifest)
        except Unservable as error:
            return Answer(404, problem=str(error))
        held = await self.call(question.target, "GET", path)
        if not held.ok:
            return held
        if not _ours(held.body):
            return Answer(404, problem="the object there is not ours")
        if question.release:
            patch = {"metadata": {part: _stripped(held.body, part) for part in ("labels", "annotations")}}
            return await self.call(question.target, "PATCH", path, body=patch, content_type=MERGE)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        uid = held.body.get("metadata", {}).get("uid")
        answer = await self.call(
            question.target, "DELETE", path, body=options | ({"preconditions": {"uid": uid}} if uid else {})
        )
        return answer if not answer.ok else await self._gone(question.target, path)

    async def _gone(self, target: Target, path: str) -> Answer:
        """Return 404 once the object is gone; REMOVING while finalizers keep it there."""
        held = await self.call(target, "GET", path)
        return Answer(REMOVING, note=held_back(held.body)) if held.ok else held


def _event(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return type and object of a line of a watch. Raises Expired, ValueError where it is none."""
    frame = _decoded(line)
    match frame:
        case {"type": "ERROR"}:
            raise Expired
        case {"type": str(type_), "object": {"metadata": dict()}}:
            return type_, frame["object"]
    raise ValueError(f"not a line of a watch: {line[:200]!r}")


def _part(body: dict[str, Any], name: str) -> Sequence[dict[str, Any]]:
    """Return one list of an answer; Go writes an empty one as null."""
    return body.get(name) or ()


_REDIRECTED = "redirects of members are not followed: let spec.apiEndpoint name the API server itself"


def _is_redirect(status: int) -> bool:
    return 300 <= status < 400


def _answer(status: int, content_type: str, raw: bytes) -> Answer:
    if _is_redirect(status):  # 304 as well: nothing is asked conditionally
        return Answer(status, problem=f"HTTP {status}: {_REDIRECTED}", access=True, reason=REDIRECTED)
    body: Any = None
    if content_type.endswith("json") and raw:
        try:
            body = _decoded(raw)
        except orjson.JSONDecodeError:
            return Answer(0, problem="the answer is not JSON")
    if 200 <= status < 300:
        return Answer(status, body)
    said = body.get("message", "") if isinstance(body, dict) else _plain(raw[:200].decode(errors="replace"))
    refused = status in (401, 403, 407)
    return Answer(status, body, problem=f"HTTP {status}: {said}".rstrip(": "), access=refused)


def _untrusted(error: Exception) -> Answer:
    """Return what trouble with TLS means: the member is there, and we cannot be sure that it is it (D22, fault 7)."""
    cause: Any = getattr(error, "certificate_error", error)
    if getattr(cause, "verify_code", 0) == _X509_EXPIRED:
        problem = "TLS: the member's certificate has expired; renew it there, nothing has to be changed here"
        return Answer(0, problem=problem, access=True, reason=CERTIFICATE_EXPIRED)
    return Answer(0, problem=f"TLS: {_first_line(error)}", access=True, reason=CERTIFICATE_REFUSED)


def _by_proxy(error: aiohttp.ClientHttpProxyError) -> Answer:
    """Return what a proxy's refusal to connect means: it may refuse us, or not reach the member."""
    problem = _plain(f"the proxy answered {error.status} {error.message}").rstrip()
    if error.status in (401, 403, 407):
        return Answer(0, problem=f"{problem}; see spec.proxyHeader", access=True, reason=ACCESS_REFUSED)
    return Answer(0, problem=problem)


def _not_reached(error: BaseException) -> Answer:
    """Return what it means that no connection was made, or that it broke."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return Answer(0, problem=_first_line(cause), access=True, reason=ADDRESS_REFUSED)
        cause = cause.__cause__
    return Answer(0, problem=_first_line(error))


def _connector(target: Target, lane: str, resolver: CheckedResolver) -> aiohttp.TCPConnector:
    limits: dict[str, Any] = {"limit": CONNECTIONS[lane], "ssl": _tls(target)}
    if not _by_socks(target):
        return aiohttp.TCPConnector(resolver=resolver, **limits)
    type_, host, port, user, password = parse_proxy_url(target.proxy)
    proxy = {"proxy_type": type_, "host": host, "port": port, "username": user, "password": password}
    return CheckedSocks(checked=resolver, rdns=True, **proxy, **limits)


def _credentials(target: Target) -> dict[str, str]:
    """Return the headers that let us in. They are for the member alone: with each request, never with the session."""
    return {"Authorization": f"Bearer {target.token}"} if target.token else {}


def _through(target: Target) -> dict[str, Any]:
    """Return what a request says about the HTTP proxy; its headers go with CONNECT, and never to the member."""
    if not target.proxy or _by_socks(target):
        return {}
    return {"proxy": target.proxy, "proxy_headers": target.proxy_headers or None}


def _by_socks(target: Target) -> bool:
    return target.proxy.startswith("socks5://")


def _tls(target: Target) -> ssl.SSLContext | bool:
    if target.insecure:
        return False
    if not target.ca:
        return True
    return ssl.create_default_context(cadata=target.ca)


def _decoded(raw: bytes) -> Any:
    """Return what a member says, without the one character PostgreSQL keeps nowhere: a report it refuses would take
    those of all other members with it. Raises orjson.JSONDecodeError."""
    said = orjson.loads(raw)
    return _without_nul(said) if b"\\u0000" in raw else said


def _without_nul(said: Any) -> Any:
    if isinstance(said, str):
        return _plain(said)
    if isinstance(said, dict):
        return {_plain(name): _without_nul(one) for name, one in said.items()}
    return [_without_nul(one) for one in said] if isinstance(said, list) else said


def _plain(text: str) -> str:
    return text.replace("\0", " ")


def _first_line(error: BaseException) -> str:
    return _plain((str(error) or type(error).__name__).splitlines()[0][:300])


def _ours(held: dict[str, Any]) -> bool:
    labels = held.get("metadata", {}).get("labels") or {}
    return labels.get(MANAGED_LABEL) == MANAGED_LABEL_VALUE


def _stripped(held: dict[str, Any], part: str) -> dict[str, None]:
    """Return the merge patch that removes our labels or annotations."""
    return {key: None for key in held.get("metadata", {}).get(part) or {} if key.startswith(OUR_PREFIXES)}


def collection_path(api_version: str, kind: str, namespace: str = "") -> str:
    """Return the URL path of a kind's collection, all namespaces where none is given. Raises Unservable."""
    known = KINDS.get(kind_key(api_version, kind))
    if known is None:
        raise Unservable(f"{api_version} {kind}: no such kind here; create its CustomResourceDefinition first")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    middle = f"/namespaces/{namespace}" if namespace and known.resource.namespaced else ""
    return f"{root}{middle}/{known.resource.plural}"


def object_path(manifest: dict[str, Any]) -> str:
    """Return the URL path of one object. Raises Unservable."""
    metadata = manifest.get("metadata", {})
    place = collection_path(manifest.get("apiVersion", ""), manifest.get("kind", ""), metadata.get("namespace", ""))
    return f"{place}/{metadata.get('name', '')}"

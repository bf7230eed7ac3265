"""The watch cache: what each member holds of ours, kept fresh by list and watch, one stream per member and kind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from apps.clusters.client import Expired, MemberClient, Unservable, collection_path
from controlplane import kinds
from controlplane.members import Answer, Observe, Target
from controlplane.meta import Ref
from controlplane.names import MANAGED_LABEL, MANAGED_LABEL_VALUE, WORK_NAME_ANNOTATION, WORK_NAMESPACE_ANNOTATION

log = logging.getLogger(__name__)

SELECTOR = f"{MANAGED_LABEL}={MANAGED_LABEL_VALUE}"
RETRY_SECONDS = 2.0
UNSERVED = "unserved"  # stands for the version of a kind the member does not serve: it holds nothing of it

Place = tuple[str, str]  # (namespace, name)
Key = tuple[str, str, str]  # (cluster, apiVersion, kind)


class NotServed(Exception):
    """The member does not serve a kind (any more)."""


class Stream(msgspec.Struct, eq=False):
    """One watch: a member and a kind, and what it holds. `since`: the version it has come to; "" nothing was read."""

    target: Target
    api_version: str
    kind: str
    held: dict[Place, dict[str, Any]] = {}
    since: str = ""


class Watches:
    """All streams of all members. `changed` is called with the Works whose objects changed; `read` with what was read
    whole: what is missing there may have gone while nobody watched, and no change will ever say so."""

    def __init__(
        self,
        client: MemberClient,
        changed: Callable[[list[Ref]], None],
        read: Callable[[Key], None] = lambda key: None,
    ) -> None:
        self._client = client
        self._changed = changed
        self._read = read
        self._streams: dict[Key, Stream] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def want(self, wanted: dict[Key, Target]) -> None:
        """Watch exactly these: start what is new or has ended by itself, end what is gone or has moved."""
        for key, task in list(self._tasks.items()):
            if task.done() or wanted.get(key) != self._streams[key].target:
                _told_why(key, task)
                self._tasks.pop(key).cancel()
                del self._streams[key]
        for key, target in wanted.items():
            self._begin(key, target)

    def _begin(self, key: Key, target: Target) -> Stream:
        if key not in self._tasks:
            stream = self._streams[key] = Stream(target, key[1], key[2])
            self._tasks[key] = asyncio.create_task(self._follow(stream))
        return self._streams[key]

    async def close(self) -> None:
        """End all streams."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def observe(self, question: Observe) -> Answer:
        """Return what the member holds of a manifest: 404 where a stream that has read all has not seen it."""
        manifest = question.manifest
        stream = self._streams.get((question.cluster, manifest.get("apiVersion", ""), manifest.get("kind", "")))
        if stream is None or not stream.since:
            return Answer(0, problem="not watched yet")
        held = stream.held.get(_place(manifest))
        return Answer(404, problem="not found") if held is None else Answer(200, held)

    def tell_again(self) -> None:
        """Call `changed` with the Works of all objects held, as if all had changed."""
        held = (item for stream in self._streams.values() for item in stream.held.values())
        self._changed([ref for item in held if (ref := work_of(item)) is not None])

    def learn(self, target: Target, item: dict[str, Any]) -> None:
        """Enter what a member answered to an apply: it holds that object before its stream says so."""
        stream = self._begin((target.cluster, item.get("apiVersion", ""), item.get("kind", "")), target)
        if not stream.since or _version(item) > _number(stream.since):
            stream.held[_place(item)] = item

    async def _follow(self, stream: Stream) -> None:
        try:
            path = collection_path(stream.api_version, stream.kind)
        except Unservable as error:
            log.warning("%s is not watched on %s: %s", stream.kind, stream.target.cluster, error)
            return
        while True:
            try:
                await self._follow_once(stream, path)
            except Expired:
                continue
            except NotServed:
                if stream.since != UNSERVED:
                    self._replace(stream, [], UNSERVED)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                log.info("watch of %s on %s broke: %s", stream.kind, stream.target.cluster, error)
            stream.since = ""
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow_once(self, stream: Stream, path: str) -> None:
        listed = await self._client.list(stream.target, path, selector=SELECTOR)
        if isinstance(listed, Answer):
            raise NotServed if listed.code == 404 else OSError(listed.problem)
        self._replace(stream, *listed)
        while True:
            changes = self._client.watch(stream.target, path, since=stream.since, selector=SELECTOR)
            async for type_, item in changes:
                stream.since = item.get("metadata", {}).get("resourceVersion", stream.since)
                if type_ != "BOOKMARK":
                    self._enter(stream, type_, item)

    def _replace(self, stream: Stream, items: list[dict[str, Any]], version: str) -> None:
        for item in items:  # lists leave apiVersion and kind out
            item.setdefault("apiVersion", stream.api_version)
            item.setdefault("kind", stream.kind)
        before = stream.held
        learned = {place: item for place, item in before.items() if _version(item) > _number(version)}
        stream.held = {_place(item): item for item in items} | learned
        stream.since = version
        gone = [item for place, item in before.items() if place not in stream.held]
        self._changed([ref for item in (*items, *gone) if (ref := work_of(item)) is not None])
        self._read((stream.target.cluster, stream.api_version, stream.kind))

    def _enter(self, stream: Stream, type_: str, item: dict[str, Any]) -> None:
        if type_ == "DELETED":
            stream.held.pop(_place(item), None)
        else:
            stream.held[_place(item)] = item
        ref = work_of(item)
        if ref is not None:
            self._changed([ref])


def _told_why(key: Key, task: asyncio.Task[None]) -> None:
    """Log what ended a watch that should have gone on."""
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        log.error("the watch of %s on %s ended and begins anew", key[2], key[0], exc_info=error)


def _place(item: dict[str, Any]) -> Place:
    metadata = item.get("metadata", {})
    return metadata.get("namespace", ""), metadata.get("name", "")


def _version(item: dict[str, Any]) -> int:
    return _number(item.get("metadata", {}).get("resourceVersion", ""))


def _number(version: str) -> int:
    """Return a resourceVersion as the growing number Kubernetes says it is; 0 for anything else."""
    return int(version) if version.isdigit() else 0


def work_of(item: dict[str, Any]) -> Ref | None:
    """Return the Work a member's object was made from, None where it does not say."""
    annotations = item["metadata"].get("annotations") or {}
    namespace, name = annotations.get(WORK_NAMESPACE_ANNOTATION), annotations.get(WORK_NAME_ANNOTATION)
    return Ref(kinds.WORK, namespace, name) if namespace and name else None

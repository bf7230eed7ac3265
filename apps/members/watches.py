"""The watch cache: what each member holds of ours, kept fresh by list and watch, one stream per member and kind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import orjson
from msgspec.structs import replace

from apps.clusters.client import Expired, MemberClient, Unservable, collection_path
from apps.clusters.response_reader import MEBIBYTE, TooMuch, encoded
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    WORK_NAME_ANNOTATION,
    WORK_NAMESPACE_ANNOTATION,
    execution_namespace,
)
from controlplane.clusters.questions import Answer, Observe, Target

log = logging.getLogger(__name__)

SELECTOR = f"{MANAGED_LABEL}={MANAGED_LABEL_VALUE}"
RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 60.0  # of a member that exceeds limits
LONGEST_NAME = 253  # of an object in Kubernetes
ENTRY_BYTES = 400  # what an object costs beside its text
UNSERVED = "unserved"  # stands for the version of a kind the member does not serve: it holds nothing of it

Place = tuple[str, str]  # (namespace, name)
Key = tuple[str, str, str]  # (cluster, apiVersion, kind)


class NotServed(Exception):
    """The member does not serve a kind (any more)."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """An object of a member, as JSON: a tenth of the memory. `work`: the Work that it was made from."""

    place: Place
    version: int
    work: Ref | None
    text: bytes

    @property
    def size(self) -> int:
        return len(self.text) + ENTRY_BYTES


class Stream(msgspec.Struct, eq=False):
    """One watch: a member and a kind, and what it holds, `size` bytes. `since`: the version that was read last; ""
    before the first."""

    target: Target
    api_version: str
    kind: str
    held: dict[Place, Held] = {}
    size: int = 0
    since: str = ""


class Watches:
    """All streams of all members. `changed` is called with the Works whose objects changed. `read` is called with each
    kind that was read whole: an object that is missing there may have gone while nobody watched, and no change says so.

    At most `longest` bytes are held of one member; a kind that would exceed it is not held at all.
    """

    def __init__(
        self,
        client: MemberClient,
        changed: Callable[[list[Ref]], None],
        read: Callable[[Key], None] = lambda key: None,
        *,
        longest: int = 256 * MEBIBYTE,
    ) -> None:
        self._client = client
        self._longest = longest
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
        return Answer(404, problem="not found") if held is None else Answer(200, orjson.loads(held.text))

    def tell_again(self) -> None:
        """Call `changed` with the Works of all objects held, as if all had changed."""
        held = (item for stream in self._streams.values() for item in stream.held.values())
        self._changed([item.work for item in held if item.work is not None])

    def learn(self, target: Target, manifest: dict[str, Any], item: dict[str, Any]) -> None:
        """Enter what a member answered to an apply of a manifest: the member holds it before its stream says so.

        Raises TooMuch, ValueError where it cannot be held.
        """
        key = (target.cluster, manifest.get("apiVersion", ""), manifest.get("kind", ""))
        stream = self._begin(key, target)
        held = replace(_held(stream, item), place=_place(manifest))
        if not stream.since or held.version > _number(stream.since):
            self._enter(stream, held)

    async def _follow(self, stream: Stream) -> None:
        try:
            path = collection_path(stream.api_version, stream.kind)
        except Unservable as error:
            log.warning("%s is not watched on %s: %s", stream.kind, stream.target.cluster, error)
            return
        pause = RETRY_SECONDS
        while True:
            try:
                await self._follow_once(stream, path)
            except Expired:
                continue
            except TooMuch as error:
                self._client.complain(stream.target.cluster, f"watch of {stream.kind}: {error}")
                self._forget(stream)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)
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
        size, room = 0, self._room(stream)

        def keep(item: dict[str, Any]) -> Held:
            nonlocal size
            held = _held(stream, item)
            size += held.size
            if size > room:
                raise TooMuch(f"its objects take more than {self._longest // MEBIBYTE} MiB")
            return held

        listed = await self._client.list(stream.target, path, selector=SELECTOR, keep=keep)
        if isinstance(listed, Answer):
            if listed.exceeded:
                raise TooMuch(listed.exceeded)
            raise NotServed if listed.code == 404 else OSError(listed.problem)
        self._replace(stream, *listed)
        share = self._client.account(stream.target.cluster).share
        while True:
            changes = self._client.watch(stream.target, path, since=stream.since, selector=SELECTOR)
            async for type_, item in changes:
                await share.turn()
                with share.used():
                    self._follow_event(stream, type_, item)

    def _follow_event(self, stream: Stream, type_: str, item: dict[str, Any]) -> None:
        held = _held(stream, item)
        stream.since = str(item["metadata"].get("resourceVersion", stream.since))[:LONGEST_NAME]
        if type_ == "BOOKMARK":
            return
        if type_ == "DELETED":
            self._drop(stream, held.place)
        else:
            self._enter(stream, held)
        if held.work is not None:
            self._changed([held.work])

    def _replace(self, stream: Stream, items: list[Held], version: str) -> None:
        before = stream.held
        learned = {place: item for place, item in before.items() if item.version > _number(version)}
        stream.held = {item.place: item for item in items} | learned
        stream.size = sum(item.size for item in stream.held.values())
        stream.since = version
        gone = [item for place, item in before.items() if place not in stream.held]
        self._changed([item.work for item in (*items, *gone) if item.work is not None])
        self._read((stream.target.cluster, stream.api_version, stream.kind))

    def _enter(self, stream: Stream, item: Held) -> None:
        self._drop(stream, item.place)
        if stream.size + item.size > self._room(stream):
            raise TooMuch(f"its objects take more than {self._longest // MEBIBYTE} MiB")
        stream.held[item.place] = item
        stream.size += item.size

    def _drop(self, stream: Stream, place: Place) -> None:
        if (held := stream.held.pop(place, None)) is not None:
            stream.size -= held.size

    def _forget(self, stream: Stream) -> None:
        stream.held, stream.size, stream.since = {}, 0, ""

    def _room(self, stream: Stream) -> int:
        """Return how many bytes a stream may hold beside the other streams of its member."""
        cluster = stream.target.cluster
        others = sum(one.size for (name, *_), one in self._streams.items() if name == cluster and one is not stream)
        return self._longest - others


def _told_why(key: Key, task: asyncio.Task[None]) -> None:
    """Log what ended a watch that should have gone on."""
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        log.error("the watch of %s on %s ended and begins anew", key[2], key[0], exc_info=error)


def _held(stream: Stream, item: dict[str, Any]) -> Held:
    """Return an object as it is held. Lists leave apiVersion and kind out; who set which field is not needed.

    Raises ValueError where it is no object of Kubernetes.
    """
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    said = {**item, "apiVersion": stream.api_version, "kind": stream.kind, "metadata": metadata}
    version = _number(str(metadata.get("resourceVersion", "")))
    return Held(_place(said), version, work_of(said, stream.target.cluster), encoded(said))


def _place(item: dict[str, Any]) -> Place:
    metadata = item.get("metadata", {})
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _number(version: str) -> int:
    """Return a resourceVersion as the growing number Kubernetes says it is; 0 for anything else."""
    return int(version) if version.isdecimal() and len(version) < 30 else 0


def work_of(item: dict[str, Any], cluster: str) -> Ref | None:
    """Return the Work a member's object was made from; None where the object does not say, or names a Work of another
    cluster: whoever writes into a member must not make other clusters' Works due."""
    annotations = item["metadata"].get("annotations")
    if not isinstance(annotations, dict):
        return None
    namespace, name = annotations.get(WORK_NAMESPACE_ANNOTATION), annotations.get(WORK_NAME_ANNOTATION)
    if namespace != execution_namespace(cluster) or not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return None
    return Ref(kinds.WORK, namespace, name)

"""The watch cache: objects of ours in each member, kept current by list and watch, one stream per member and kind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from zlib import crc32

import aiohttp
import msgspec
import orjson
from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.clusters.object_urls import Unservable, collection_path
from apps.clusters.ownership import made_for
from apps.clusters.response_reader import MEBIBYTE, TooMuch, encoded
from apps.clusters.watch_events import Expired
from apps.worker.clock import monotonic_seconds, pause_since
from controlplane import interpret, kinds
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
RETRY_SECONDS = 2.0  # also the shortest time between the beginnings of two watches, or of two lists, of a kind
LONGEST_RETRY_SECONDS = 60.0  # for a member that exceeds limits
LONGEST_NAME = 253  # of an object in Kubernetes
FINISHED_BYTES = MEBIBYTE  # for the last states of finished objects of a kind on a member
ENTRY_BYTES = 400  # memory of a cached object in addition to its text
UNSERVED = "unserved"  # used as resourceVersion of a kind that the member does not serve, so that its cache is empty

Place = tuple[str, str]  # (namespace, name)
Key = tuple[str, str, str]  # (cluster, apiVersion, kind)


class NotServed(Exception):
    """The member does not serve a kind."""


class CachedObject(msgspec.Struct, frozen=True, gc=False):
    """An object of a member, as JSON text, which needs a tenth of the memory.

    `work`: the Work that it was made from. It stays if a user of the member removes the annotations that name it.
    `finished`: it had finished before its deletion began.
    """

    place: Place
    version: int
    work: Ref | None
    text: bytes
    finished: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + ENTRY_BYTES

    @property
    def document(self) -> dict[str, Any]:
        """Return the object, without managedFields."""
        found: dict[str, Any] = orjson.loads(self.text)
        return found


class Stream(msgspec.Struct, eq=False):
    """The watch of one kind on one member, with the objects it has read (`size` bytes).

    `since`: the resourceVersion that was read last; "": nothing has been read yet. `answered`: what applies have
    returned since the last list began, and no event has reported since. `finished`: the last states of objects that the
    member deleted after they had finished, as a Job with a time to live of 0: no later look would see their result.
    """

    target: Target
    api_version: str
    kind: str
    cached: dict[Place, CachedObject] = {}
    size: int = 0
    since: str = ""
    answered: set[Place] = set()
    finished: dict[Place, CachedObject] = {}


class Watches:
    """All streams of all members.

    `changed` is called with the Works whose objects changed. `read` is called with each kind after all its objects were
    listed: an object that is missing may have been deleted while it was not watched, and no change reports that.
    At most `longest` bytes are cached for one member; a kind that would exceed the limit is not cached at all. The
    objects that had finished take up to FINISHED_BYTES of each kind in addition.
    Every `compare_seconds` a kind is listed again, in case a watch has missed a change.
    """

    def __init__(
        self,
        client: MemberClient,
        changed: Callable[[list[Ref]], None],
        read: Callable[[Key], None] = lambda key: None,
        *,
        longest: int = 256 * MEBIBYTE,
        compare_seconds: float = 1800.0,
    ) -> None:
        self._client = client
        self._longest = longest
        self._compare_seconds = compare_seconds
        self._changed = changed
        self._read = read
        self._streams: dict[Key, Stream] = {}
        self._of_member: dict[str, list[Stream]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def want(self, wanted: dict[Key, Target]) -> None:
        """Watch exactly these kinds.

        Streams that are not wanted are ended. Those that have ended, or whose target has changed, are started again.
        """
        for key, task in list(self._tasks.items()):
            if task.done() or wanted.get(key) != self._streams[key].target:
                _log_error(key, task)
                self._tasks.pop(key).cancel()
                self._of_member[key[0]].remove(self._streams.pop(key))
        for key, target in wanted.items():
            self._begin(key, target)

    def _begin(self, key: Key, target: Target) -> Stream:
        if key not in self._tasks:
            stream = self._streams[key] = Stream(target, key[1], key[2])
            self._of_member.setdefault(key[0], []).append(stream)
            self._tasks[key] = asyncio.create_task(self._follow(stream))
        return self._streams[key]

    async def close(self) -> None:
        """End all streams."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def observe(self, question: Observe) -> Answer:
        """Return the member's object for a manifest. 404: the stream has listed the kind without it, or with the copy
        of another Cluster, as on a member that is joined under two names.

        The body of a 404 is the last state of an object that had finished when the member deleted it.
        """
        manifest = question.manifest
        stream = self._streams.get((question.cluster, manifest.get("apiVersion", ""), manifest.get("kind", "")))
        if stream is None or not stream.since:
            return Answer(0, problem="not watched yet")
        item = stream.cached.get(_place(manifest))
        if item is not None and made_for(document := item.document) in ("", question.cluster):
            return Answer(200, document)
        last = stream.finished.get(_place(manifest))
        return Answer(404, None if last is None else last.document, problem="not found")

    def target(self, question: Observe) -> Target | None:
        """Return how the member of a question is reached. None: the kind is not watched there."""
        manifest = question.manifest
        stream = self._streams.get((question.cluster, manifest.get("apiVersion", ""), manifest.get("kind", "")))
        return None if stream is None else stream.target

    def cached(self, cluster: str, manifest: dict[str, Any]) -> CachedObject | None:
        """Return the object of a member for a manifest as it is cached. None: it is not cached."""
        stream = self._streams.get((cluster, manifest.get("apiVersion", ""), manifest.get("kind", "")))
        return None if stream is None else stream.cached.get(_place(manifest))

    def report_all_changed(self) -> None:
        """Call `changed` with the Works of all cached objects, as if all had changed."""
        items = (item for stream in self._streams.values() for item in stream.cached.values())
        self._changed([item.work for item in items if item.work is not None])

    def add(self, target: Target, manifest: dict[str, Any], item: dict[str, Any]) -> None:
        """Cache the object that a member returned for an apply, before the stream reports it.

        Raises TooMuch if it exceeds the limit of the member, ValueError if it is not a Kubernetes object.
        """
        key = (target.cluster, manifest.get("apiVersion", ""), manifest.get("kind", ""))
        stream = self._begin(key, target)
        cached = replace(_cached(stream, item), place=_place(manifest))
        if not stream.since or cached.version > _number(stream.since):
            stream.answered.add(cached.place)
            self._store(stream, cached)

    async def _follow(self, stream: Stream) -> None:
        try:
            path = collection_path(stream.api_version, stream.kind)
        except Unservable as error:
            log.warning("%s is not watched on %s: %s", stream.kind, stream.target.cluster, error)
            return
        pause = RETRY_SECONDS
        while True:
            began = monotonic_seconds()
            try:
                await self._list_and_watch(stream, path)
            except Expired:
                await pause_since(began, seconds=RETRY_SECONDS)  # a member may answer 410 to every watch
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

    async def _list_and_watch(self, stream: Stream, path: str) -> None:
        """List a kind and watch it until the next list is due, again and again. Only an error ends it.

        The first watch ends sooner, after a share of the time that differs by kind and cluster, so that lists of many
        kinds do not begin at the same time. The time counts from the end of a list.
        """
        share = 0.5 + crc32(repr((stream.target.cluster, stream.api_version, stream.kind)).encode()) / 2**33
        while True:
            await self._list(stream, path)
            await self._watch(stream, path, seconds=share * self._compare_seconds)
            share = 1.0

    async def _list(self, stream: Stream, path: str) -> None:
        stream.answered.clear()
        size, room = 0, self._room(stream)

        def keep(item: dict[str, Any]) -> CachedObject:
            nonlocal size
            cached = _cached(stream, item)
            size += cached.size
            if size > room:
                raise TooMuch(f"its objects take more than {self._longest // MEBIBYTE} MiB")
            return cached

        listed = await self._client.list(stream.target, path, selector=SELECTOR, keep=keep)
        if isinstance(listed, Answer):
            if listed.exceeded:
                raise TooMuch(listed.exceeded)
            kind = {"apiVersion": stream.api_version, "kind": stream.kind}
            listed = await self._client.confirmed(stream.target, kind, listed)
            raise NotServed if listed.code == 404 else OSError(listed.problem)
        self._replace(stream, *listed)

    async def _watch(self, stream: Stream, path: str, *, seconds: float) -> None:
        """Follow the changes of a kind for some time. A watch that is open then is not cut off.

        A member, or a proxy before it, may end every watch at once.
        """
        share = self._client.account(stream.target.cluster).share
        until = monotonic_seconds() + seconds
        while (began := monotonic_seconds()) < until:
            changes = self._client.watch(stream.target, path, since=stream.since, selector=SELECTOR)
            async for type_, item in changes:
                await share.turn()
                with share.used():
                    self._follow_event(stream, type_, item)
            await pause_since(began, seconds=RETRY_SECONDS)

    def _follow_event(self, stream: Stream, type_: str, item: dict[str, Any]) -> None:
        cached = _cached(stream, item)
        stream.since = str(item["metadata"].get("resourceVersion", stream.since))[:LONGEST_NAME]
        if type_ == "BOOKMARK" or self._is_overtaken(stream, cached):
            return
        stream.answered.discard(cached.place)
        if type_ == "DELETED":
            self._drop(stream, cached.place)
            _keep_finished(stream, cached)
        else:
            self._store(stream, cached)
        if cached.work is not None:
            self._changed([cached.work])

    def _is_overtaken(self, stream: Stream, reported: CachedObject) -> bool:
        """Test whether the member has already answered an apply with a newer state of an object than it reports now.

        The event of that apply follows. Until then the older state would look like a change or a loss.
        """
        known = stream.cached.get(reported.place) if reported.place in stream.answered else None
        return known is not None and known.version > reported.version

    def _replace(self, stream: Stream, items: list[CachedObject], version: str) -> None:
        before = stream.cached
        # Only what was applied while the list was read can be newer. All else that is not in the list is gone, also
        # where its version is higher: the member was restored from an older backup.
        answered = ((place, before[place]) for place in stream.answered if place in before)
        newer = {place: item for place, item in answered if item.version > _number(version)}
        stream.cached = {item.place: item for item in items} | newer
        stream.finished = {place: item for place, item in stream.finished.items() if place not in stream.cached}
        stream.size = sum(item.size for item in stream.cached.values())
        stream.since = version
        gone = [item for place, item in before.items() if place not in stream.cached]
        self._changed([item.work for item in (*items, *gone) if item.work is not None])
        self._read((stream.target.cluster, stream.api_version, stream.kind))

    def _store(self, stream: Stream, item: CachedObject) -> None:
        self._drop(stream, item.place)
        if stream.size + item.size > self._room(stream):
            raise TooMuch(f"its objects take more than {self._longest // MEBIBYTE} MiB")
        stream.cached[item.place] = item
        stream.size += item.size
        stream.finished.pop(item.place, None)

    def _drop(self, stream: Stream, place: Place) -> None:
        if (item := stream.cached.pop(place, None)) is not None:
            stream.size -= item.size

    def _forget(self, stream: Stream) -> None:
        stream.cached, stream.size, stream.since = {}, 0, ""

    def _room(self, stream: Stream) -> int:
        """Return how many bytes a stream may cache: the limit of its member without its other streams.

        It is asked for each object that a member reports, so the streams of other members are not looked at.
        """
        streams = self._of_member.get(stream.target.cluster, ())
        return self._longest - sum(other.size for other in streams if other is not stream)


def _log_error(key: Key, task: asyncio.Task[None]) -> None:
    """Log the error that ended a watch which is still wanted."""
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        log.error("the watch of %s on %s ended with an error and starts again", key[2], key[0], exc_info=error)


def _cached(stream: Stream, item: dict[str, Any]) -> CachedObject:
    """Return an object as it is cached: with apiVersion and kind, which lists leave out, and without managedFields.

    Raises ValueError if it is not a Kubernetes object.
    """
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    document = {**item, "apiVersion": stream.api_version, "kind": stream.kind, "metadata": metadata}
    version = _number(str(metadata.get("resourceVersion", "")))
    work = work_of(document, stream.target.cluster)
    known = stream.cached.get(_place(document))
    if work is None and known is not None:
        work = known.work
    return CachedObject(_place(document), version, work, encoded(document), _has_finished(document, known))


def _has_finished(document: dict[str, Any], known: CachedObject | None) -> bool:
    """Test whether an object had finished before its deletion began. A Pod also ends because it is deleted."""
    if "deletionTimestamp" in document["metadata"] and not (known is not None and known.finished):
        return False
    status = document.get("status")
    final = interpret.interpreter_for(document["apiVersion"], document["kind"]).final
    try:
        return isinstance(status, dict) and final(status)
    except (AttributeError, TypeError):  # a status in another form than its kind has
        return False


def _keep_finished(stream: Stream, deleted: CachedObject) -> None:
    """Keep the last state of an object that had finished when it was deleted, and of as many earlier ones as fit."""
    if not deleted.finished:
        return
    stream.finished[deleted.place] = deleted
    while sum(item.size for item in stream.finished.values()) > FINISHED_BYTES:
        del stream.finished[next(iter(stream.finished))]


def _place(item: dict[str, Any]) -> Place:
    metadata = item.get("metadata", {})
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _number(version: str) -> int:
    """Return a resourceVersion as a number, which grows with each change in Kubernetes. 0: it is not a number."""
    return int(version) if version.isdecimal() and len(version) < 30 else 0


def work_of(item: dict[str, Any], cluster: str) -> Ref | None:
    """Return the Work that a member's object was made from.

    None: the object names no Work, or one of another cluster. A user of one member must not be able to make the Works
    of other clusters due.
    """
    annotations = item["metadata"].get("annotations")
    if not isinstance(annotations, dict):
        return None
    namespace, name = annotations.get(WORK_NAMESPACE_ANNOTATION), annotations.get(WORK_NAME_ANNOTATION)
    if namespace != execution_namespace(cluster) or not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return None
    return Ref(kinds.WORK, namespace, name)

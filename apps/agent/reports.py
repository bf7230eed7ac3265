"""Reports of an agent: its Lease, the status of its Cluster and of its Works, and Events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from apps.agent.control_plane import ControlPlane, Document
from apps.agent.store import AgentStore
from apps.clusters.applying import APPLY
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.health import established
from controlplane.clusters.questions import Answer
from controlplane.kind import text_of
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds.cluster import ACCESS_LOST, COMPLETE_APIS, READY, Cluster

log = logging.getLogger(__name__)

AT_ONCE: Final = 16  # reports of Works that are sent at the same time
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0  # after a report that did not arrive
MANAGER: Final = "lifeboat-agent"
_REPORTED: Final = frozenset((READY, ACCESS_LOST, COMPLETE_APIS))
_COLLECTED: Final = ("kubernetesVersion", "apiEnablements", "nodeSummary", "resourceSummary")
_TOO_MANY, _CONFLICT, _GONE = 429, 409, 404
_NO_STATUS: Final = {"conditions": None, "manifestStatuses": None}  # a merge patch keeps a field that it does not name


class Reports:
    """Sends what the store has noted. What does not arrive is sent again, with the state that is true then."""

    def __init__(
        self, store: AgentStore, control_plane: ControlPlane, *, in_thread: Callable[..., Awaitable[Any]]
    ) -> None:
        self._store = store
        self._control_plane = control_plane
        self._in_thread = in_thread
        self._pause = PAUSE_SECONDS
        self._waits = False  # whether `retry` will be called
        self._failed: dict[Ref, None] = {}
        self._unreleased: dict[Ref, tuple[str, ...]] = {}
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Send each time `wake` is set, until cancelled.

        What did not arrive is sent again after a pause, which doubles each time. Other reports do not wait for
        it: the control plane may refuse one of them for days.
        """
        loop = asyncio.get_running_loop()
        while True:
            await self.wake.wait()
            self.wake.clear()
            if await self._send():
                if not self._waits:
                    self._pause = PAUSE_SECONDS
                continue
            if not self._waits:
                self._waits = True
                loop.call_later(self._pause, self.retry)
                self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    def retry(self) -> None:
        """Let what did not arrive be sent again."""
        self._waits = False
        self._store.outgoing |= self._failed
        self._store.released = self._unreleased | self._store.released
        self._failed, self._unreleased = {}, {}
        self.wake.set()

    def beats(self, ref: Ref) -> bool:
        """Test whether heartbeats are sent: the cluster was Ready once, and this process has found out how it is.

        Otherwise a cluster that failed with its agent would be Ready again as soon as the agent starts. Call this in
        the thread of the store.
        """
        kept = self._store.objects.get(ref)
        return isinstance(kept, Cluster) and established(kept) and self._store.knows_ready(ref)

    async def renew_lease(self, seconds: float) -> Answer:
        """Renew the Lease of the cluster, which is its heartbeat. `seconds`: for how long it is valid."""
        name, now = self._control_plane.cluster, self._store.now()
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": max(int(seconds), 1),
            "renewTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        path = self._control_plane.lease
        return await self._control_plane.patch(path, document, content_type=APPLY, fieldManager=MANAGER, force="true")

    async def _send(self) -> bool:
        """Send everything once. Returns whether all of it has arrived, or was refused for good."""
        outgoing, released, events = await self._in_thread(self._taken)
        limit = asyncio.Semaphore(AT_ONCE)

        async def limited(sending: Awaitable[bool]) -> bool:
            async with limit:
                return await sending

        done = await asyncio.gather(
            *(limited(self._cluster(ref) if ref.kind == CLUSTER else self._work(ref)) for ref in outgoing),
            *(limited(self._event(event)) for event in events),
        )
        # Only after the status: a Work without finalizers is gone.
        freed = await asyncio.gather(*(limited(self._release(ref, rest)) for ref, rest in released.items()))
        return all(done) and all(freed)

    def _taken(self) -> tuple[list[Ref], dict[Ref, tuple[str, ...]], list[Any]]:
        store = self._store
        taken = list(store.outgoing), dict(store.released), list(store.events)
        store.outgoing, store.released = {}, {}
        store.events.clear()
        return taken

    async def _work(self, ref: Ref) -> bool:
        """Send the status of a Work. Returns whether it needs not be sent again."""
        work = (await self._in_thread(self._store.get, [ref])).get(ref)
        if work is None:
            return True
        status = orjson.loads(text_of(work)).get("status") or {}
        answer = await self._control_plane.patch(self._path(ref) + "/status", {"status": {**_NO_STATUS, **status}})
        return self._arrived(answer, ref) or await self._again(ref)

    async def _release(self, ref: Ref, rest: tuple[str, ...]) -> bool:
        """Remove the agent's finalizers of a Work, so that `rest` stays. Returns whether it needs not be sent again."""
        answer = await self._control_plane.patch(self._path(ref), {"metadata": {"finalizers": list(rest)}})
        if self._arrived(answer, ref):
            return True
        self._unreleased[ref] = rest
        return False

    async def _cluster(self, ref: Ref) -> bool:
        """Send what is known of the member. Conditions of others stay. Returns whether it needs not be sent again."""
        kept = (await self._in_thread(self._store.get, [ref])).get(ref)
        unknown = () if await self._in_thread(self._store.knows_ready, ref) else (READY,)
        found = await self._control_plane.get(self._control_plane.cluster_path)
        if kept is None or found.code == _GONE:
            return True
        if not found.ok:
            return self._arrived(found, ref) or await self._again(ref)
        document: Document = found.body
        own, status = orjson.loads(text_of(kept)).get("status") or {}, document.get("status") or {}
        reported = _REPORTED.difference(unknown)
        conditions = [one for one in own.get("conditions") or () if one["type"] in reported]
        others = [one for one in status.get("conditions") or () if one["type"] not in reported]
        collected = {name: own[name] for name in _COLLECTED if own.get(name)}
        document["status"] = {**status, **collected, "conditions": [*others, *conditions]}
        answer = await self._control_plane.put(self._control_plane.cluster_path + "/status", document)
        return self._arrived(answer, ref) or await self._again(ref)

    async def _event(self, event: Any) -> bool:
        """Create an Event, or raise its count if it exists. Return whether it need not be sent again."""
        document = orjson.loads(text_of(event))
        answer = await self._control_plane.post(self._control_plane.events, document)
        if answer.code != _CONFLICT:
            return self._arrived(answer, event.ref, quietly=True)
        path = f"{self._control_plane.events}/{event.metadata.name}"
        found = await self._control_plane.get(path)
        count = int(found.body.get("count") or 1) + 1 if found.ok else 1
        counted = {"count": count, "lastTimestamp": document["lastTimestamp"]}
        return self._arrived(await self._control_plane.patch(path, counted), event.ref, quietly=True)

    async def _again(self, ref: Ref) -> bool:
        """Keep a report until `retry`, and return False."""
        self._failed[ref] = None
        return False

    def _arrived(self, answer: Answer, ref: Ref, *, quietly: bool = False) -> bool:
        """Test whether a report needs no further sending: it arrived, or it is refused for good.

        `quietly`: a temporary failure counts as done and is not logged, because the report is not sent again.
        """
        if answer.ok or answer.code == _GONE:
            return True
        temporary = not answer.code or answer.code >= 500 or answer.code in (401, 403, _CONFLICT, _TOO_MANY)
        if not temporary or not quietly:
            what = "is sent again" if temporary else "is refused"
            log.warning("the report about %s %s: %s", ref, what, answer.problem)
        return not temporary or quietly

    def _path(self, ref: Ref) -> str:
        return f"{self._control_plane.works}/{ref.name}" if ref.kind == WORK else self._control_plane.cluster_path

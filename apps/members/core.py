"""What every process that works on members runs: a pump for each controller, the watch cache, and what wakes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from apps.members.answers import Answers
from apps.members.host import Host
from apps.members.pump import AWAY_SECONDS, Pump
from apps.members.watches import Key
from apps.objects.instruments import keep_clusters
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.questions import Target, endpoint_of
from controlplane.controllers.reads.member_access import credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.apart import apart
from controlplane.engine.state import State, Unreadable
from controlplane.kinds.cluster import Cluster
from controlplane.settings import MemberSettings

log = logging.getLogger(__name__)

REFRESH_SECONDS = 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between a report of members and the write that marks its Work
PAUSE_FOR_EACH = 0.005  # seconds for each Work of the write before


class Core:
    """All connections to members, in one event loop. `threads`: how many calls of the store run at the same time."""

    def __init__(
        self, host: Host, controllers: Iterable[MemberController], settings: MemberSettings, *, threads: int
    ) -> None:
        self.host = host
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._changed: set[Ref] = set()
        self._read: set[Key] = set()
        self._to_mark = asyncio.Event()
        self.answers = Answers(host, settings, changed=self.works_changed, read=self._kind_read)
        self.pumps = {
            controller.name: Pump(controller, host, self.answers.answer, self.executor) for controller in controllers
        }

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run the pumps and the watches as tasks of this group."""
        for pump in self.pumps.values():
            tasks.create_task(pump.run())
        tasks.create_task(self._refreshing())
        tasks.create_task(self.marking())

    async def close(self) -> None:
        """Close all connections and end the threads."""
        await self.answers.close()
        self.executor.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that uses the store, in a thread, and return its result."""
        run = asyncio.get_running_loop().run_in_executor
        return await run(self.executor, self.host.connected, function, *arguments)

    def works_changed(self, works: list[Ref]) -> None:
        """Take note of Works whose objects changed on members."""
        self._changed.update(works)
        self._to_mark.set()

    def _kind_read(self, key: Key) -> None:
        self._read.add(key)
        self._to_mark.set()

    async def marking(self) -> None:
        """Mark Works whose objects changed as due for the controller work_status, many in one write."""
        marked, wrote_at, clock = 0, 0.0, asyncio.get_running_loop().time
        while True:
            await self._to_mark.wait()
            await asyncio.sleep(
                pause_after(marked, clock() - wrote_at)
            )  # collects changes that arrive together into one write
            self._to_mark.clear()
            works, self._changed = self._changed, set()
            read, self._read = self._read, set()
            marked = len(works)
            try:
                await self.in_thread(self._mark, works, read)
            except self.host.away as error:
                log.warning("members: the store is away; trying again: %s", self.host.cause(error))
                await asyncio.sleep(AWAY_SECONDS)
                self._read |= read
                self.works_changed(list(works))
            wrote_at = clock()
            self.pumps[WorkStatus.name].wake.set()

    def _mark(self, works: set[Ref], read: set[Key]) -> None:
        store = self.host.store
        store.mark(WorkStatus.name, works.union(*map(store.works_of, read)))

    async def _refreshing(self) -> None:
        """Watch, on the members that are Ready, the kinds for which Works exist.

        A database that comes back may have lost its last commits, and with them the last reports of members. So all
        objects are reported as changed once more after an outage [database-failover].
        """
        store_away, seen = False, None
        targets: dict[Key, Target] = {}
        while True:
            try:
                now = await self.in_thread(self.host.seen)
                if now is None or now != seen:
                    targets, seen = await self.in_thread(wanted, self.host.store), now
                self.answers.watches.want(targets)
                if store_away:
                    self.answers.watches.report_all_changed()
                store_away = False
            except self.host.away as error:
                log.warning("members: the store is away; trying again: %s", self.host.cause(error))
                store_away = True
            await asyncio.sleep(REFRESH_SECONDS)


def pause_after(marked: int, since: float) -> float:
    """Return the seconds for which reports are collected. `since`: seconds since a write that marked so many Works.

    A member changes the status of a new workload several times within a second. While many are made, its reports become
    one write of its Work, so the members receive the rest sooner.
    """
    return max(SHORTEST_PAUSE, min(marked * PAUSE_FOR_EACH, LONGEST_PAUSE) - since)


def wanted(state: State) -> dict[Key, Target]:
    """Return what to watch: each kind on each Ready cluster that is called directly, with its endpoint."""
    on_members = state.kinds_on_members()
    listed: Sequence[Cluster] = state.list(kinds.CLUSTER)
    keep_clusters({item.metadata.name for item in listed})
    called = [
        cluster for cluster in listed if cluster.ready == "True" and cluster.called_directly and not cluster.unreadable
    ]
    targets: dict[str, Target] = {}
    for part, secrets in apart(called, partial(credentials, state)):
        if isinstance(secrets, Unreadable):
            log.error("cluster %s is not watched: %s", ", ".join(one.metadata.name for one in part), secrets)
        else:
            targets |= {one.metadata.name: endpoint_of(one, secrets.get(one.metadata.name)) for one in part}
    return {
        (cluster, api_version, kind): targets[cluster]
        for cluster, api_version, kind in on_members
        if cluster in targets
    }

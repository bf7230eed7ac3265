"""The members process: one pump for each member controller, the watch cache, and the notifications that wake them."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

from django.db import OperationalError, close_old_connections
from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.clusters.response_reader import TooMuch
from apps.interpretation.service import interpretation
from apps.members.liveness import Presence
from apps.members.pump import AWAY_SECONDS, Pump
from apps.members.watches import Key, Watches
from apps.objects.configuration import Configuration, base
from apps.objects.instruments import keep_clusters, member_request
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.objects.tracing import span
from apps.worker import restored
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import GROUPS, MEMBERS
from apps.worker.nudges import Nudges
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.questions import (
    Answer,
    Collect,
    Compare,
    Discard,
    Ensure,
    Observe,
    Probe,
    Question,
    Target,
    endpoint_of,
)
from controlplane.controllers.reads.member_access import credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.run import ANSWER_ROUNDS, mark_due_at_start
from controlplane.interpret import InterpretationFailed, Unanswered

log = logging.getLogger(__name__)

Asking = Probe | Collect | Ensure | Compare | Discard  # questions that are sent to a member

REFRESH_SECONDS = 2.0
MARK_SECONDS = 0.05
NUDGE_SECONDS = 1.0
THREADS = 6  # each holds one connection of the pool while it asks the store


class Members:
    """All connections to member clusters, in one event loop."""

    def __init__(self, store: DjangoStore, configuration: Configuration) -> None:
        self.store = store
        self.configuration = configuration
        self.client = MemberClient(base().members)  # read at start only
        self.executor = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        self.listener = ThreadPoolExecutor(1, thread_name_prefix="nudges")
        self._changed: set[Ref] = set()
        self._read: set[Key] = set()
        self._to_mark = asyncio.Event()
        self.watches = Watches(self.client, self._works_changed, self._kind_read, longest=base().members.watch_bytes)
        self.pumps = {
            controller.name: Pump(controller, store, configuration, self.answer, self.executor)
            for controller in GROUPS[MEMBERS].controllers
            if isinstance(controller, MemberController)
        }
        self.presence = Presence(store, self.pumps)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._begin()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_presence())
                for pump in self.pumps.values():
                    tasks.create_task(pump.run())
                tasks.create_task(self._refreshing())
                tasks.create_task(self._marking())
                tasks.create_task(self._listening())
        finally:
            await self._leave()
            await self.watches.close()
            await self.client.close()
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.listener.shutdown(wait=False, cancel_futures=True)

    async def _begin(self) -> None:
        """Take a place before anything is claimed, as soon as the database is there."""
        while True:
            try:
                await self._in_thread(self._check_restore)
                await self._in_thread(self.presence.begin)
                return await self._in_thread(self._started)
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))
                await asyncio.sleep(AWAY_SECONDS)

    def _check_restore(self) -> None:
        """Check whether the database was restored. Then only controllers that observe members run."""
        try:
            restored.detector().check()
            self.configuration.settings(reread=True)
        finally:
            close_old_connections()

    def _started(self) -> None:
        try:
            mark_due_at_start([pump.controller for pump in self.pumps.values()], self.store)
        finally:
            close_old_connections()

    async def _leave(self) -> None:
        """Return the presence lease. Does not wait long for a database that is away."""
        try:
            await asyncio.wait_for(self._in_thread(self.presence.leave), AWAY_SECONDS)
        except TimeoutError:
            pass  # the lease expires soon

    async def _keep_presence(self) -> None:
        """Renew the presence lease again and again, and check whether the database was restored."""
        while True:
            await asyncio.sleep(self.presence.seconds / 3)
            try:
                await self._in_thread(self.presence.renew)
                await self._in_thread(self._check_restore)
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))

    async def answer(self, question: Question) -> Answer:
        """Return a member's answer to one question."""
        if isinstance(question, Observe):
            return self.watches.observe(question)
        if isinstance(question, Probe):
            return await measured("probe", question, self.client.probe(question))
        if isinstance(question, Collect):
            return await measured("collect", question, self.client.collect(question))
        if isinstance(question, Discard):
            return await measured("remove", question, self.client.discard(question))
        if isinstance(question, Compare):
            return await measured("compare", question, self.client.compare(question))
        return self._cached(question, await measured("apply", question, self._ensure(question)))

    async def _ensure(self, question: Ensure) -> Answer:
        """Return the member's answer to an apply. The rule of a user may say what the member's object keeps."""
        for _ in range(ANSWER_ROUNDS):
            try:
                return await self.client.ensure(question)
            except Unanswered as error:
                await self._in_thread(interpretation().interpret, error.questions)
                waits_for = str(error)
            except InterpretationFailed as error:
                return Answer(0, problem=str(error))
        return Answer(0, problem=f"{waits_for}: no answer yet; it is tried again")

    def _cached(self, question: Ensure, answer: Answer) -> Answer:
        """Return the answer to an apply without its object, which is put into the watch cache."""
        if answer.ok and isinstance(answer.body, dict) and isinstance(answer.body.get("metadata"), dict):
            try:
                self.watches.add(question.target, question.manifest, answer.body)
            except (TooMuch, ValueError) as error:
                self.client.complain(question.target.cluster, f"answer to an apply: {error}")
        return replace(answer, body=None)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.executor, function, *arguments)

    def _works_changed(self, works: list[Ref]) -> None:
        self._changed.update(works)
        self._to_mark.set()

    def _kind_read(self, key: Key) -> None:
        self._read.add(key)
        self._to_mark.set()

    async def _marking(self) -> None:
        """Mark Works whose objects changed as due for the controller work_status, many in one write."""
        while True:
            await self._to_mark.wait()
            await asyncio.sleep(MARK_SECONDS)  # collects changes that arrive together into one write
            self._to_mark.clear()
            works, self._changed = self._changed, set()
            read, self._read = self._read, set()
            try:
                await self._in_thread(self._mark, works, read)
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))
                await asyncio.sleep(AWAY_SECONDS)
                self._read |= read
                self._works_changed(list(works))
            self.pumps[WorkStatus.name].wake.set()

    def _mark(self, works: set[Ref], read: set[Key]) -> None:
        try:
            self.store.mark(WorkStatus.name, works.union(*map(self.store.works_of, read)))
        finally:
            close_old_connections()

    async def _refreshing(self) -> None:
        """Watch, on the members that are Ready, the kinds for which Works exist.

        A database that comes back may have lost its last commits, and with them the last reports of members. So all
        objects are reported as changed once more after an outage [database-failover].
        """
        database_away = False
        while True:
            try:
                self.watches.want(await self._in_thread(self._wanted))
                if database_away:
                    self.watches.report_all_changed()
                database_away = False
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))
                database_away = True
            await asyncio.sleep(REFRESH_SECONDS)

    def _wanted(self) -> dict[tuple[str, str, str], Target]:
        """Return what to watch: each kind on each Ready cluster that is called directly, with its endpoint."""
        try:
            listed = self.store.list(kinds.CLUSTER)
            keep_clusters({item.metadata.name for item in listed})
            clusters = {item.metadata.name: item for item in listed if item.ready == "True"}
            secrets = credentials(self.store, clusters.values())
            targets = {
                name: endpoint_of(cluster, secrets.get(name))
                for name, cluster in clusters.items()
                if cluster.called_directly
            }
            return {
                (cluster, api_version, kind): targets[cluster]
                for cluster, api_version, kind in self.store.kinds_on_members()
                if cluster in targets
            }
        finally:
            close_old_connections()

    async def _listening(self) -> None:
        """Wake the pump of a controller when the database notifies that it has new due rows."""
        loop = asyncio.get_running_loop()
        with Nudges() as nudges:
            while True:
                try:
                    names = await loop.run_in_executor(self.listener, nudges.next_notified, NUDGE_SECONDS)
                except OperationalError:
                    await asyncio.sleep(AWAY_SECONDS)
                    continue
                for name in names:
                    if name in self.pumps:
                        self.pumps[name].wake.set()


async def measured(request: str, question: Asking, asking: Awaitable[Answer]) -> Answer:
    """Return a member's answer, and count the request with its duration."""
    cluster, began, failed = question.target.cluster, monotonic_seconds(), True
    try:
        with span(f"member {request}", cluster=cluster):
            answer = await asking
        failed = not answer.code or answer.access or answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        return answer
    finally:
        member_request(cluster, request, seconds=monotonic_seconds() - began, failed=failed)


async def serve(store: DjangoStore, configuration: Configuration) -> None:
    """Run the process until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    running = loop.create_task(Members(store, configuration).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    log.info("members: ready")
    try:
        await running
    except asyncio.CancelledError:
        log.info("members: ended")

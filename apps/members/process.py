"""The members process: the core on the database, its presence lease, and the notifications that wake the pumps."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import OperationalError

from apps.members.core import Core
from apps.members.database import DatabaseHost
from apps.members.liveness import Presence
from apps.members.pump import AWAY_SECONDS
from apps.objects.configuration import Configuration, base
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.groups import GROUPS, MEMBERS
from apps.worker.nudges import Nudges
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.run import mark_due_at_start

log = logging.getLogger(__name__)

NUDGE_SECONDS = 1.0
THREADS = 6  # each holds one connection of the pool while it asks the store


class Members:
    """The core of this process, and what the database needs of it."""

    def __init__(self, store: DjangoStore, configuration: Configuration) -> None:
        self.store = store
        self.configuration = configuration
        controllers = [one for one in GROUPS[MEMBERS].controllers if isinstance(one, MemberController)]
        settings = base().members  # read at start only
        self.core = Core(DatabaseHost(store, configuration), controllers, settings, threads=THREADS)
        self.pumps = self.core.pumps
        self.listener = ThreadPoolExecutor(1, thread_name_prefix="nudges")
        self.presence = Presence(store, self.pumps)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._begin()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_presence())
                tasks.create_task(self._look_for_restore())
                self.core.start(tasks)
                tasks.create_task(self._listening())
        finally:
            await self._leave()
            await self.core.close()
            self.listener.shutdown(wait=False, cancel_futures=True)

    async def _begin(self) -> None:
        """Take a presence lease as soon as the database answers. Nothing is claimed before."""
        while True:
            try:
                await self.core.in_thread(self._check_restore)
                await self.core.in_thread(self.presence.begin)
                return await self.core.in_thread(self._started)
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))
                await asyncio.sleep(AWAY_SECONDS)

    def _check_restore(self) -> None:
        """Check whether the database was restored. Then only controllers that observe members run."""
        restored.detector().check()
        self.configuration.settings(reread=True)

    def _started(self) -> None:
        mark_due_at_start([pump.controller for pump in self.pumps.values()], self.store)

    async def _leave(self) -> None:
        """Return the claims and the presence lease. Does not wait long for a database that is away.

        The lease stays while a claim does: the next process takes it for the sign that nothing is asked any more.
        """
        try:
            async with asyncio.timeout(AWAY_SECONDS):
                await asyncio.gather(*(pump.stop() for pump in self.pumps.values()))
                if await self.core.in_thread(self._give_back):
                    await self.core.in_thread(self.presence.leave)
        except (TimeoutError, OperationalError):
            pass  # they expire soon

    def _give_back(self) -> bool:
        given_back = [pump.give_back() for pump in self.pumps.values()]
        return all(given_back)

    async def _keep_presence(self) -> None:
        """Renew the presence lease again and again."""
        while True:
            await asyncio.sleep(self.presence.seconds / 3)
            try:
                if await self.core.in_thread(self.presence.renew):
                    self._wake(self.pumps)
            except OperationalError as error:
                log.warning("members: the database is away; trying again: %s", cause(error))

    async def _look_for_restore(self) -> None:
        """Check again and again whether the database was restored.

        A Redis that does not answer takes long for that. The presence lease must not wait for it.
        """
        while True:
            await asyncio.sleep(self.presence.seconds / 3)
            try:
                await self.core.in_thread(self._check_restore)
            except OperationalError as error:
                log.warning("members: it cannot be checked whether the database was restored: %s", cause(error))

    async def _listening(self) -> None:
        """Wake the pump of a controller when the database notifies that it has new due rows."""
        loop = asyncio.get_running_loop()
        missed = True  # what was notified before this process listened
        with Nudges() as nudges:
            while True:
                try:
                    names = await loop.run_in_executor(self.listener, nudges.next_notified, NUDGE_SECONDS)
                except OperationalError:
                    await asyncio.sleep(AWAY_SECONDS)
                    missed = True
                    continue
                self._wake(self.pumps if missed else names)
                missed = False

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.pumps:
                self.pumps[name].wake.set()


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

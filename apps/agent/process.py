"""The process of an agent: the core of the members process on a store in memory, and what keeps that store true."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from apps.agent.certificates import NoCertificate, certificate_for, renewal
from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access, Unusable, write
from apps.agent.disk import Disk
from apps.agent.karmada_arguments import differences
from apps.agent.mirror import RULES, Mirror
from apps.agent.registration import credentials_file
from apps.agent.reports import Reports
from apps.agent.store import AgentStore
from apps.interpretation.rule_answers import Interpretation
from apps.members.core import Core
from apps.objects.instruments import ERRORS, RECONCILED
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.collection import Collection
from controlplane.controllers.execution import Execution
from controlplane.controllers.probes import Probes
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.failure import Failure
from controlplane.engine.run import World, mark_due_at_start, run_batch
from controlplane.interpret import INTERPRETERS
from controlplane.interpret.customized import Question
from controlplane.kinds import CLUSTER
from controlplane.settings import Settings

log = logging.getLogger(__name__)

JUDGE_SECONDS: Final = 0.5  # between two decisions about Ready
MEMBER_CREDENTIALS_SECONDS: Final = 60.0  # between two reads of the credentials, which the cluster renews
RENEW_AGAIN_SECONDS: Final = 60.0  # between two renewals
RENEWAL_WAIT: Final = timedelta(minutes=5)
LONGEST_SLEEP_SECONDS: Final = 3600.0


class Options(NamedTuple):
    """What the command line says. `member` returns how the own cluster is reached; its token changes."""

    cluster: str
    folder: Path
    access: Access
    member: Callable[[], Access]
    lasts: timedelta  # how long a new certificate is to be valid
    renew_at: float  # after which share of its time a certificate is renewed
    expected: Mapping[str, str]  # fields that arguments say the spec of the Cluster has


class NeverAway(Exception):
    """A store in memory is never away."""


class MemoryHost:
    """A host whose store is in memory. `written` is called in the event loop after the store was used.

    It gets the names of the controllers that may be due.
    """

    away: type[Exception] = NeverAway

    def __init__(self, store: AgentStore, settings: Settings, written: Callable[[set[str]], None]) -> None:
        self.store = store
        self._settings = settings
        self._interpretation = Interpretation(INTERPRETERS, settings.members)
        self._loop = asyncio.get_running_loop()
        self._written = written

    def seen(self) -> None:
        """Return None, because reading a store in memory costs nothing."""

    def settings(self, *, reread: bool = False) -> Settings:
        """Return the settings of the environment. They do not change while the process runs."""
        return self._settings

    def interpret(self, questions: Sequence[Question]) -> bool:
        """Send questions to scripts and webhooks. Return whether the answer to one of them is known now."""
        return self._interpretation.interpret(questions)

    def keep(self, failure: Failure) -> None:
        """Log a decision that raised an exception."""
        ERRORS.labels(failure.controller).inc()
        log.error("controller %s failed for %s: %s\n%s", failure.controller, failure.ref, failure.error, failure.trace)

    def connected(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that uses the store, and return its result. Call this in the thread of the store.

        Afterwards `written` gets the controllers that may be due. A store in memory needs no connection.
        """
        try:
            return function(*arguments)
        finally:
            names, self.store.due_changed = self.store.due_changed, set()
            self._loop.call_soon_threadsafe(self._written, names)

    def cause(self, error: Exception) -> str:
        """Return the text of an error."""
        return str(error)

    def close(self) -> None:
        """End the processes that answer questions."""
        self._interpretation.close()


class Agent:
    """The agent of one cluster, in one event loop."""

    def __init__(self, options: Options, settings: Settings) -> None:
        self.options = options
        # The administrator of the cluster says where its API is, so every address may be called.
        self.settings = replace(settings, members=replace(settings.members, refused_addresses=()))
        self.status = ClusterStatus()
        controllers = [Probes(), Collection(), Execution(in_agent=True), WorkStatus()]
        self.disk = Disk(options.folder)
        self.store = AgentStore([self.status, *controllers], self.disk)
        self.host = MemoryHost(self.store, self.settings, self._written)
        # One thread, because a store in memory has no locks.
        self.core = Core(self.host, controllers, self.settings.members, threads=1)
        self.control_plane = ControlPlane(options.access, options.cluster, options.folder)
        in_thread = self.core.in_thread
        self.mirror = Mirror(self.store, self.control_plane, options.member(), in_thread=in_thread)
        self.reports = Reports(self.store, self.control_plane, in_thread=in_thread)
        self.ref = Ref(CLUSTER, "", options.cluster)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self.core.in_thread(self._begin)
            async with asyncio.TaskGroup() as tasks:
                self.core.start(tasks)
                tasks.create_task(self._judging())
                tasks.create_task(self._beating())
                tasks.create_task(self.reports.run())
                tasks.create_task(self.mirror.works())
                for key in RULES:
                    tasks.create_task(self.mirror.rules(key))
                tasks.create_task(self._renewing())
                tasks.create_task(self._reading_credentials())
        finally:
            await self.core.close()
            await self.control_plane.close()
            self.host.close()
            self.disk.close()

    def _begin(self) -> None:
        """Take over the Cluster that is on disk. The Works follow when the control plane has answered, or has not."""
        self.store.load(CLUSTER)
        self.mirror.credentials()
        self.mirror.use_rules()
        mark_due_at_start([self.status, *(pump.controller for pump in self.core.pumps.values())], self.store)

    def _written(self, names: set[str]) -> None:
        """Wake what has something to do after the store was used."""
        for name in names:
            if name in self.core.pumps:
                self.core.pumps[name].wake.set()
        if self.store.outgoing or self.store.released or self.store.events:
            self.reports.wake.set()

    async def _judging(self) -> None:
        """Decide about Ready and the collected facts of the cluster until cancelled."""
        while True:
            await self.core.in_thread(self._judge)
            await asyncio.sleep(JUDGE_SECONDS)

    def _judge(self) -> None:
        report = run_batch(self.status, self.store, self.settings, world=World(report=self.host.keep))
        RECONCILED.labels(self.status.name).inc(report.claimed)

    async def _beating(self) -> None:
        """Read the Cluster and renew its Lease until cancelled. Heartbeats begin when `Reports.beats`."""
        seconds = self.settings.cluster_lease_duration * self.settings.cluster_lease_renew_fraction
        away, other = False, ""
        while True:
            found = await self.control_plane.get(self.control_plane.cluster_path)
            if found.ok:
                await self.core.in_thread(self.mirror.cluster, found.body)
                before, other = other, differences(found.body["spec"], self.options.expected)
                if other not in ("", before):
                    log.warning("the Cluster differs from the arguments: %s", other)
            beats = await self.core.in_thread(self.reports.beats, self.ref)
            if beats and found.ok:
                found = await self.reports.renew_lease(self.settings.cluster_lease_duration)
            if found.ok == away:
                away = not found.ok
                what = (
                    f"is away, and the desired state that was read last stays in force: {found.problem}"
                    if away
                    else "answers again"
                )
                log.warning("the control plane %s", what)
            await asyncio.sleep(seconds if beats else min(seconds, 1.0))

    async def _renewing(self) -> None:
        """Renew the certificate before it expires, until cancelled. A token is renewed by its use."""
        while (valid := self.control_plane.access.valid) is not None:
            left = (renewal(valid, self.options.renew_at) - datetime.now(UTC)).total_seconds()
            if left > 0:
                await asyncio.sleep(min(left, LONGEST_SLEEP_SECONDS))
                continue
            try:
                await self._renew()
            except (NoCertificate, OSError) as error:
                log.error("the certificate is valid until %s and was not renewed: %s", valid[1], error)
            # Also after a success: if the clock is far ahead, the new certificate seems old as well.
            await asyncio.sleep(RENEW_AGAIN_SECONDS)

    async def _renew(self) -> None:
        """Get a new certificate, write it to disk, and log in with it."""
        lasts = self.options.lasts
        certificate, key = await certificate_for(self.control_plane, lasts=lasts, within=RENEWAL_WAIT)
        access = replace(self.control_plane.access, certificate=certificate, key=key)
        write(credentials_file(self.options.folder), access)
        self.control_plane.use(access)
        assert access.valid is not None, "it has a certificate"
        log.info("the certificate was renewed and is valid until %s", access.valid[1])

    async def _reading_credentials(self) -> None:
        """Read the credentials of the own cluster again and again."""
        while True:
            await asyncio.sleep(MEMBER_CREDENTIALS_SECONDS)
            try:
                access = self.options.member()
            except Unusable as error:
                log.warning("the credentials of the cluster cannot be read, and the last ones stay: %s", error)
                continue
            if access != self.mirror.member:
                self.mirror.member = access
                await self.core.in_thread(self.mirror.credentials)


async def serve(options: Options, settings: Settings) -> None:
    """Run the agent until SIGTERM or SIGINT."""
    running = asyncio.create_task(Agent(options, settings).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    log.info("agent: ready")
    try:
        await running
    except asyncio.CancelledError:
        log.info("agent: ended")

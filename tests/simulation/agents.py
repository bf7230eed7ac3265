"""Agents of Pull members in the simulator: the product's own store, mirror, reports and controllers under the virtual
clock.

An agent is a process in its member. It reads its Works from the control plane, applies them, renews its Lease and
reports, over a line that may be cut at any request. What it keeps on disk outlives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from apps.agent.control_plane import ControlPlane, Document
from apps.agent.credentials import Access
from apps.agent.disk import Disk
from apps.agent.mirror import Mirror
from apps.agent.reports import Reports
from apps.agent.store import AgentStore
from controlplane.admission.admit import STATUS, admit_create, admit_update
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, execution_namespace
from controlplane.clusters.questions import Answer
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.collection import Collection
from controlplane.controllers.execution import Execution
from controlplane.controllers.probes import Probes
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Put
from controlplane.engine.run import World, mark_due_at_start, run_batch
from controlplane.engine.state import Actor, Change
from controlplane.kind import decode, text_of
from controlplane.kinds import CLUSTER, KINDS, LEASE, WORK
from controlplane.kinds.work.rules import agent_work_faults
from controlplane.wire.patch import merge_patch
from tests.simulation.store import Killed

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

LATE = 0.2  # seconds after which an agent that starts has read its Cluster, where its Works come first
AGAIN = timedelta(seconds=1)  # after a report that did not arrive
LIMITS = (1, 3, 500, 500)  # how many objects an agent takes at once


def at_once(doing: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    try:
        doing.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that uses the store of an agent."""
    return function(*arguments)


class Cache(Disk):
    """What an agent keeps on disk."""

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        self.kept = dict(kept)

    def objects(self, kind: str) -> Iterator[Any]:
        for ref, document in sorted(self.kept.items()):
            if Ref.parse(ref).kind == kind:
                yield decode(KINDS[kind], document)

    def keep(self, ref: Ref, document: bytes) -> None:
        self.kept[str(ref)] = document

    def drop(self, ref: Ref) -> None:
        self.kept.pop(str(ref), None)

    def close(self) -> None:
        """Do nothing: it stays for the next process."""


class Line(ControlPlane):
    """The API of the simulated control plane as the agent of one cluster reaches it.

    `carries`: how many requests arrive before the line is cut; None: all. The answer to the last one is lost.
    """

    def __init__(self, world: Simulation, cluster: str) -> None:
        self.world = world
        self.cluster = cluster
        self.is_open = True
        self.carries: int | None = None
        self.works_listed: Callable[[list[Document]], Awaitable[None]]
        self.work_changed: Callable[[str, Document], Awaitable[None]]
        self.works_unread: Callable[[], Awaitable[None]]
        self.uid = ""
        self.register()

    def register(self) -> None:
        """Get a certificate for the present Cluster."""
        found = self._stored(Ref(CLUSTER, "", self.cluster))
        self.uid = "" if found is None else found.metadata.uid

    @property
    def admits(self) -> bool:
        """Whether the control plane is reached and accepts the certificate, which is of no earlier Cluster."""
        found = self._stored(Ref(CLUSTER, "", self.cluster))
        return self.is_open and (found is None or found.metadata.uid == self.uid)

    async def follow(
        self,
        path: str,
        listed: Callable[[list[Document]], Awaitable[None]],
        changed: Callable[[str, Document], Awaitable[None]],
        *,
        unread: Callable[[], Awaitable[None]],
        is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        """Note who is to learn of the Works: the process reads them when its turn comes."""
        assert path == self.works
        self.works_listed, self.work_changed, self.works_unread = listed, changed, unread

    async def _call(self, method: str, path: str, **options: Any) -> Answer:
        if not self.is_open:
            return Answer(0, problem="no route to host")
        if not self.admits:
            return Answer(401, problem="HTTP 401: Unauthorized")
        answer = self._answered(method, path, options.get("body"))
        if self.carries is not None:
            self.carries -= 1
            if self.carries <= 0:
                self.carries, self.is_open = None, False
                self.world.note(f"{self.cluster}: the line is cut in the middle of a request")
                return Answer(0, problem="connection reset by peer")
        return answer

    def _answered(self, method: str, path: str, body: Any) -> Answer:
        if path.startswith(self.events):
            return Answer(201, {"metadata": {}})
        if path == self.lease:
            return self._renewed(body)
        own = Ref(CLUSTER, "", self.cluster)
        if path.startswith(self.cluster_path):
            return self._found(own) if method == "GET" else self._changed(own, lambda old: body, STATUS)
        name, _, subresource = path.removeprefix(f"{self.works}/").partition("/")
        work = Ref(WORK, execution_namespace(self.cluster), name)
        return self._changed(work, lambda old: merge_patch(old, body), subresource)

    def _stored(self, ref: Ref) -> Any:
        return self.world.store.object(ref)

    def _found(self, ref: Ref) -> Answer:
        found = self._stored(ref)
        return Answer(404, problem="not found") if found is None else Answer(200, orjson.loads(text_of(found)))

    def _changed(self, ref: Ref, made: Callable[[Document], Document], subresource: str) -> Answer:
        """Write what a request makes of an object, by the rules of the API for agents."""
        old = self._stored(ref)
        if old is None:
            return Answer(404, problem="not found")
        now, settings = self.world.now, self.world.settings
        document = made(orjson.loads(text_of(old)))
        if document["metadata"].get("resourceVersion") not in (None, old.metadata.resource_version):
            return Answer(409, problem="the object has been modified")
        try:
            new = admit_update(
                KINDS[ref.kind], document, old, subresource=subresource, settings=settings, now=now
            ).object
        except StatusError as error:
            return Answer(error.code, problem=error.message)
        if isinstance(new, type(old)) and ref.kind == WORK and (faults := agent_work_faults(new, old)):  # type: ignore[arg-type]
            return Answer(422, problem=str(faults))
        return self._put(new, old)

    def _renewed(self, body: Document) -> Answer:
        """Create or renew the Lease."""
        now, settings, kind = self.world.now, self.world.settings, KINDS[LEASE]
        old = self._stored(Ref(LEASE, CLUSTER_NAMESPACE, self.cluster))
        if old is None:
            uid = f"uid-lease-{self.cluster}-{self.world.store.version}"
            new = admit_create(kind, body, namespace=CLUSTER_NAMESPACE, settings=settings, now=now, uid=uid).object
        else:
            document = merge_patch(orjson.loads(text_of(old)), body)
            new = admit_update(kind, document, old, settings=settings, now=now).object
        return self._put(new, old)

    def _put(self, new: Object, old: Object | None) -> Answer:
        by = Actor(f"agent of {self.cluster}")
        lost = self.world.store.apply([(None, Decision(changes=(Put(new, old),)))], by=by)[0].lost
        return Answer(409, problem=lost) if lost else Answer(200, {"metadata": {}})


class Process:
    """One run of the program of an agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.world, self.line = agent, agent.world, agent.line
        self.controllers: list[Controller] = [
            ClusterStatus(),
            Probes(),
            Collection(),
            Execution(in_agent=True),
            WorkStatus(),
        ]
        self.store = AgentStore(self.controllers, agent.cache)
        self.store.clock = lambda: self.world.now + agent.skew
        access = Access(f"https://{agent.name}.example:6443")
        self.mirror = Mirror(self.store, self.line, access, in_thread=in_thread)
        self.reports = Reports(self.store, self.line, in_thread=in_thread)
        self.ref = Ref(CLUSTER, "", agent.name)
        self._listed = False
        self._read_up_to = 0
        self._losses = self.world.losses
        self._sends_at = self.world.now
        self._failed = False  # a report did not arrive
        self.store.load(CLUSTER)
        self.mirror.credentials()
        mark_due_at_start(self.controllers, self.store)
        at_once(self.mirror.works())
        if not self._hears:
            at_once(self.line.works_unread())

    @property
    def runs(self) -> bool:
        """Whether this run has not ended."""
        return self.agent.process is self

    def listens_again(self) -> None:
        """Read all Works again: the watch broke."""
        self._listed = False

    def beat(self) -> None:
        """Read the Cluster and renew the Lease, now and again and again."""
        if not self.runs:
            return
        settings = self.world.settings
        self.world.after(settings.cluster_lease_duration * settings.cluster_lease_renew_fraction, self.beat)
        found = at_once(self.line.get(self.line.cluster_path))
        if found.ok:
            self.mirror.cluster(found.body)
            if self.reports.beats(self.ref):
                at_once(self.reports.renew_lease(settings.cluster_lease_duration))

    def turns(self) -> list[Callable[[], int]]:
        """Return what this process has to do now. Each returns 0 if there is nothing to do any more."""
        found: list[Callable[[], int]] = [partial(self._turn, one) for one in self.controllers if self._is_due(one)]
        if self._hears:
            found.append(self._read)
        if self._sends:
            found.append(self._send)
        return found

    def moments(self) -> list[datetime]:
        """Return when this process has something to do next."""
        due = self.store.next_due([one.name for one in self.controllers])
        moments = [] if due is None else [due - self.agent.skew]
        if self.line.admits and self._outgoing:
            moments.append(self._sends_at)
        if self.agent.behind_until > self.world.now:
            moments.append(self.agent.behind_until)
        return moments

    def _is_due(self, controller: Controller) -> bool:
        due = self.store.next_due([controller.name])
        return due is not None and due <= self.store.now()

    def _turn(self, controller: Controller) -> int:
        if not self.runs:
            return 0
        limit = self.world.chance.choice(LIMITS)
        outside = World(self._answer, self.world.failures.append)
        try:
            return run_batch(controller, self.store, self.world.settings, world=outside, limit=limit).claimed
        except Killed:
            self.agent.dies()
            return 1

    def _answer(self, questions: Any) -> Any:
        return [None if one is None else self.world.ask_member(one) for one in questions]

    # What it reads

    @property
    def _hears(self) -> bool:
        if not self.line.admits or self.world.now < self.agent.behind_until:
            return False
        return not self._listed or self._losses != self.world.losses or self._read_up_to < len(self.world.store.log)

    def _read(self) -> int:
        """Read the Works: all, or those that have changed since."""
        if not self.runs or not self._hears:
            return 0
        if self._losses != self.world.losses:
            self._losses, self._listed = self.world.losses, False
        fresh = self.world.store.log[self._read_up_to :] if self._listed else []
        self._read_up_to = len(self.world.store.log)
        namespace = execution_namespace(self.agent.name)
        if not self._listed:
            self._listed = True
            works = self.world.store.list(WORK, namespace=namespace)
            at_once(self.line.works_listed([orjson.loads(text_of(work)) for work in works]))
            self.world.seen_again(self.agent.name)  # the kinds of these Works are watched from now
            return 1
        own = [one for one in fresh if one.ref.kind == WORK and one.ref.namespace == namespace]
        for change in self._sent(own):
            at_once(self.line.work_changed(change.type, orjson.loads(change.document)))
        return len(own)

    def _sent(self, changes: list[Change]) -> list[Change]:
        """Return what the watch sends of changes: each, or the last of each object where the reader was slow."""
        if self.world.chance.random() < 0.5:
            return changes
        last = {change.ref: change for change in changes}
        return [change for change in changes if last[change.ref] is change]

    # What it reports

    @property
    def _outgoing(self) -> bool:
        return self._failed or bool(self.store.outgoing or self.store.released or self.store.events)

    @property
    def _sends(self) -> bool:
        return self._outgoing and self.line.admits and self.world.now >= self._sends_at

    def _send(self) -> int:
        if not self.runs or not self._sends:
            return 0
        self.reports.retry()
        self._failed = not asyncio.run(self.reports._send())
        if self._failed:
            self._sends_at = self.world.now + AGAIN
        return 1


class Agent:
    """The agent of one cluster, with what outlives its process.

    `behind_until`: until when it reads no Works, while its heartbeats arrive. `skew`: by how much its clock is ahead.
    """

    def __init__(self, world: Simulation, name: str, kept: Mapping[str, bytes] | None = None) -> None:
        self.world = world
        self.name = name
        self.cache = Cache(kept or {})
        self.line = Line(world, name)
        self.behind_until = world.now
        self.skew = timedelta(0)
        self.process: Process | None = None
        self.start()

    @property
    def is_away(self) -> bool:
        """Whether the control plane cannot know by this agent how its member is."""
        return self.process is None or not self.line.admits

    def start(self) -> None:
        """Start the program, instead of the one that runs."""
        self.process = Process(self)
        self.world.seen_again(self.name)
        self.world.after(self.world.chance.choice((0.0, LATE)), self.process.beat)

    def stop(self) -> None:
        """End the program, at whatever point."""
        self.process = None

    def dies(self) -> None:
        """End the program, which is started again after some seconds."""
        self.world.note(f"{self.name}: the agent dies")
        self.stop()
        self.world.after(self.world.chance.uniform(0.5, 4), self.starts)

    def starts(self) -> None:
        """Start the program if it does not run."""
        if self.process is None:
            self.start()

    def cut(self) -> None:
        """Cut the line to the control plane."""
        self.line.is_open = False

    def mend(self) -> None:
        """Let the line be there again: the watch begins again."""
        self.line.is_open, self.line.carries = True, None
        self.listens_again()

    def listens_again(self) -> None:
        """Let the watch on the Works begin again, if the program runs."""
        if self.process is not None:
            self.process.listens_again()

    def turns(self) -> list[Callable[[], int]]:
        """Return what the program has to do now."""
        return [] if self.process is None else self.process.turns()

    def moments(self) -> list[datetime]:
        """Return when the program has something to do next."""
        return [] if self.process is None else self.process.moments()

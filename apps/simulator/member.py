"""A simulated member cluster: its objects, its controllers, and its API on a port of its own."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from apps.simulator import nodes
from apps.simulator.catalogue import Catalogue
from apps.simulator.faults import Fault, Trouble
from apps.simulator.listener import HOST, Listener
from apps.simulator.objects import Objects, Writer, stamp
from apps.simulator.request_log import RequestLog
from apps.simulator.rest import Rest
from apps.simulator.server import Server
from apps.simulator.store import Store
from apps.simulator.tls import Contexts
from apps.simulator.workloads import Workloads
from controlplane.apimachinery.errors import BadRequest, NotFound

log = logging.getLogger("simulator")

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM = Writer("kube-apiserver")


class MemberConfig(msgspec.Struct, frozen=True):
    """The configuration of a member. port 0: a free port. `ready_after` and `bookmark_every` are seconds."""

    name: str
    token: str
    port: int = 0
    ready_after: float = 1.0
    bookmark_every: float = 30.0
    shape: nodes.NodeShape = nodes.NodeShape()


class Member:
    """A member cluster. `trouble` is its present fault."""

    def __init__(self, config: MemberConfig, *, tls: Contexts | None = None) -> None:
        self.config = config
        self.store = Store()
        self.objects = Objects(self.store, Catalogue())
        self.requests = RequestLog()
        self.trouble = Trouble()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.workloads = Workloads(
            self.objects,
            ready_after=config.ready_after,
            clock=asyncio.get_running_loop().time,
            wake=self._woken.set,
        )
        rest = Rest(self.objects, tokens={config.token})
        self.server = Server(rest, self.requests, bookmark_every=config.bookmark_every)
        self._tls = tls
        self.listener = Listener(self.server.http, port=config.port)
        self.url = f"{'https' if tls else 'http'}://{HOST}:{self.listener.port}"

    @property
    def name(self) -> str:
        """Return the name of the member."""
        return self.config.name

    async def start(self) -> None:
        """Create namespaces and nodes, and start to serve."""
        for name in _NAMESPACES:
            self._create("Namespace", {"metadata": {"name": name}})
        for number in range(1, self.config.shape.count + 1):
            made = nodes.node(f"{self.name}-node-{number}", self.config.shape, now=stamp())
            self._create("Node", made)
        self._task = asyncio.create_task(self._live(), name=f"workloads of {self.name}")
        await self._open()

    async def stop(self) -> None:
        """Stop serving. The objects are not kept."""
        self.server.release()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.listener.stop()

    async def set_fault(self, trouble: Trouble) -> None:
        """Start a fault, which replaces the present fault; Fault.NONE ends it. The port keeps its number.

        Raises BadRequest for an expired certificate if the member serves plain HTTP.
        """
        if trouble.fault is Fault.EXPIRED and self._tls is None:
            raise BadRequest(f"{self.name} serves plain HTTP without a certificate; start it with --tls")
        self.trouble = trouble
        self.server.set_fault(trouble)
        self.workloads.freeze(trouble.fault is Fault.NOT_READY)
        if trouble.fault is Fault.DOWN:
            self.listener.close()
        else:
            await self._open()

    async def _open(self) -> None:
        tls = self._tls
        expired = self.trouble.fault is Fault.EXPIRED
        await self.listener.open(tls=None if tls is None else tls.expired if expired else tls.good)

    def set_node(self, name: str, *, is_ready: bool) -> None:
        """Set the Ready condition of a node. Raises NotFound."""
        stored = self.store.get("Node", "", name)
        if stored is None:
            raise NotFound.of("nodes", name)
        resource = self.objects.catalogue.by_key("Node")
        others = [condition for condition in stored.document["status"]["conditions"] if condition["type"] != "Ready"]
        conditions = [*others, nodes.ready_condition(is_ready, now=stamp())]
        self.objects.set_status(resource, stored, {**stored.document["status"], "conditions": conditions})

    def _create(self, kind: str, document: nodes.Document) -> None:
        resource = self.objects.catalogue.by_key(kind)
        stored = self.objects.create(resource, document, _SYSTEM)
        if "status" in document:
            self.objects.set_status(resource, stored, document["status"])

    async def _live(self) -> None:
        while True:
            self._woken.clear()
            try:
                wait = self.workloads.run()
            except Exception:  # a member with stopped controllers would mislead every test
                log.exception("the controllers of %s failed", self.name)
                wait = 0.1
            if wait == 0.0:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                continue

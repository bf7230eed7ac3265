"""Members with faults to order, and the core of the members process in front of them, over real HTTP in one event loop.

Each member is reached through a gate of its own, which passes requests on to a simulated member or answers them itself.
The store is the one of an agent, so that no database is needed. A member is joined as a Push or as a Pull cluster.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import orjson
from aiohttp import web
from msgspec.structs import replace

from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access
from apps.agent.disk import Disk
from apps.agent.mirror import Mirror
from apps.agent.process import MemoryHost
from apps.agent.store import AgentStore
from apps.members.core import Core
from apps.simulator.member import Member
from apps.simulator.members import Fleet
from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.clusters.questions import Probe
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.execution import Execution
from controlplane.controllers.probes import Probes, ProbeSnapshot
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.run import World, run_batch
from controlplane.kind import decode
from controlplane.kinds import CLUSTER, KINDS, WORK
from controlplane.settings import MemberSettings, Settings

Document = dict[str, Any]

WITHIN = 30.0
QUICK = Settings(
    cluster_status_update_frequency=0.5,
    cluster_success_threshold=0,
    cluster_failure_threshold=0,
    members=MemberSettings(refused_addresses=(), compare_seconds=3600),
)
ACROSS = ("Content-Type", "Accept", "Accept-Encoding")


class PatientProbes(Probes):
    """Waits so long for an answer that a slow machine makes no member not Ready."""

    def question(self, snapshot: ProbeSnapshot, settings: Settings, *, now: datetime) -> Probe | None:
        asked = super().question(snapshot, settings, now=now)
        return asked and replace(asked, seconds=WITHIN)


class Refusal(NamedTuple):
    """What a gate answers to requests that write. `code` 0: it closes the connection. `under`: below this path only.

    `page`: it answers as a proxy that has lost the member, with a page and not with a Status.
    """

    code: int
    words: str
    every: bool = False  # requests that read get it as well
    under: str = "/"
    page: bool = False


class Gate:
    """Stands between the core and a simulated member."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.refusal: Refusal | None = None
        self.writes = 0
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        self._streams: set[asyncio.Task[Any]] = set()
        self.url = ""

    async def open(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        self.cut()
        await self._session.close()
        await self._runner.cleanup()

    def cut(self) -> None:
        """End all open watches."""
        for stream in self._streams:
            stream.cancel()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        writes = request.method != "GET"
        self.writes += writes and "dryRun" not in request.query
        refusal = self.refusal
        if refusal is not None and (writes or refusal.every) and request.path.startswith(refusal.under):
            if not refusal.code:
                assert request.transport is not None
                request.transport.close()
                raise web.HTTPServiceUnavailable
            if refusal.page:
                return web.Response(text=refusal.words, status=refusal.code, content_type="text/html")
            body = {"kind": "Status", "status": "Failure", "message": refusal.words, "code": refusal.code}
            return web.json_response(body, status=refusal.code)
        headers = {name: request.headers[name] for name in ACROSS if name in request.headers}
        headers["Authorization"] = f"Bearer {self.member.config.token}"
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            async with self._session.request(
                request.method, self.member.url + request.path_qs, data=await request.read(), headers=headers
            ) as found:
                response = web.StreamResponse(status=found.status, headers={"Content-Type": found.content_type})
                if encoding := found.headers.get("Content-Encoding"):
                    response.headers["Content-Encoding"] = encoding
                with suppress(ConnectionError):  # the core has ended the watch
                    await response.prepare(request)
                    async for chunk in found.content.iter_any():
                        await response.write(chunk)
                    await response.write_eof()
                return response
        finally:
            self._streams.discard(task)


class Site:
    """The core, its store and its gates. All methods run in its event loop (`run`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = QUICK
        self.gates: dict[str, Gate] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._open())
        return self

    def __exit__(self, *exception: object) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the event loop of the site and return its result."""
        return self.begin(doing).result(4 * WITHIN)

    def begin(self, doing: Coroutine[Any, Any, Any]) -> Any:
        """Start a coroutine in the event loop of the site and return its future."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop)

    async def _open(self) -> None:
        self.fleet = await self._stack.enter_async_context(Fleet(members=("real", "backup"), ready_after=0.0))
        self.safe = await self._stack.enter_async_context(Fleet(members=("tls",), ready_after=0.0, tls=True))
        self.status = ClusterStatus()
        controllers = [PatientProbes(), Execution(in_agent=True), WorkStatus()]
        self.disk = Disk(self.folder)
        self.store = AgentStore([self.status, *controllers], self.disk)
        self.host = MemoryHost(self.store, self.settings, self._wake)
        self.core = Core(self.host, controllers, self.settings.members, threads=1)
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.core.start(tasks)
            tasks.create_task(self._judging())

    async def _judging(self) -> None:
        while True:
            await self.core.in_thread(self._judge)
            await asyncio.sleep(0.1)

    def _judge(self) -> None:
        run_batch(self.status, self.store, self.settings, world=World(report=self.host.keep))

    def _wake(self, names: set[str]) -> None:
        for name in names:
            if name in self.core.pumps:
                self.core.pumps[name].wake.set()

    async def _close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.core.close()
        for gate in self.gates.values():
            await gate.close()
        await self._stack.aclose()
        self.host.close()
        self.disk.close()

    async def join(self, name: str, *, mode: str, member: Member | None = None) -> Gate:
        """Join a member in a mode. Returns its gate when the cluster is Ready. `member`: called without a gate."""
        gate = self.gates[name] = Gate(self.fleet["real"])
        await gate.open()
        url, token, authority = gate.url, "any", ""
        if member is not None:
            url, token, authority = member.url, member.config.token, self.safe.authority.decode()
        control_plane = ControlPlane(Access("http://127.0.0.1:1"), name, self.folder)
        mirror = Mirror(self.store, control_plane, Access(url, authority, token=token), in_thread=self.core.in_thread)
        spec = {"syncMode": "Pull"}
        if mode == "Push":
            secret = {"namespace": "karmada-cluster", "name": name}
            spec |= {"syncMode": "Push", "apiEndpoint": url, "secretRef": secret}  # type: ignore[dict-item]
        document = {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "spec": spec}
        await self.core.in_thread(mirror.credentials)
        if mode == "Pull":
            await self.core.in_thread(mirror.cluster, document)
        else:
            head = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
            await self.core.in_thread(self.store.mirror, decoded(CLUSTER, {**head, **document}))
        await self.until(lambda: self.get(Ref(CLUSTER, "", name)).ready == "True")
        return gate

    async def want(self, cluster: str, manifest: Document, *, generation: int = 1, **annotations: str) -> Ref:
        """Store a Work for a manifest, as the control plane writes it."""
        metadata, namespace = manifest["metadata"], f"karmada-es-{cluster}"
        name = metadata["name"]
        marks = {"work.karmada.io/namespace": namespace, "work.karmada.io/name": name}
        full = {**manifest, "metadata": {**metadata, "labels": {"karmada.io/managed": "true"}, "annotations": marks}}
        document = {
            "apiVersion": "work.karmada.io/v1alpha1",
            "kind": "Work",
            "metadata": {
                **{"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": generation},
                **{"finalizers": [WORK_FINALIZER], "annotations": annotations},
            },
            "spec": {"workload": {"manifests": [full]}},
        }
        work = decoded(WORK, document)
        await self.core.in_thread(self.store.mirror, work)
        ref: Ref = work.ref
        return ref

    async def remove(self, ref: Ref) -> None:
        """Begin the deletion of a Work."""
        work = self.get(ref)
        now = self.store.now().replace(microsecond=0)
        generation = work.metadata.generation + 1
        gone = replace(work, metadata=replace(work.metadata, deletion_timestamp=now, generation=generation))
        await self.core.in_thread(self.store.mirror, gone)

    def get(self, ref: Ref) -> Any:
        return self.store.objects.get(ref)

    def said(self, ref: Ref, type_: str = "Applied") -> Condition:
        """Return a condition of a Work; one without a status if it has none."""
        work = self.get(ref)
        found = None if work is None else condition(work.status.conditions, type_)
        return found or Condition(type_, "")

    def events(self, ref: Ref) -> list[tuple[str, str]]:
        """Return reason and message of the Events about a Work."""
        stored = tuple(self.store.events)  # a thread may add to them meanwhile
        about = [event for event in stored if event.involved_object.name == ref.name]
        return [(event.reason, event.message) for event in about]

    async def until(self, holds: Callable[[], Any], *, within: float = WITHIN) -> Any:
        """Return what `holds` returns as soon as it is true. Raises AssertionError if that takes too long."""
        end = self._loop.time() + within
        while not (found := holds()):
            assert self._loop.time() < end, f"not within {within:g} s: {inspect.getsource(holds).strip()}"
            await asyncio.sleep(0.02)
        return found

    async def ask(self, member: Member, method: str, path: str, body: Any = None) -> Any:
        """Ask a member itself, as its own users do; None: it has no such object."""
        headers = {"Authorization": f"Bearer {member.config.token}"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, member.url + path, json=body, headers=headers, ssl=False) as answer,
        ):
            return None if answer.status == 404 else await answer.json()


def decoded(key: str, document: Document) -> Any:
    """Return the object of a document."""
    return decode(KINDS[key], orjson.dumps(document))

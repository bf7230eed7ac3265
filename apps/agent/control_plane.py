"""Requests of an agent to the API of its control plane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from apps.agent.credentials import Access
from apps.clusters.client import Expired, Listed, MemberClient
from apps.clusters.releasing import MERGE
from apps.clusters.response_reader import TooMuch
from apps.worker.clock import monotonic_seconds, pause_since
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, execution_namespace
from controlplane.clusters.questions import Answer
from controlplane.settings import MemberSettings

log = logging.getLogger(__name__)

REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0  # between two tries while the control plane is away
AGAIN_SECONDS = 60.0  # between two lists while the control plane cannot read every object
_NAME: Final = "the control plane"

Document = dict[str, Any]


async def _nothing() -> None:
    """Do nothing."""


class ControlPlane:
    """The API of the control plane, as the agent of one cluster uses it. To be used in one event loop."""

    def __init__(self, access: Access, cluster: str, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        # An administrator wrote the address of the control plane, so every address may be called.
        self._client = MemberClient(MemberSettings(refused_addresses=()))
        self.access = access
        self.target = access.target(_NAME, folder)

    @property
    def works(self) -> str:
        """The path of the Works of the cluster."""
        return f"/apis/work.karmada.io/v1alpha1/namespaces/{execution_namespace(self.cluster)}/works"

    @property
    def cluster_path(self) -> str:
        """The path of the Cluster of this agent."""
        return f"/apis/cluster.karmada.io/v1alpha1/clusters/{self.cluster}"

    @property
    def lease(self) -> str:
        """The path of the Lease that is the heartbeat of the cluster."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{CLUSTER_NAMESPACE}/leases/{self.cluster}"

    @property
    def events(self) -> str:
        """The path of the Events about Works of the cluster."""
        return f"/api/v1/namespaces/{execution_namespace(self.cluster)}/events"

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def use(self, access: Access) -> None:
        """Log in with other credentials from now on."""
        self.access, self.target = access, access.target(_NAME, self.folder)

    async def get(self, path: str) -> Answer:
        return await self._call("GET", path)

    async def post(self, path: str, body: Document) -> Answer:
        return await self._call("POST", path, body=body)

    async def put(self, path: str, body: Document) -> Answer:
        return await self._call("PUT", path, body=body)

    async def patch(self, path: str, body: Document, *, content_type: str = MERGE, **query: str) -> Answer:
        return await self._call("PATCH", path, params=query or None, body=body, content_type=content_type)

    async def _call(self, method: str, path: str, **options: Any) -> Answer:
        """Return the answer to a request. A success without an object is a failure, such as the page of a proxy."""
        answer = await self._client.call(self.target, method, path, **options)
        if answer.ok and not (isinstance(answer.body, dict) and isinstance(answer.body.get("metadata"), dict)):
            return Answer(0, problem=f"{method} {path}: the answer is not an object of Kubernetes")
        return answer

    async def follow(
        self,
        path: str,
        listed: Callable[[list[Document]], Awaitable[None]],
        changed: Callable[[str, Document], Awaitable[None]],
        *,
        unread: Callable[[], Awaitable[None]] = _nothing,
        is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        """Call `listed` with all objects at a path, then `changed` with each change, until cancelled.

        `unread` is called when the objects cannot be listed. `is_whole`: whether the control plane could read all
        objects. If not, they are listed again every AGAIN_SECONDS, because no change is sent when it can read them
        again.

        While the control plane is away, nothing else is called: what was read last stays. Two lists, and two watches,
        begin at least PAUSE_SECONDS apart: a proxy before the control plane may end every watch at once.
        """
        pause, away = PAUSE_SECONDS, False
        while True:
            began = monotonic_seconds()
            found: Listed[Document] = await self._client.list(self.target, path)
            if isinstance(found, Answer):
                if not away:
                    log.warning("%s cannot be read, and what was read last stays: %s", path, found.problem)
                    await unread()
                away = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if away:
                log.warning("%s is read again", path)
            pause, away = PAUSE_SECONDS, False
            items, version = found
            await listed(items)
            await self._changes(path, version, changed, is_whole)
            await pause_since(began, seconds=PAUSE_SECONDS)

    async def _changes(
        self,
        path: str,
        since: str,
        changed: Callable[[str, Document], Awaitable[None]],
        is_whole: Callable[[], bool],
    ) -> None:
        """Call `changed` with each change. Returns when everything has to be listed again."""
        while True:
            began = monotonic_seconds()
            try:
                async with asyncio.timeout(None if is_whole() else AGAIN_SECONDS) as limit:
                    async for type_, item in self._client.watch(self.target, path, since=since, selector=""):
                        if type_ != "BOOKMARK":
                            await changed(type_, item)
                        since = str(item["metadata"].get("resourceVersion", since))
                await pause_since(began, seconds=PAUSE_SECONDS)
            except Expired:
                return
            except (aiohttp.ClientError, OSError, TimeoutError, TooMuch, ValueError) as error:
                if limit.expired():
                    return
                log.info("the watch of %s broke and starts again: %s", path, error)
                await asyncio.sleep(PAUSE_SECONDS)
                return

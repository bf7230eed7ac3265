"""A simulated member with a client for it, for tests over real HTTP."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import aiohttp
import orjson

from apps.simulator.member import Member
from apps.simulator.members import Fleet

Document = dict[str, Any]
PATIENCE = 60.0  # seconds until a test gives up; none waits that long when all is well

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Reply(NamedTuple):
    """A response that was read."""

    status: int
    body: Any
    headers: Any


class Cluster:
    """One member of a fleet and a client session to it."""

    def __init__(self, fleet: Fleet, member: Member, session: aiohttp.ClientSession) -> None:
        self.fleet = fleet
        self.member = member
        self.session = session

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "*/*",
        timeout: float = PATIENCE,
    ) -> Reply:
        """Send a request and return the answer, decoded where it is JSON."""
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        headers = {"Content-Type": kind, "Accept": accept}
        limit = aiohttp.ClientTimeout(total=timeout)
        async with self.session.request(
            method, self.member.url + path, data=data, headers=headers, timeout=limit
        ) as response:
            raw = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Reply(response.status, orjson.loads(raw) if is_json else raw.decode(), response.headers)

    async def get(self, path: str, **more: Any) -> Any:
        """Return the document at a path, which has to be there."""
        reply = await self.ask("GET", path, **more)
        assert reply.status == 200, reply
        return reply.body

    async def make(self, path: str, document: Document) -> Any:
        """Create an object, which has to work."""
        reply = await self.ask("POST", path, document)
        assert reply.status == 201, reply
        return reply.body

    async def apply(self, path: str, document: Document, *, manager: str = "alice", force: bool = False) -> Reply:
        """Apply an object server-side."""
        query = f"?fieldManager={manager}&force={str(force).lower()}"
        return await self.ask("PATCH", path + query, document, kind=APPLY)

    async def watch(self, path: str, **more: Any) -> AsyncIterator[Document]:
        """Yield the events of a watch until it ends; `path` carries the query."""
        headers = {"Accept": more.get("accept", "application/json")}
        limit = aiohttp.ClientTimeout(total=PATIENCE)
        async with self.session.get(self.member.url + path, headers=headers, timeout=limit) as response:
            async for line in response.content:
                yield orjson.loads(line)

    async def until(self, path: str, holds: Callable[[Document], bool], *, name: str = "") -> Document:
        """Return the first state of an object in this list for which something holds."""
        query = f"?watch=true&fieldSelector=metadata.name={name}" if name else "?watch=true"
        async with aclosing(self.watch(path + query)) as events:
            async for event in events:
                if event["type"] != "DELETED" and holds(event["object"]):
                    return event["object"]
        raise AssertionError(f"{path} {name}: it never came to hold")

    async def gone(self, path: str, name: str) -> None:
        """Return as soon as an object is gone."""
        listed = await self.get(f"{path}?fieldSelector=metadata.name={name}")
        if not listed["items"]:
            return
        version = listed["metadata"]["resourceVersion"]
        query = f"?watch=true&resourceVersion={version}&fieldSelector=metadata.name={name}"
        async with aclosing(self.watch(path + query)) as events:
            async for event in events:
                if event["type"] == "DELETED":
                    return
        raise AssertionError(f"{path} {name}: it never went")


def simulated(**options: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run an async test with a Cluster (the first member of a fleet with these options) as its first argument."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        async def within(**parameters: Any) -> None:
            chosen = {"members": ("member1",), "ready_after": 0.0, **options}
            async with Fleet(**chosen) as fleet:
                member = next(iter(fleet.members.values()))
                headers = {"Authorization": f"Bearer {member.config.token}", "User-Agent": "tester/1.0"}
                async with aiohttp.ClientSession(headers=headers) as session:
                    await test(Cluster(fleet, member, session), **parameters)

        @functools.wraps(test)
        def run(**parameters: Any) -> None:
            asyncio.run(within(**parameters))

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
        return run

    return decorate


def configmap(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Document:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


def workload(kind: str, name: str = "web", *, image: str = "web:1", cpu: str = "0", **spec: Any) -> Document:
    """Return a workload of one container."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    template: Document = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    made: Document = {"template": template, **spec}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        made["selector"] = {"matchLabels": {"app": name}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": made}


def names(listed: Document) -> list[str]:
    """Return the names in a list."""
    return [item["metadata"]["name"] for item in listed["items"]]

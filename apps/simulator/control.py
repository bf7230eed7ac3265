"""The control API of the simulator: start faults, change running members, read their request logs.

GET    /members                          all members: name, url, fault, readyAfter, objects by kind
GET    /members/<name>                   one member
PUT    /members/<name>/fault             {"fault": "slow", "seconds": 5}
PUT    /members/<name>/settings          {"readyAfter": 0.5}
PUT    /members/<name>/nodes/<node>      {"ready": false}
GET    /members/<name>/requests?after=N  the request log; DELETE clears it
POST   /members/<name>/trim              delete the watch history; older resourceVersions get 410
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from apps.simulator.faults import Fault, Trouble
from apps.simulator.member import Member
from controlplane.apimachinery.errors import BadRequest, NotFound, StatusError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(members: Mapping[str, Member]) -> web.Application:
    """Return the control application for these members."""
    control = _Control(members)
    app = web.Application(middlewares=[_errors])
    app.add_routes(
        [
            web.get("/members", control.list),
            web.get("/members/{name}", control.show),
            web.put("/members/{name}/fault", control.fault),
            web.put("/members/{name}/settings", control.settings),
            web.put("/members/{name}/nodes/{node}", control.node),
            web.get("/members/{name}/requests", control.requests),
            web.delete("/members/{name}/requests", control.clear),
            web.post("/members/{name}/trim", control.trim),
        ]
    )
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except StatusError as error:
        return _json({"message": error.message}, status=error.code)


class _Control:
    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members

    async def list(self, request: web.Request) -> web.Response:
        return _json({"members": [_shown(member) for member in self._members.values()]})

    async def show(self, request: web.Request) -> web.Response:
        return _json(_shown(self._member(request)))

    async def fault(self, request: web.Request) -> web.Response:
        member, asked = self._member(request), await _body(request)
        words = ", ".join(Fault)
        if asked.get("fault") not in list(Fault):
            raise BadRequest(f"fault {asked.get('fault')!r} is not one of {words}")
        seconds = _seconds(asked, "seconds", 5.0)
        await member.set_fault(Trouble(Fault(asked["fault"]), seconds))
        return _json(_shown(member))

    async def settings(self, request: web.Request) -> web.Response:
        member, asked = self._member(request), await _body(request)
        member.workloads.set_ready_after(_seconds(asked, "readyAfter", member.workloads.ready_after))
        return _json(_shown(member))

    async def node(self, request: web.Request) -> web.Response:
        member, asked = self._member(request), await _body(request)
        if not isinstance(asked.get("ready"), bool):
            raise BadRequest("ready must be true or false")
        member.set_node(request.match_info["node"], is_ready=asked["ready"])
        return _json(_shown(member))

    async def requests(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isdigit():
            raise BadRequest(f"after={after!r} is not the number of a request")
        return _json({"requests": self._member(request).requests.entries(after=int(after))})

    async def clear(self, request: web.Request) -> web.Response:
        member = self._member(request)
        member.requests.clear()
        return _json(_shown(member))

    async def trim(self, request: web.Request) -> web.Response:
        member = self._member(request)
        member.store.trim()
        return _json(_shown(member))

    def _member(self, request: web.Request) -> Member:
        name = request.match_info["name"]
        if name not in self._members:
            raise NotFound(f"there is no member {name!r}, there are {', '.join(self._members)}")
        return self._members[name]


def _seconds(asked: dict[str, Any], field: str, default: float) -> float:
    value = asked.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 86_400:
        raise BadRequest(f"{field} {value!r} is not a number of seconds")
    return float(value)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        asked = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        asked = None
    if not isinstance(asked, dict):
        raise BadRequest("the body must be a JSON object")
    return asked


def _shown(member: Member) -> dict[str, Any]:
    store = member.store
    return {
        "name": member.name,
        "url": member.url,
        "fault": member.trouble.fault,
        "seconds": member.trouble.seconds,
        "readyAfter": member.workloads.ready_after,
        "resourceVersion": str(store.version),
        "objects": {kind: store.count(kind) for kind in sorted(store.kinds())},
    }


def _json(document: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")

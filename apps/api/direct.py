"""The direct way: one stored object as JSON is read, or created, and answered on the event loop, without a thread.

Only what needs no waiting is decided here: a token that was checked in the last second, by roles that were read in the
last second. Requests that arrive while a statement runs share the next statement. Every other request goes the lean or
the full way. So does a request that is refused here, or whose object is not found: errors are made in one place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from time import perf_counter
from typing import Any, Final, NamedTuple

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from apps.api import agents, lean
from apps.api.direct_creations import DirectCreations
from apps.api.direct_knowledge import Knowledge
from apps.api.direct_requests import Place, apart, headers_of, headers_of_json, is_gone, is_json, place_of, send
from apps.api.fairness import Rates, client_of
from apps.api.outgoing import SLICE
from apps.api.request_metrics import measure
from apps.api.views import ObjectView
from apps.objects import access, audit, tracing
from apps.objects.point_reads import PointReads
from controlplane.authorization.attributes import Request as AccessRequest
from controlplane.authorization.audit_policy import NONE
from controlplane.wire.request import parse_path

GROUP: Final = 100  # reads in one statement
LONG_QUERY: Final = 1000  # bytes; a longer query may have more parameters than Django allows
OK: Final = 200

Start = Callable[[], None]


class WaitingRead(NamedTuple):
    """A request that waits for its object. `go_on` starts the lean or full way instead."""

    cycle: RequestResponseCycle
    place: Place
    name: tuple[str, str, str]
    trail: audit.Trail
    token: str
    client: str
    began: float
    go_on: Start


class Direct:
    """The direct way of one process. Only its event loop may use it.

    `executor` runs what blocks. `per_client`: requests with one token that may wait; more go the lean way, where
    clients take turns. `rates`: a client that sends more is refused there too.
    """

    def __init__(self, executor: Executor, *, per_client: int, rates: Rates) -> None:
        self._per_client = per_client
        self._rates = rates
        self._knowledge = Knowledge(executor)
        self._reads = PointReads()
        self.creations = DirectCreations(self._knowledge, per_client=per_client, rates=rates)
        self._waiting: deque[WaitingRead] = deque()
        self._counts: dict[str, int] = {}
        self._is_scheduled = False

    def close(self) -> None:
        """End the sessions. Requests go the lean way from now on."""
        self._reads.end()
        self.creations.close()

    def waits_for_body(self, cycle: RequestResponseCycle) -> bool:
        """Test whether a request is taken when its body has arrived."""
        return cycle.scope["method"] == "POST" and not cycle.waiting_for_100_continue

    def take(self, cycle: RequestResponseCycle, go_on: Start) -> bool:
        """Answer a request later and return True; False: it has to go another way, and nothing has been done."""
        scope: Any = cycle.scope
        if cycle.waiting_for_100_continue or tracing.is_on():
            return False
        if scope["method"] == "POST":
            return self.creations.take(cycle, go_on)
        if scope["method"] != "GET":
            return False
        if (found := _asked(scope)) is None:
            return False
        place, name, subresource, token = found
        checked = self._knowledge.checked(token)
        if checked is None or not self._knowledge.knows_roles() or not self._knowledge.is_ready(self._reads):
            return False
        request = AccessRequest(
            "get", place.kind.resource.group, place.kind.resource.plural, subresource, name[1], name[2], scope["path"]
        )
        user = checked.credential.user
        caller = access.caller_of(user)
        if agents.cluster_of(user) or not access.authorize_as_known(caller, request).allowed:
            return False
        if audit.policy().level(caller, request) != NONE:
            return False
        client = client_of(user.get_username())
        if self._counts.get(token, 0) >= self._per_client or not self._rates.allows(client):
            return False
        self._counts[token] = self._counts.get(token, 0) + 1
        trail = audit.Trail(method="GET", path=scope["path"])
        self._waiting.append(WaitingRead(cycle, place, name, trail, token, client, perf_counter(), go_on))
        self._schedule()
        return True

    # Groups

    def _schedule(self) -> None:
        """Begin a statement when the event loop has taken all requests that have arrived by now."""
        if self._waiting and self._reads.is_free and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        table = self._waiting[0].place.table
        group: list[WaitingRead] = []
        others: deque[WaitingRead] = deque()
        while self._waiting and len(group) < GROUP:
            one = self._waiting.popleft()
            (group if one.place.table == table else others).append(one)
        self._waiting.extendleft(reversed(others))
        if self._reads.is_open:
            self._reads.start(table, [one.name for one in group], lambda found: self._end(group, found))
        else:
            self._end(group, None)

    def _end(self, group: list[WaitingRead], found: list[bytes | None] | None) -> None:
        """Answer a group. A request without an object goes on, and so do all if the statement failed."""
        for place, one in enumerate(group):
            self._counts[one.token] -= 1
            if not self._counts[one.token]:
                del self._counts[one.token]
            with apart(one.cycle):
                self._settle(one, None if found is None else found[place])
        self._schedule()

    def _settle(self, one: WaitingRead, text: bytes | None) -> None:
        """Answer a request with its object, or let it go on. None: there is no object."""
        if is_gone(one.cycle):
            return
        if text is None or len(text) > SLICE or one.cycle.flow.write_paused or not text.startswith(one.place.begin):
            one.go_on()
        else:
            self._rates.spend(one.client)
            _answer(one, text)


def _asked(scope: Any) -> tuple[Place, tuple[str, str, str], str, str] | None:
    """Return place, (kind, namespace, name), subresource and the header Authorization; None: another way."""
    given = headers_of(scope["headers"])
    if (
        given is None
        or given.get(b"content-length", b"0") != b"0"
        or not (token := given.get(b"authorization", b"").decode("latin-1"))
    ):
        return None
    query = scope["query_string"]
    if len(query) > LONG_QUERY:
        return None
    if query and (b"watch" in query or b"format" in query or b"%" in query):  # % may hide the name of a parameter
        return None
    if not lean.is_allowed_host(given.get(b"host", b"").decode("latin-1")):
        return None
    if not is_json(given.get(b"accept", b"*/*")):
        return None
    path = parse_path(scope["path"][1:].split("/"))
    if path is None or not path.name or path.subresource not in ("", "status"):
        return None
    place = place_of(path.group, path.version, path.plural, path.subresource)
    if place is None or not path.fits(place.kind.resource):
        return None
    ref = place.kind.ref(path.namespace, path.name)
    return place, (ref.kind, ref.namespace, ref.name), path.subresource, token


def _answer(one: WaitingRead, text: bytes) -> None:
    """Send an object, as uvicorn and the lean way would."""
    cycle = one.cycle
    always = headers_of_json(one.place.allow, cycle.scope["scheme"])
    send(cycle, OK, b"%b%d\r\naudit-id: %b\r\n" % (always, len(text), one.trail.audit_id.encode()), text)
    measure(ObjectView, "GET", OK, perf_counter() - one.began)
    cycle.on_response()

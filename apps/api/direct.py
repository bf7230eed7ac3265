"""The direct way: one stored object as JSON is read and answered on the event loop, without a thread.

Only what needs no waiting is decided here: a token that was checked in the last second, by roles that were read in the
last second, for a request that is not recorded. What arrives while a statement is under way goes into the next one
together. Every other request goes the lean or the full way, and so does a request that is refused here or whose object
is not found. So errors have one place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, NamedTuple

import psycopg
from django.conf import settings
from django.db import Error, close_old_connections
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from apps.api import agents, lean, renderers
from apps.api.bearer import credential_of
from apps.api.outgoing import SLICE
from apps.api.remembered import REMEMBERED, VALID_SECONDS, Checked
from apps.api.request_metrics import measure
from apps.api.target import Target
from apps.api.views import ObjectView
from apps.objects import access, audit, encryption, refreshed, tracing
from apps.objects.point_reads import PointReads
from apps.objects.tables import object_table
from controlplane.authorization.attributes import Request as AccessRequest
from controlplane.authorization.audit_policy import NONE
from controlplane.kind import KINDS, Kind
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.wire.request import parse_path

GROUP: Final = 100  # reads in one statement
REOPEN_SECONDS: Final = 1.0
OK: Final = 200
_OWN_WAY: Final = (b"cookie", b"kubectl-command", b"transfer-encoding", b"expect", b"upgrade")  # headers
_IMPERSONATION: Final = b"impersonate-"
_FORWARDED: Final = b"x-forwarded-proto"
_COUNTING: Final = frozenset((b"authorization", b"host", b"accept"))

Start = Callable[[], None]


class Place(NamedTuple):
    """What the URLs of one resource have in common: the kind, its table, and the header Allow."""

    kind: Kind
    table: str
    allow: bytes
    begin: bytes  # of a document in the served version


class Waiting(NamedTuple):
    """A request that waits for its object. `go_on` starts the lean or full way instead."""

    cycle: RequestResponseCycle
    place: Place
    name: tuple[str, str, str]
    trail: audit.Trail
    token: str
    began: float
    go_on: Start


class Direct:
    """The direct way of one process. Only its event loop may use it.

    `executor` runs what blocks. `per_client`: requests with one token that may wait; more go the lean way, where
    clients take turns.
    """

    def __init__(self, executor: Executor, *, per_client: int) -> None:
        self._executor = executor
        self._per_client = per_client
        self._reads = PointReads()
        self._waiting: deque[Waiting] = deque()
        self._counts: dict[str, int] = {}
        self._opened_at = -REOPEN_SECONDS
        self._renewing: set[str] = set()
        self._is_scheduled = False
        self._is_closed = False

    def close(self) -> None:
        """End the session. Requests go the lean way from now on."""
        self._is_closed = True
        self._reads.close()

    def take(self, cycle: RequestResponseCycle, go_on: Start) -> bool:
        """Answer a request later and return True; False: it has to go another way, and nothing has been done."""
        scope: Any = cycle.scope
        if scope["method"] != "GET" or cycle.waiting_for_100_continue or tracing.is_on():
            return False
        if (found := _asked(scope)) is None:
            return False
        place, name, subresource, token = found
        checked = self._checked(token)
        if checked is None or not self._is_policy_known() or not self._is_ready():
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
        if self._counts.get(token, 0) >= self._per_client:
            return False
        self._counts[token] = self._counts.get(token, 0) + 1
        trail = audit.Trail(method="GET", path=scope["path"])
        self._waiting.append(Waiting(cycle, place, name, trail, token, perf_counter(), go_on))
        self._schedule()
        return True

    # What a request needs, renewed in a thread before it is too old

    def _checked(self, token: str) -> Checked | None:
        """Return the check of a token, which is less than a second old; None: it has to be checked first."""
        checked = REMEMBERED.find(token, within=VALID_SECONDS)
        if checked is not None and not REMEMBERED.is_fresh(checked):
            self._renew(token, lambda: REMEMBERED.check(token, lambda: _credential(token)))
        return checked

    def _is_policy_known(self) -> bool:
        age = access.access().age
        if age >= refreshed.FRESH_SECONDS:
            self._renew("", access.access().policy)
        return age < VALID_SECONDS

    def _is_ready(self) -> bool:
        """Test whether objects can be read. If not, a session is opened in a thread, at most once a second."""
        if self._reads.is_open:
            return True
        now = perf_counter()
        if not self._is_closed and now - self._opened_at >= REOPEN_SECONDS:
            self._opened_at = now
            self._renew("session", self._reads.connect, then=self._open)
        return False

    def _open(self, made: psycopg.Connection[Any]) -> None:
        if self._is_closed or self._reads.is_open:
            made.close()
        else:
            self._reads.open(made)

    def _renew(self, what: str, call: Callable[[], Any], *, then: Callable[[Any], None] | None = None) -> None:
        """Call a function in a thread, unless it is called already. Its errors are those of the next lean request."""
        if what in self._renewing:
            return
        self._renewing.add(what)
        future = asyncio.get_running_loop().run_in_executor(self._executor, _quietly, call)

        def done(future: asyncio.Future[Any]) -> None:
            self._renewing.discard(what)
            if then is not None and not future.cancelled() and future.result() is not None:
                then(future.result())

        future.add_done_callback(done)

    # Groups

    def _schedule(self) -> None:
        """Begin a statement when the event loop has taken all requests that have arrived by now."""
        if self._waiting and self._reads.is_free and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        table = self._waiting[0].place.table
        group: list[Waiting] = []
        others: deque[Waiting] = deque()
        while self._waiting and len(group) < GROUP:
            one = self._waiting.popleft()
            (group if one.place.table == table else others).append(one)
        self._waiting.extendleft(reversed(others))
        if self._reads.is_open:
            self._reads.start(table, [one.name for one in group], lambda found: self._end(group, found))
        else:
            self._end(group, None)

    def _end(self, group: list[Waiting], found: list[bytes | None] | None) -> None:
        """Answer a group. A request without an object goes on, and so do all if the statement failed."""
        for place, one in enumerate(group):
            self._counts[one.token] -= 1
            if not self._counts[one.token]:
                del self._counts[one.token]
            if one.cycle.disconnected:
                continue
            text = None if found is None else found[place]
            if text is None or len(text) > SLICE or one.cycle.flow.write_paused or not text.startswith(one.place.begin):
                one.go_on()
            else:
                _send(one, text)
        self._schedule()


def _quietly(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Error, psycopg.Error):
        return None
    finally:
        close_old_connections()


def _credential(header: str) -> Any:
    return credential_of(header.partition(" ")[2].strip(), None)  # type: ignore[arg-type]  # no bootstrap token


def _asked(scope: Any) -> tuple[Place, tuple[str, str, str], str, str] | None:
    """Return place, (kind, namespace, name), subresource and the header Authorization; None: another way."""
    given = _headers(scope["headers"])
    if given is None or not (token := given.get(b"authorization", b"").decode("latin-1")):
        return None
    query = scope["query_string"]
    if query and (b"watch" in query or b"format" in query or b"%" in query):  # % may hide the name of a parameter
        return None
    if not lean.is_allowed_host(given.get(b"host", b"").decode("latin-1")):
        return None
    if not _is_json(given.get(b"accept", b"*/*")):
        return None
    path = parse_path(scope["path"][1:].split("/"))
    if path is None or not path.name or path.subresource not in ("", "status"):
        return None
    place = place_of(path.group, path.version, path.plural, path.subresource)
    if place is None or not path.fits(place.kind.resource):
        return None
    ref = place.kind.ref(path.namespace, path.name)
    return place, (ref.kind, ref.namespace, ref.name), path.subresource, token


def _headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that count here; None: there are others that count, or the same twice, or a body."""
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _COUNTING:
            if name in given:
                return None
            given[name] = value
        elif (
            name in _OWN_WAY
            or name.startswith(_IMPERSONATION)
            or (name == b"content-length" and value != b"0")
            or (name == _FORWARDED and settings.SECURE_HSTS_SECONDS)
        ):
            return None
    return given


@lru_cache(maxsize=lean.MOST_KEPT)
def _is_json(accept: bytes) -> bool:
    return type(lean.renderer_of(accept.decode("latin-1"))) is renderers.JSONRenderer


_PLACES: Final[dict[tuple[str, ...], Place | None]] = {}


def place_of(*parts: str) -> Place | None:
    """Return the place of a group, version, plural and subresource; None: its objects are read another way."""
    if parts in _PLACES:
        return _PLACES[parts]
    kind = KINDS.served(*parts[:3])
    if kind is None or KINDS.is_custom(kind):
        return None  # custom kinds come and go
    place = None
    resource, subresource = kind.resource, parts[3]
    if _is_plain(kind) and (not subresource or subresource in resource.subresources):
        view = ObjectView()
        view.target = Target(kind, "namespace", "name", subresource)
        allow = ", ".join(view.allowed_methods).encode()
        begin = b'{"apiVersion":"%b"' % resource.api_version.encode() if kind.converts else b"{"
        place = Place(kind, object_table(kind.key).name, allow, begin)
    _PLACES[parts] = place
    return place


def _is_plain(kind: Kind) -> bool:
    """Test whether stored documents of a kind are served as they are, by the view for stored objects."""
    if kind.key in encryption.KINDS or kind.key == FAILOVER_CONFIGURATION:
        return False
    resource = kind.resource
    space = "/namespaces/a" if resource.namespaced else ""
    group = f"apis/{resource.group}" if resource.group else "api"
    return lean.is_served(f"/{group}/{resource.version}{space}/{resource.plural}/a")


def _send(one: Waiting, text: bytes) -> None:
    """Send an answer, as uvicorn and the lean way would."""
    cycle = one.cycle
    head = [STATUS_LINE[OK]]
    for name, value in cycle.default_headers:
        head += (name, b": ", value, b"\r\n")
    head += (_always(one.place.allow, cycle.scope["scheme"]), str(len(text)).encode(), b"\r\naudit-id: ")
    head += (one.trail.audit_id.encode(), b"\r\n" if cycle.keep_alive else b"\r\nconnection: close\r\n", b"\r\n", text)
    cycle.transport.write(b"".join(head))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    measure(ObjectView, "GET", OK, perf_counter() - one.began)
    cycle.on_response()


@lru_cache(maxsize=lean.MOST_KEPT)
def _always(allow: bytes, scheme: str) -> bytes:
    """Return the headers of all answers, up to the length of the body."""
    headers = [(b"content-type", b"application/json"), (b"allow", allow), *lean.headers_of_every_answer(scheme)]
    return b"".join(b"%b: %b\r\n" % header for header in headers) + b"content-length: "

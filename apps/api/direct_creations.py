"""The direct way of creations: admitted, stored in groups and answered on the event loop, without a thread.

A creation is decided by the same functions as on the lean way, with a store that refuses to be asked. So whatever needs
the database goes the lean way, and so does every creation that is refused or meets an object of its name. Errors have
one place, and both ways store the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from time import perf_counter
from typing import Any, Final, NamedTuple

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from apps.api import agents, auditing, bodies, lean
from apps.api.callers import CALLER
from apps.api.direct_knowledge import Knowledge
from apps.api.direct_requests import (
    Place,
    address_of,
    apart,
    headers_of,
    headers_of_json,
    is_gone,
    is_json,
    lines_of,
    place_of,
    send,
)
from apps.api.fairness import Rates, client_of
from apps.api.incoming import SMALL, environ_of
from apps.api.query import writing_of
from apps.api.remembered import HOLDERS
from apps.api.request_metrics import measure
from apps.api.target import Target
from apps.api.views import ObjectView
from apps.api.writing import PlannedRequest, RequestWriter
from apps.objects import access, audit, change_log
from apps.objects.apply import extend_log
from apps.objects.loop_creations import CreatedObjects, LoopCreations, is_creation
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.attributes import Request as AccessRequest
from controlplane.authorization.escalation import CHECKS
from controlplane.engine.state import Actor
from controlplane.kind import Kind
from controlplane.kinds import DEFINITION
from controlplane.kinds.template import LEASE, Template, admission_kinds, signing_request
from controlplane.kinds.template.node_port_index import SERVICE
from controlplane.wire.request import parse_path
from controlplane.wire.warnings import warning_values

GROUP: Final = 50  # creations in one statement
CREATED: Final = 201
PATIENCE_SECONDS: Final = 1.0  # while a statement takes longer, for example because the lock is held, threads wait
# Their admission asks the database, or what is known of them has to be renewed after a write.
_OTHERS: Final = frozenset((SERVICE, LEASE, DEFINITION, signing_request.KEY, *admission_kinds.KEYS, *CHECKS))
_OTHER_WAY: Final = frozenset(("format", "watch", "dryRun", "reason"))  # query parameters

Start = Callable[[], None]


class NeedsDatabase(Exception):
    """A decision cannot be made without the database."""


class _NoStore:
    """A store that refuses to be asked."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsDatabase(name)


_NO_STORE: Final[Any] = _NoStore()


class Asked(NamedTuple):
    """A creation that a client asks for. `user_agent`, `content_type`: as the client sent them."""

    place: Place
    target: Target
    query: Mapping[str, str]
    token: str
    user_agent: str
    content_type: str
    address: str  # of the client


class WaitingCreation(NamedTuple):
    """A creation that is decided. `go_on` starts the lean or full way instead."""

    cycle: RequestResponseCycle
    asked: Asked
    by: Actor
    trail: audit.Trail
    writer: RequestWriter
    plan: PlannedRequest
    ref: Ref
    version: int  # of the namespace
    now: datetime
    began: float
    go_on: Start


class DirectCreations:
    """The creations of one process. Only its event loop may use it.

    `per_client`: creations with one token that may wait; more go the lean way, where clients take turns. `rates`: a
    client that sends more is refused there too.
    """

    def __init__(self, knowledge: Knowledge, *, per_client: int, rates: Rates) -> None:
        self._knowledge = knowledge
        self._rates = rates
        self._per_client = per_client
        self._session = LoopCreations(store().router, seconds=settings.DATABASE_STATEMENT_SECONDS)
        self._waiting: deque[WaitingCreation] = deque()
        self._counts: dict[str, int] = {}
        self._is_scheduled = False

    def close(self) -> None:
        """End the session. Creations go the lean way from now on."""
        self._session.end()

    def take(self, cycle: RequestResponseCycle, go_on: Start) -> bool:
        """Answer a creation later and return True; False: it has to go another way, and nothing has been done."""
        began = perf_counter()
        if cycle.more_body or len(cycle.body) > SMALL or (asked := _asked(cycle.scope)) is None:
            return False
        known = self._knowledge
        if (checked := known.checked(asked.token)) is None:
            return False
        are_known = known.knows_roles(), known.needs_no_review(), known.is_ready(self._session)
        in_force, now, version = known.settings(), known.now(), known.namespace(asked.target.namespace)
        if not all(are_known) or in_force is None or now is None or version is None:
            return False
        if self._counts.get(asked.token, 0) >= self._per_client or self._session.busy_seconds > PATIENCE_SECONDS:
            return False
        user = checked.credential.user
        if not self._rates.allows(client_of(user.get_username())):
            return False
        trail = _trail(cycle.scope, asked)
        audit.begin(trail)
        try:
            body = bodies.decode(asked.content_type, bytes(cycle.body))
            if not _is_allowed(asked, user, bodies.name_of(body), trail, cycle.scope["path"]):
                return False
            writing = writing_of(asked.query, user_agent=asked.user_agent)
            writer = RequestWriter(_NO_STORE, in_force, asked.target, writing, user=user, now=now)
            plan = writer.plan(body)
        except Exception:  # noqa: BLE001  # the lean way answers with the error
            return False
        finally:
            audit.begin(None)
        decision = plan.plan.decision
        if not is_creation(decision):
            return False
        self._counts[asked.token] = self._counts.get(asked.token, 0) + 1
        ref, by = plan.plan.ref, Actor(user.get_username())
        self._waiting.append(WaitingCreation(cycle, asked, by, trail, writer, plan, ref, version, now, began, go_on))
        self._schedule()
        return True

    # Groups

    def _schedule(self) -> None:
        """Begin a statement when the event loop has taken all creations that have arrived by now."""
        if self._waiting and self._session.is_free and not self._is_scheduled:
            self._is_scheduled = True
            self._knowledge.soon(self._begin)

    def _begin(self) -> None:
        """Write what waits: all of one author, without two objects of one name."""
        self._is_scheduled = False
        group: dict[Ref, WaitingCreation] = {}
        others: deque[WaitingCreation] = deque()
        by = self._waiting[0].by
        while self._waiting and len(group) < GROUP:
            one = self._waiting.popleft()
            if one.by == by and one.ref not in group:
                group[one.ref] = one
            else:
                others.append(one)
        self._waiting.extendleft(reversed(others))
        members = list(group.values())
        if not self._session.is_alive():
            self._end(members, None)
            return
        try:
            self._session.start(
                [one.plan.plan.decision for one in members],
                by=by,
                now=members[0].now,
                namespaces={one.ref.namespace: one.version for one in members},
                done=lambda found: self._end(members, found),
            )
        except Exception:  # noqa: BLE001  # a value that cannot be packed: the lean way names it
            self._end(members, None)

    def _end(self, group: list[WaitingCreation], found: CreatedObjects | Exception | None) -> None:
        """Answer a group. If nothing was written because of one of them, each goes on by itself."""
        if isinstance(found, CreatedObjects):
            self._knowledge.note_time(found.at)
            if not change_log.has_room(found.newest):
                newest = found.newest
                self._knowledge.renew("log", lambda: extend_log(newest))
        else:
            self._knowledge.forget_namespaces()
        for place, one in enumerate(group):
            if found is None:
                self._leave(one)
                continue
            self._count_down(one)
            self._rates.spend(client_of(one.by.name))
            with apart(one.cycle):
                _settle(one, found, place)
        while isinstance(found, Exception) and self._waiting:
            self._leave(self._waiting.popleft())
        self._schedule()

    def _leave(self, one: WaitingCreation) -> None:
        """Let a creation go another way, because the database fails or something of its group has changed."""
        self._count_down(one)
        with apart(one.cycle):
            if not is_gone(one.cycle):
                one.go_on()

    def _count_down(self, one: WaitingCreation) -> None:
        token = one.asked.token
        self._counts[token] -= 1
        if not self._counts[token]:
            del self._counts[token]


def _settle(one: WaitingCreation, found: CreatedObjects | Exception, place: int) -> None:
    """Answer a creation with its object, or with an error: that of the database, or that of making the answer."""
    if isinstance(found, Exception):
        _refuse(one, found)
        return
    try:
        _answer(one, found, place)
    except Exception as error:
        if one.cycle.response_started:
            raise
        _refuse(one, error)


def _answer(one: WaitingCreation, created: CreatedObjects, place: int) -> None:
    """Send the object that was created, as uvicorn and the lean way would."""
    audit.begin(one.trail)
    try:
        written = one.writer.planned(one.plan, created.outcomes[place])
    finally:
        audit.begin(None)
    always = headers_of_json(one.asked.place.allow, one.cycle.scope["scheme"])
    headers = b"%b%d\r\naudit-id: %b\r\n" % (always, len(written.text), one.trail.audit_id.encode())
    if written.warnings:
        headers += lines_of([(b"warning", ", ".join(warning_values(written.warnings)).encode("latin-1"))])
    _finish(one, CREATED, headers, written.text)


def _refuse(one: WaitingCreation, error: Exception) -> None:
    """Answer with an error of the database, as the lean way does. Whether the object is stored may be unknown."""
    scope: Any = one.cycle.scope
    environ = environ_of(scope, bytes(one.cycle.body))
    environ[CALLER] = one.by.name
    request = lean.LeanRequest(environ, one.asked.query, lean.json_renderer())
    reply = lean.refused(request, ((b"allow", one.asked.place.allow),), error, one.trail)
    _finish(one, reply.status, lines_of(reply.headers), reply.body)


def _finish(one: WaitingCreation, status: int, headers: bytes, body: bytes) -> None:
    is_there = not is_gone(one.cycle)
    if is_there:
        send(one.cycle, status, headers, body)
    measure(ObjectView, "POST", status, perf_counter() - one.began)
    if is_there:
        one.cycle.on_response()


def _is_allowed(asked: Asked, user: Any, name: str, trail: audit.Trail, path: str) -> bool:
    """Test whether a user may create an object, by the roles as they were last read, and note which rule decided."""
    if agents.cluster_of(user):
        return False
    caller, resource = access.caller_of(user), asked.target.resource
    trail.caller = caller
    for named in ("", name):  # a role may name objects
        request = AccessRequest("create", resource.group, resource.plural, "", asked.target.namespace, named, path)
        decision = access.authorize_as_known(caller, request)
        if not decision.allowed:
            return False
        if not trail.decision:
            trail.attempted(request, allowed=True, reason=decision.reason)
    return True


def _trail(scope: Any, asked: Asked) -> audit.Trail:
    trail = auditing.trail_of(
        {
            "REQUEST_METHOD": scope["method"],
            "PATH_INFO": scope["path"],
            "QUERY_STRING": scope["query_string"].decode("latin-1"),
            "REMOTE_ADDR": asked.address,
            "HTTP_USER_AGENT": asked.user_agent,
        }
    )
    trail.knows_rules = True  # `Knowledge.needs_no_review`
    return trail


def _asked(scope: Any) -> Asked | None:
    """Return what a client asks for; None: it goes another way."""
    given = headers_of(scope["headers"])
    if given is None or not scope["path"].isascii():
        return None
    text = {name: value.decode("latin-1") for name, value in given.items()}
    token = text.get(b"authorization", "")
    if not token or not lean.is_allowed_host(text.get(b"host", "")) or not is_json(given.get(b"accept", b"*/*")):
        return None
    path = parse_path(scope["path"][1:].split("/"))
    if path is None or path.name or not path.namespace or path.subresource:
        return None
    place = place_of(path.group, path.version, path.plural, name="")
    if place is None or not path.fits(place.kind.resource) or not _is_decided_alone(place.kind):
        return None
    query = lean.query_of(scope["query_string"].decode("latin-1"))
    if query is None or b"%00" in scope["query_string"] or not _OTHER_WAY.isdisjoint(query):
        return None
    target = Target(place.kind, path.namespace)
    agent, content_type = text.get(b"user-agent", ""), text.get(b"content-type", "")
    return Asked(place, target, query, token, agent, content_type, address_of(scope, given))


def _is_decided_alone(kind: Kind) -> bool:
    """Test whether a new object of a kind is admitted by its document alone, without reading stored objects."""
    is_plain = kind.type is Template and kind.resource.namespaced and not kind.converts
    return is_plain and kind.key not in _OTHERS and kind.resource.plural not in HOLDERS

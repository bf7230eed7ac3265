"""Audit: which requests are recorded, and the rows that record writes in the transaction of the write [audit-events].

`Trail` is what is known of the request that a thread works on. A middleware begins and ends it. The writer asks it for
a row for every decision that it stores. A request that stored nothing, but was refused, is recorded by `audit_queue`.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import orjson
import yaml
from django.conf import settings
from msgspec.structs import replace

from apps.objects.encryption import KINDS as WITH_SECRETS
from controlplane.apimachinery.meta import Object
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.audit_event import Answered, Sent, event
from controlplane.authorization.audit_policy import (
    DEFAULT,
    FORBIDDEN,
    METADATA,
    NONE,
    REQUEST,
    REQUEST_RESPONSE,
    AuditPolicy,
    PolicyInvalid,
    is_refusal,
    policy_of,
)
from controlplane.engine.decision import Decision, Delete, Put, Save
from controlplane.engine.state import Outcome
from controlplane.kind import KINDS, text_of
from controlplane.kinds.rows import AuditEvent

log: Final = logging.getLogger("lifeboat.audit")  # its lines are the events as JSON; see config.settings

DIGEST_BEFORE, DIGEST_AFTER = "failover.lifeboat.io/digest-before", "failover.lifeboat.io/digest-after"
CHANGE_REASON: Final = "failover.lifeboat.io/reason"
LEFT_OUT: Final = "failover.lifeboat.io/left-out"
LONGEST_KEY: Final = 512  # code points of a name in a row: a longer one does not fit into an index of PostgreSQL
LARGEST_OBJECT: Final = 64 * 1024  # bytes of an object in an event; a larger one is replaced by its size
# The server writes them; a deletion changes the last two only.
_UNDIGESTED: Final = ("resourceVersion", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Trail:
    """What is known of the request that is being answered. One thread uses it."""

    def __init__(
        self, *, method: str = "", uri: str = "", path: str = "", source: str = "", user_agent: str = ""
    ) -> None:
        self.audit_id = str(uuid4())
        self.began = time.monotonic()
        self.uri = uri
        self.source = source
        self.user_agent = user_agent
        self.caller: Caller | None = None
        self.impersonated: Caller | None = None
        self.request = Request(_VERBS.get(method, method.lower()), path=path)
        self.api_version = ""
        self.decision = ""
        self.reason = ""
        self.rows = 0  # rows that were made; a row of a decision that lost is not stored
        self.notes: dict[str, str] = {}  # annotations of admission policies and webhooks
        self.knows_rules = False  # the admission policies and webhooks of users were brought up to date
        self.outcome: Answered | None = None  # of a page that refuses with the status 200
        self.stored = False  # a write of this request was stored, and its row with it

    def attempted(self, request: Request, *, allowed: bool, reason: str) -> None:
        """Note what the request attempts, and which rule decided."""
        self.request, self.api_version = request, _version_in(request.path)
        self.decision, self.reason = "allow" if allowed else "forbid", reason

    def level(self, request: Request, code: int) -> str:
        """Return how much is recorded. A refusal is recorded with metadata at least."""
        level = policy().level(self.impersonated or self._caller(), request)
        return METADATA if level == NONE and is_refusal(request, code) else level

    def finished(self, answered: Answered, *, now: datetime, annotations: dict[str, str] | None = None) -> AuditEvent:
        """Return the row of the whole request, which stored nothing."""
        level = self.level(self.request, answered.code)
        if self.decision and answered.code == FORBIDDEN:  # a later question, for example about a name in the body
            self.decision = "forbid"
        return self._row(self.request, answered, level=level, now=now, annotations=annotations or {})

    def written(self, change: Put | Delete, *, user: str, reason: str, now: datetime) -> AuditEvent | None:
        """Return the row to store with a change; None: the policy records none. `user`: of a command without a login.

        `reason`: the entry of the change log, for example the rule of an action and the words of its author.
        """
        if self.caller is None:
            self.caller = Caller(user)
        old, new = (change.old, None) if isinstance(change, Delete) else (change.old, change.new)
        about: Object = new or old  # type: ignore[assignment]  # a change has one of them at least
        request = self._about(about, _verb(old, new))
        answered = Answered(201 if old is None else 200)
        level = self.level(request, answered.code)
        if level == NONE:
            return None
        notes = {CHANGE_REASON: reason} if reason else {}
        notes |= {name: digest(obj) for name, obj in ((DIGEST_BEFORE, old), (DIGEST_AFTER, new)) if obj is not None}
        return self._row(request, answered, level=level, now=now, annotations=notes, body=new)

    def _about(self, obj: Object, verb: str) -> Request:
        """Return what the request attempts with one object. The verb of the API counts, for example `patch`."""
        resource = KINDS[obj.ref.kind].resource
        if self.request.resource == resource.plural and self.request.api_group == resource.group:
            return replace(self.request, namespace=obj.ref.namespace, name=obj.ref.name)
        self.api_version = resource.version
        return Request(verb, resource.group, resource.plural, "", obj.ref.namespace, obj.ref.name)

    def _caller(self) -> Caller:
        return self.caller or Caller("system:anonymous", ("system:unauthenticated",))

    def _row(
        self,
        request: Request,
        answered: Answered,
        *,
        level: str,
        now: datetime,
        annotations: dict[str, str],
        body: Object | None = None,
    ) -> AuditEvent:
        sent = Sent(
            self.audit_id,
            self._caller(),
            request,
            now - timedelta(seconds=time.monotonic() - self.began),
            api_version=self.api_version,
            impersonated=self.impersonated,
            uri=self.uri,
            source=self.source,
            user_agent=self.user_agent,
            decision=self.decision,
            reason=self.reason,
        )
        shown = _body(body) if body is not None and level in (REQUEST, REQUEST_RESPONSE) else None
        document = event(
            sent,
            answered,
            level=level,
            now=now,
            annotations={**annotations, **self.notes},
            request_object=shown,
            response_object=shown if level == REQUEST_RESPONSE else None,
        )
        self.rows += 1
        return AuditEvent(
            self.audit_id if self.rows == 1 else f"{self.audit_id}.{self.rows}",
            at=now,
            username=sent.caller.name[:LONGEST_KEY],
            acted_as=sent.impersonated.name if sent.impersonated else "",
            verb=request.verb,
            api_group=request.api_group,
            resource=request.qualified_resource,
            namespace=request.namespace,
            name=request.name[:LONGEST_KEY],
            path=request.path[:1024],
            code=answered.code,
            decision=sent.decision,
            reason=(answered.message or annotations.get(CHANGE_REASON) or sent.reason)[:1024],
            source=sent.source,
            document=orjson.dumps(document).decode(),
            unsent=bool(settings.AUDIT_WEBHOOK),
        )


_current: ContextVar[Trail | None] = ContextVar("audit_trail", default=None)


def begin(trail: Trail | None) -> None:
    """Make a trail that of the present thread; None: its request has ended."""
    _current.set(trail)


def current() -> Trail:
    """Return the trail of the present request. Work without a request, for example a command, has one of its own."""
    return _current.get() or Trail(user_agent=Path(sys.argv[0]).name)


def requested() -> Trail | None:
    """Return the trail of the present request; None: this thread answers no request."""
    return _current.get()


def saves(trail: Trail, change: Put | Delete, *, user: str, reason: str, now: datetime) -> tuple[Save, ...]:
    """Return what to store with a change, so that both are stored or neither is."""
    row = trail.written(change, user=user, reason=reason, now=now)
    return () if row is None else (Save(row),)


def _version_in(path: str) -> str:
    """Return the version in the path of a resource: /apis/apps/v1/deployments → v1; "": the path names none."""
    parts = [*path.strip("/").split("/"), "", ""]
    return {"api": parts[1], "apis": parts[2]}.get(parts[0], "")


def note_stored(trail: Trail, decisions: Sequence[Decision], outcomes: Sequence[Outcome]) -> None:
    """Note that decisions were stored, and write their events to the log."""
    for decision, outcome in zip(decisions, outcomes, strict=True):
        if outcome.lost:
            continue
        trail.stored = True
        for change in decision.changes:
            if isinstance(change, Save) and isinstance(change.row, AuditEvent):
                emit(change.row)


def _verb(old: Object | None, new: Object | None) -> str:
    if old is None:
        return "create"
    ends = new is None or (new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp)
    return "delete" if ends else "update"


def digest(obj: Object) -> str:
    """Return the SHA-256 of an object's document with sorted keys, without metadata that the server writes.

    The digest of an object which may hold secrets is keyed with LIFEBOAT_SECRET_KEY. So values cannot be guessed.
    """
    document = orjson.loads(text_of(obj))
    for field in _UNDIGESTED:
        document["metadata"].pop(field, None)
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    if obj.ref.kind not in WITH_SECRETS:
        return f"sha256:{hashlib.sha256(text).hexdigest()}"
    return f"hmac-sha256:{hmac.new(settings.SECRET_KEY.encode(), text, hashlib.sha256).hexdigest()}"


def _body(obj: Object) -> Any:
    """Return the object for an event. Secrets are left out, and so is an object that is too large."""
    if obj.ref.kind in WITH_SECRETS:
        return {"left-out": "the object may hold secrets"}
    text = text_of(obj)
    if len(text) > LARGEST_OBJECT:
        return {"left-out": f"the object has {len(text)} bytes, the limit is {LARGEST_OBJECT}"}
    return orjson.loads(text)


@lru_cache(maxsize=1)
def policy() -> AuditPolicy:
    """Return the policy of LIFEBOAT_AUDIT_POLICY, or the default. Raises SystemExit for a file that is no policy."""
    name = settings.AUDIT_POLICY
    if not name:
        return DEFAULT
    try:
        return policy_of(yaml.safe_load(Path(name).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, PolicyInvalid) as error:
        raise SystemExit(f"LIFEBOAT_AUDIT_POLICY={name}: {error}") from error


def emit(row: AuditEvent) -> None:
    """Write an event to the log of audit events, if there is one (LIFEBOAT_AUDIT_FILE)."""
    if log.handlers:
        log.info("%s", row.document)

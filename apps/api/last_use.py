"""When credentials were last used: noted in memory, and written for all of them together every few seconds.

A credential in use costs at most one write in NOTED_SECONDS, and no request waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from django.db import Error, close_old_connections, connection
from django.http import HttpRequest, HttpResponse

from apps.api.clock import ticks, wall_now

log = logging.getLogger(__name__)

NOTED_SECONDS = 300.0  # a credential that is used all the time is noted once in this time
FLUSH_SECONDS = 20.0
MAX_KNOWN = 10_000
_LONGEST_AGENT = 200  # characters


class SessionUse(NamedTuple):
    """One use of a browser's session."""

    key: str
    user_id: int
    at: datetime
    address: str
    agent: str


class LastUses:
    """The uses that one process has seen and not written yet. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._tokens: dict[str, datetime] = {}
        self._sessions: dict[str, SessionUse] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def note_token(self, digest: str) -> None:
        """Note that a token of a ServiceAccount was used."""
        if self._is_new(digest):
            with self._lock:
                self._tokens[digest] = wall_now()

    def note_session(self, use: SessionUse) -> None:
        """Note that a session was used."""
        if self._is_new(use.key):
            with self._lock:
                self._sessions[use.key] = use

    def flush(self) -> None:
        """Write what was noted. Raises django.db.Error; nothing is lost then."""
        with self._lock:
            tokens, sessions = dict(self._tokens), dict(self._sessions)
        with connection.cursor() as cursor:
            if tokens:
                for statement in _TOKENS_USED:
                    cursor.execute(statement, [list(tokens), list(tokens.values())])
            if sessions:
                cursor.execute(_SESSIONS_USED, [list(column) for column in zip(*sessions.values(), strict=True)])
                cursor.execute(_END_EXPIRED, [wall_now()])
                cursor.execute(_FORGET)
        with self._lock:
            for key in tokens:
                self._tokens.pop(key, None)
            for key in sessions:
                self._sessions.pop(key, None)

    def start(self) -> None:
        """Write regularly from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="last-use", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _is_new(self, key: str) -> bool:
        now = ticks()
        with self._lock:
            if now - self._noted.get(key, -NOTED_SECONDS) < NOTED_SECONDS:
                return False
            self._noted[key] = now
            self._noted.move_to_end(key)
            if len(self._noted) > MAX_KNOWN:
                self._noted.popitem(last=False)
            return True

    def _run(self) -> None:
        while True:
            ended = self._stopping.wait(FLUSH_SECONDS)
            try:
                self.flush()
            except Error as error:
                log.warning("the last use of credentials cannot be stored: %s", type(error).__name__)
            finally:
                close_old_connections()
            if ended:
                return


_TOKENS_USED = tuple(
    f"""
    UPDATE {table} t SET last_used = w.at FROM unnest(%s::text[], %s::timestamptz[]) AS w(digest, at)
    WHERE t.{column} = w.digest AND (t.last_used IS NULL OR t.last_used < w.at)"""
    for table, column in (("api_serviceaccounttoken", "digest"), ("resources_issuedtoken", "key"))
)
# A session that ended meanwhile has no row any more, and gets none. Nor does that of a user who was deleted meanwhile.
_SESSIONS_USED = """
    INSERT INTO api_loginsession AS s (session_key, user_id, created, last_used, address, agent)
    SELECT w.key, w.user_id, w.at, w.at, w.address, w.agent
    FROM unnest(%s::text[], %s::bigint[], %s::timestamptz[], %s::text[], %s::text[])
        AS w(key, user_id, at, address, agent)
    JOIN django_session d ON d.session_key = w.key JOIN auth_user u ON u.id = w.user_id
    ON CONFLICT (session_key) DO UPDATE SET last_used = excluded.last_used, address = excluded.address,
        agent = excluded.agent, user_id = excluded.user_id"""
# Nothing else removes sessions whose users have not logged out. A use is noted seldom, and the column has an index.
_END_EXPIRED = "DELETE FROM django_session WHERE expire_date < %s"
_FORGET = """
    DELETE FROM api_loginsession s
    WHERE NOT EXISTS (SELECT 1 FROM django_session d WHERE d.session_key = s.session_key)"""

LAST_USES = LastUses()


class SessionUses:
    """Middleware that notes the use of sessions. It reads nothing that the view has not read already."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "_cached_user" in request.__dict__ and request.user.is_authenticated and request.session.session_key:
            agent = request.headers.get("User-Agent", "")[:_LONGEST_AGENT].replace("\0", "")
            address = request.META.get("REMOTE_ADDR", "")
            use = SessionUse(request.session.session_key, request.user.pk, wall_now(), address, agent)
            LAST_USES.note_session(use)
        return response

"""What the event loop knows without waiting: tokens, roles, rules, settings, the time and namespaces.

Each of them counts for less than a second, and is renewed in a thread while it is used. A namespace counts in the
version in which it was seen: the statement that creates objects fails if that is not the stored one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg
from django.db import Error, close_old_connections

from apps.api.bearer import credential_of
from apps.api.clock import ticks
from apps.api.remembered import REMEMBERED, VALID_SECONDS, Checked
from apps.objects import access
from apps.objects.admission_rules import admission_rules
from apps.objects.configuration import configuration
from apps.objects.loop_session import LoopSession
from apps.objects.refreshed import FRESH_SECONDS
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import NAMESPACE
from controlplane.settings import Settings

MOST_NAMESPACES: Final = 1000
REOPEN_SECONDS: Final = 1.0


class Knowledge:
    """What one event loop knows. `executor` runs what blocks. A result of None: it has to be found out first."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._renewing: set[str] = set()
        self._opened: dict[LoopSession, float] = {}  # when a session was last opened
        self._moment: tuple[datetime, float] | None = None
        self._namespaces: OrderedDict[str, int] = OrderedDict()

    def checked(self, token: str) -> Checked | None:
        """Return the check of a header Authorization, which is less than a second old."""
        checked = REMEMBERED.find(token, within=VALID_SECONDS)
        if checked is not None and not REMEMBERED.is_fresh(checked):
            self.renew(token, lambda: REMEMBERED.check(token, lambda: _credential(token)))
        return checked

    def knows_roles(self) -> bool:
        """Test whether roles were read within the last second."""
        return self._is_known("roles", access.access().age, access.access().policy)

    def needs_no_review(self) -> bool:
        """Test whether no admission policy or webhook of a user can concern a write, as read within the last second."""
        rules = admission_rules()
        return self._is_known("rules", rules.age, rules.refresh) and rules.is_empty

    def settings(self) -> Settings | None:
        """Return the settings as they were read within the last second."""
        known = configuration()
        return known.known if self._is_known("settings", known.age, known.settings) else None

    def now(self) -> datetime | None:
        """Return the database's time: as it was read less than a second ago, plus the time since then."""
        age = float("inf") if self._moment is None else ticks() - self._moment[1]
        if not self._is_known("time", age, store().now, then=self.note_time) or self._moment is None:
            return None
        return self._moment[0] + timedelta(seconds=age)

    def note_time(self, now: datetime) -> None:
        """Remember the database's time, which an answer has just brought."""
        self._moment = now, ticks()

    def namespace(self, name: str) -> int | None:
        """Return the version in which a namespace was seen that is not being deleted."""
        version = self._namespaces.get(name)
        if version is None:
            self.renew(f"namespace {name}", lambda: store().look(Ref(NAMESPACE, "", name)), then=self._note_namespace)
        return version

    def forget_namespaces(self) -> None:
        """Forget the namespaces, because the version of one of them may have changed."""
        self._namespaces.clear()

    def is_ready(self, session: LoopSession) -> bool:
        """Test whether a session is open. If not, it is opened in a thread, at most once a second."""
        if session.is_open:
            return True
        now = ticks()
        if session.may_open and now - self._opened.get(session, -REOPEN_SECONDS) >= REOPEN_SECONDS:
            self._opened[session] = now
            self.renew(f"session {id(session)}", session.connect, then=session.open)
        return False

    def _note_namespace(self, looked: tuple[Any, datetime]) -> None:
        found, now = looked
        self.note_time(now)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        self._namespaces[found.metadata.name] = int(found.metadata.resource_version)
        if len(self._namespaces) > MOST_NAMESPACES:
            self._namespaces.popitem(last=False)

    def _is_known(
        self, what: str, age: float, read: Callable[[], Any], *, then: Callable[[Any], None] | None = None
    ) -> bool:
        if age >= FRESH_SECONDS:
            self.renew(what, read, then=then)
        return age < VALID_SECONDS

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function when the event loop has handled what has arrived by now."""
        asyncio.get_running_loop().call_soon(call)

    def renew(self, what: str, call: Callable[[], Any], *, then: Callable[[Any], None] | None = None) -> None:
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


def _quietly(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Error, psycopg.Error):
        return None
    finally:
        close_old_connections()


def _credential(header: str) -> Any:
    return credential_of(header.partition(" ")[2].strip(), None)  # type: ignore[arg-type]  # no bootstrap token

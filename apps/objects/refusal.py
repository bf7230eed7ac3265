"""Messages for errors of PostgreSQL. They contain no secrets: no address, no login, no content of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg
from django.db import OperationalError
from psycopg_pool import PoolTimeout

TOO_MANY, NOT_YET, NO_LOGIN, NO_DATABASE = "53300", "57P03", "28000", "3D000"
LOCKED, DEADLOCK, READ_ONLY, DISK_FULL, FILES = "55P03", "40P01", "25006", "53100", "58030"

# By SQLSTATE. Appendix A of the manual of PostgreSQL lists all of them.
CAUSES: Final[Mapping[str, str]] = {
    DISK_FULL: "the disk of PostgreSQL is full",
    "53200": "PostgreSQL is out of memory",
    TOO_MANY: "PostgreSQL accepts no more connections (max_connections)",
    "53400": "PostgreSQL has reached a limit of its configuration",
    READ_ONLY: "PostgreSQL is read-only: it is a standby, or default_transaction_read_only is on",
    "55000": "the database does not accept connections (ALLOW_CONNECTIONS)",
    LOCKED: "another session holds a lock for longer than LIFEBOAT_DATABASE_LOCK_SECONDS",
    "57014": "a statement was cancelled: on request, or after LIFEBOAT_DATABASE_STATEMENT_SECONDS",
    "57P01": "PostgreSQL ended the session: it is stopping, or an administrator terminated the session",
    "57P02": "PostgreSQL ended the session, because one of its processes crashed",
    NOT_YET: "PostgreSQL is starting, stopping or recovering",
    "57P04": "the database was dropped",
    "25P03": "PostgreSQL ended a transaction that was idle for LIFEBOAT_LEASE_SECONDS",
    DEADLOCK: "PostgreSQL ended a transaction to resolve a deadlock",
    FILES: "PostgreSQL cannot read or write its files",
    NO_LOGIN: "PostgreSQL refuses the login",
    "28P01": "PostgreSQL refuses the login: the password is wrong",
    NO_DATABASE: "PostgreSQL has no database of that name",
}
# The error of a failed connection has no SQLSTATE: libpq reports only the text of the server or of the system.
_WORDS: Final = (
    ("No space left on device", DISK_FULL),
    ("Disk quota exceeded", DISK_FULL),
    ("Input/output error", FILES),
    ("out of memory", "53200"),
    ("too many clients", TOO_MANY),
    ("remaining connection slots", TOO_MANY),
    ("too many connections", TOO_MANY),
    ("the database system is", NOT_YET),
    ("password authentication failed", "28P01"),
    ("no pg_hba.conf entry", NO_LOGIN),
    ("not currently accepting connections", "55000"),
    ("is not permitted to log in", NO_LOGIN),
    ("role ", NO_LOGIN),
    ("database ", NO_DATABASE),
)
_SYSTEM_WORDS: Final = (
    ("refused", "PostgreSQL is not reachable: the connection is refused"),
    ("translate host name", "PostgreSQL is not reachable: its host name is unknown"),
    ("resolve host", "PostgreSQL is not reachable: its host name is unknown"),
    ("timeout expired", "PostgreSQL is not reachable: it does not answer in time"),
    ("timed out", "PostgreSQL is not reachable: it does not answer in time"),
    ("no such file", "PostgreSQL is not reachable: its socket does not exist"),
    ("certificate", "PostgreSQL is not reachable: TLS fails"),
    ("ssl", "PostgreSQL is not reachable: TLS fails"),
    ("closed", "the connection to PostgreSQL broke"),
    ("lost", "the connection to PostgreSQL broke"),
)
POOL_EMPTY: Final = "no connection to PostgreSQL became free in time"
UNKNOWN: Final = "PostgreSQL is not reachable"
REFUSES: Final = "PostgreSQL refuses connections; its log has the reason"


class Unusable(OperationalError):
    """The database answers, but must not be used now. The message is ours and gives users the reason."""


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of Django or psycopg; "": the error has none."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, psycopg.Error):
            return found.sqlstate or _sqlstate_of_words(str(found))
        found = found.__cause__
    return ""


def cause(error: BaseException) -> str:
    """Return why the database did not execute a statement, for users; with the SQLSTATE if there is one."""
    if isinstance(error, Unusable):
        return str(error)
    if state := sqlstate(error):
        return f"{CAUSES.get(state, 'PostgreSQL refuses')} (SQLSTATE {state})"
    if isinstance(error, PoolTimeout) or isinstance(error.__cause__, PoolTimeout):
        return POOL_EMPTY
    if "FATAL:" in str(error):
        return REFUSES
    text = str(error).lower()
    return next((message for words, message in _SYSTEM_WORDS if words in text), UNKNOWN)


def _sqlstate_of_words(text: str) -> str:
    """Return the SQLSTATE for the text with which a server refused a connection; "": the text is not known."""
    _, _, refusal = text.partition("FATAL:")
    return next((state for words, state in _WORDS if words in refusal), "")

"""What an agent keeps on disk: the desired state that it read last, and what it has done about it.

It is a file of SQLite in a folder that only its owner can read, because Works contain Secrets. An agent that starts
while the control plane is away works from it. An agent whose disk fails works on without it: heartbeats that stopped
would look like the loss of the cluster.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from apps.agent.credentials import PRIVATE_FILE, PRIVATE_FOLDER
from controlplane.apimachinery.meta import Ref
from controlplane.kind import decode
from controlplane.kinds import KINDS

log = logging.getLogger(__name__)

_FILE = "state.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS objects (ref TEXT PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID"


class Disk:
    """Objects by their references. To be used in one thread at a time; another may close it meanwhile.

    If the file cannot be read or written, it is removed: half of a state would make an agent that starts while the
    control plane is away apply what is out of date. A damaged file is replaced at the start. After a failed read or
    write nothing is kept until the next start. A file on a disk that has become read-only stays, with what it had.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        self._folder = folder
        self._in_use = threading.Lock()  # a connection that is closed while it runs a statement ends the process
        self._connection = self._opened() or self._opened()

    def _opened(self) -> sqlite3.Connection | None:
        """Return a connection. None: the file could not be opened, and was removed."""
        path = self._folder / _FILE
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            # A write survives a process that is killed. The last writes before a machine stops may be lost, which costs
            # a request, never an object.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_TABLE)
        except sqlite3.Error as error:
            self._remove(connection, error)
            return None
        return connection

    def objects(self, kind: str) -> Iterator[Any]:
        """Yield all objects of a kind that this version of the agent can read. A later one may have written others."""
        for ref, document in self._run("SELECT ref, document FROM objects"):
            if Ref.parse(ref).kind != kind:
                continue
            try:
                yield decode(KINDS[kind], document)
            except msgspec.MsgspecError as error:
                log.error("%s is on disk and cannot be read: %s. It waits for the control plane", ref, error)

    def keep(self, ref: Ref, document: bytes) -> None:
        """Store an object."""
        statement = "INSERT INTO objects VALUES (?, ?) ON CONFLICT (ref) DO UPDATE SET document = excluded.document"
        self._run(statement, (str(ref), document))

    def drop(self, ref: Ref) -> None:
        """Remove an object."""
        self._run("DELETE FROM objects WHERE ref = ?", (str(ref),))

    def close(self) -> None:
        """Close the file after the statement that runs. What is written later is not kept."""
        with self._in_use:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. Empty after a failure."""
        with self._in_use:
            if self._connection is None:
                return []
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                self._remove(self._connection, error)
                self._connection = None
                return []

    def _remove(self, connection: sqlite3.Connection, error: sqlite3.Error) -> None:
        connection.close()
        path, removed = self._folder / _FILE, "was removed"
        try:
            for part in self._folder.glob(f"{_FILE}*"):  # with the files that SQLite keeps beside it
                part.unlink(missing_ok=True)
        except OSError as refused:  # a disk with errors may have become read-only
            removed = f"could not be removed ({refused}): remove it before the agent is started again"
        log.error(
            "%s cannot be used and %s: %s. The agent goes on without the state on disk, which it needs only "
            "if it starts while the control plane is away",
            path,
            removed,
            error,
        )

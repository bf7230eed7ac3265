"""What an agent keeps on disk: the desired state that it read last, and what it has done about it.

It is a file of SQLite in a folder that only its owner can read, because Works contain Secrets. An agent that starts
while the control plane is away works from it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apps.agent.credentials import PRIVATE_FILE, PRIVATE_FOLDER
from controlplane.apimachinery.meta import Ref
from controlplane.kind import decode
from controlplane.kinds import KINDS

_TABLE = "CREATE TABLE IF NOT EXISTS objects (ref TEXT PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID"


class Disk:
    """Objects by their references. To be used in one thread at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path = folder / "state.sqlite"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # A write survives a process that is killed. The last writes before a machine stops may be lost, which costs a
        # request, never an object.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_TABLE)

    def objects(self) -> Iterator[Any]:
        """Yield all objects."""
        for ref, document in self._connection.execute("SELECT ref, document FROM objects").fetchall():
            yield decode(KINDS[Ref.parse(ref).kind], document)

    def keep(self, ref: Ref, document: bytes) -> None:
        """Store an object."""
        statement = "INSERT INTO objects VALUES (?, ?) ON CONFLICT (ref) DO UPDATE SET document = excluded.document"
        self._connection.execute(statement, (str(ref), document))

    def drop(self, ref: Ref) -> None:
        """Remove an object."""
        self._connection.execute("DELETE FROM objects WHERE ref = ?", (str(ref),))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

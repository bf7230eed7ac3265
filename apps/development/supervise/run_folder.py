"""The folder `.lifeboat`: all files of a run, in one place that `make clean` removes."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from apps.development.supervise import records
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.private import MARK, write_private

SOCKET_PATH_LIMIT = 100  # bytes; the kernel allows 104 (macOS) to 108 (Linux)


class RunFolder:
    """The folder of one supervisor: logs, records of processes, secrets and data. Only its owner can read it."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.logs = self.root / "logs"
        self.run = self.root / "run"
        self.ready_file = self.run / "ready.json"
        self._lock: int | None = None  # None: not held by this process

    def create(self) -> None:
        """Create the folder and those in it. Raises SuperviseError if it has files and Lifeboat did not create it."""
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / MARK).exists():
            raise SuperviseError(
                f"{self.root} is not empty and was not created by Lifeboat: name another folder with --dir"
            )
        if not self.root.parent.exists():  # a folder in .lifeboat before .lifeboat itself
            self.root.parent.mkdir(mode=0o700, parents=True)
            (self.root.parent / MARK).touch()
        for folder in (self.root, self.logs, self.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.root / MARK).touch()

    def lock(self) -> bool:
        """Try to make this process the only supervisor of the folder, until it ends. Returns whether it is.

        What a crashed supervisor published is removed before other processes can see that this one holds the folder.
        """
        descriptor = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(20):  # locked() of another process holds the lock for a moment
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
        else:
            os.close(descriptor)
            return False
        os.truncate(descriptor, 0)
        self.withdraw()
        os.write(descriptor, f"{os.getpid()} {records.started(os.getpid())}".encode())
        self._lock = descriptor
        return True

    def holder(self) -> int | None:
        """Return the pid of the supervisor that holds the folder. None: no supervisor does."""
        if not self.locked():
            return None
        pid, _, when = (self.run / "lock").read_text().partition(" ")
        return int(pid) if pid and records.started(int(pid)) == when else None

    def locked(self) -> bool:
        """Test whether a supervisor holds the folder."""
        if not (self.run / "lock").exists():
            return False
        descriptor = os.open(self.run / "lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def secret(self, name: str) -> str:
        """Return the secret of this name. It is created once and stored with mode 0600."""
        path = self.root / "secrets" / name
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_private(path, secrets.token_urlsafe(32))
        return path.read_text()

    def log(self, name: str) -> Path:
        """Return the log file of a process. A file of more than 10 MB is renamed to `<name>.log.1`."""
        path = self.logs / f"{name}.log"
        if path.exists() and path.stat().st_size > 10_000_000:
            path.replace(path.with_suffix(".log.1"))
        return path

    def publish(self, facts: dict[str, Any]) -> None:
        """Publish for other processes that everything runs, with addresses."""
        write_private(self.ready_file, json.dumps(facts, indent=2))

    def published(self) -> dict[str, Any] | None:
        """Return what the supervisor published. None: it does not run, or not everything is ready."""
        if self.holder() is None:
            return None
        try:
            return dict(json.loads(self.ready_file.read_text()))
        except FileNotFoundError:
            return None

    def withdraw(self) -> None:
        self.ready_file.unlink(missing_ok=True)

    def outside(self, name: str) -> Path:
        """Return the path of the link `<root>/<name>` to a folder elsewhere. The link may not exist."""
        return self.root / name

    def remove(self) -> None:
        """Remove the folder, and those folders outside of it to which it links that Lifeboat created.

        Raises SuperviseError if Lifeboat did not create the folder itself. Nothing is removed then.
        """
        if not self.root.exists():
            return
        if not (self.root / MARK).exists():
            raise SuperviseError(f"{self.root} was not created by Lifeboat (it has no file {MARK}); it is not removed")
        for entry in self.root.iterdir():
            if entry.is_symlink() and (entry.resolve() / MARK).exists():
                shutil.rmtree(entry.resolve())
        shutil.rmtree(self.root)

    @property
    def identity(self) -> str:
        """Return a short name for this folder, for files that have to be outside of it."""
        return hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:12]

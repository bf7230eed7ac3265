"""A folder through which the processes of a worker's pool share their metrics."""

import atexit
import fcntl
import os
import shutil
import sys
from pathlib import Path
from typing import IO

from billiard import current_process

from config import env

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it when it is imported


def is_shared() -> bool:
    """Return whether this process shares its metrics with other processes of its pool."""
    return bool(env.text(VARIABLE, ""))


def _name_of_process() -> str:
    """Return the name of this process's files: a new process of the pool continues those of the one that it replaces.

    With the process id in the name, files would remain of each process that has ended.
    """
    index = getattr(current_process(), "index", None)
    return "main" if index is None else f"pool-{index}"


_claims: list[IO[str]] = []  # kept open: a claim ends with its file


def prepare_metrics_folder() -> None:
    """Create the empty folder of a Celery worker that serves metrics. Call this before prometheus_client is imported.

    It is below LIFEBOAT_HOME and has the name of the port, so that a worker that was killed leaves nothing behind that
    grows. Other processes have no pool and need no folder. Raises EnvironmentInvalid if another worker uses it.
    """
    port = env.number("LIFEBOAT_METRICS_PORT", default=0, at_least=0, at_most=65_535)
    if not port or "worker" not in sys.argv:
        return
    home = env.text("LIFEBOAT_HOME", "") or str(Path(__file__).resolve().parents[1] / ".lifeboat")
    folder, owner = Path(home) / "metrics" / str(port), os.getpid()
    _claim(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    os.environ[VARIABLE] = str(folder)
    from prometheus_client import values  # only now: it reads the variable when it is imported

    values.ValueClass = values.MultiProcessValue(_name_of_process)

    def remove() -> None:
        if os.getpid() == owner:  # the processes of the pool inherit this function
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)


def _claim(folder: Path) -> None:
    """Claim a folder for this process as long as it runs. Raises EnvironmentInvalid if another process has it.

    Without its folder a worker cannot start another process of its pool, so it must not lose it to one that only finds
    out later that the port is in use.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    claim = folder.with_suffix(".claim").open("w")
    try:
        fcntl.lockf(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)  # processes of the pool do not inherit it
    except OSError as error:
        claim.close()
        raise env.EnvironmentInvalid(
            f"LIFEBOAT_METRICS_PORT={folder.name}: a worker that runs on this host uses it; give each process of a "
            "host a port of its own, or 0 for none"
        ) from error
    _claims.append(claim)

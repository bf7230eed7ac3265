"""A folder through which the processes of a worker's pool share their metrics."""

import atexit
import os
import shutil
import sys
from pathlib import Path

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


def prepare_metrics_folder() -> None:
    """Create the empty folder of a Celery worker that serves metrics. Call this before prometheus_client is imported.

    It is below LIFEBOAT_HOME and has the name of the port, so that a worker that was killed leaves nothing behind that
    grows. Other processes have no pool and need no folder.
    """
    port = env.text("LIFEBOAT_METRICS_PORT", "").strip() or "0"
    if port == "0" or "worker" not in sys.argv:
        return
    home = env.text("LIFEBOAT_HOME", "") or str(Path(__file__).resolve().parents[1] / ".lifeboat")
    folder, owner = Path(home) / "metrics" / port, os.getpid()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    os.environ[VARIABLE] = str(folder)
    from prometheus_client import values  # only now: it reads the variable when it is imported

    values.ValueClass = values.MultiProcessValue(_name_of_process)

    def remove() -> None:
        if os.getpid() == owner:  # the processes of the pool inherit this function
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)

"""A folder through which the processes of a worker's pool share their metrics."""

import atexit
import os
import shutil
import sys
import tempfile

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it when it is imported


def is_shared() -> bool:
    """Return whether this process shares its metrics with other processes of its pool."""
    return VARIABLE in os.environ


def prepare_metrics_folder() -> None:
    """Create the folder of a Celery worker that serves metrics. Call this before prometheus_client is imported.

    The folder is removed when the worker ends. Other processes have no pool and need no folder.
    """
    if os.environ.get("LIFEBOAT_METRICS_PORT", "0").strip() in ("", "0") or "worker" not in sys.argv:
        return
    folder, owner = tempfile.mkdtemp(prefix="lifeboat-metrics-"), os.getpid()
    os.environ[VARIABLE] = folder

    def remove() -> None:
        if os.getpid() == owner:  # the processes of the pool inherit this function
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)

"""Not a test: a Celery application of which each process of the pool is replaced after each turn.

`celery -A tests.apps.replaced worker`
"""

from __future__ import annotations

from apps.worker import kept_memory
from config.celery import app

__all__ = ["app"]

kept_memory.FEW = -1  # type: ignore[misc]  # each batch is a large one
kept_memory.YOUNGEST = kept_memory.QUIET = 0.0  # type: ignore[misc]
kept_memory.MOST_KEPT = -(1 << 40)  # type: ignore[misc]

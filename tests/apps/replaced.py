"""Not a test: a Celery application of which each process of the pool is replaced after a quiet turn.

`celery -A tests.apps.replaced worker`
"""

from __future__ import annotations

from apps.worker import kept_memory
from config.celery import app

__all__ = ["app"]

kept_memory.SLOWLY = 0.0  # type: ignore[misc]
kept_memory.MOST_KEPT = -1  # type: ignore[misc]

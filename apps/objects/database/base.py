"""Django's PostgreSQL backend with the counts of django-prometheus, corrected for a pool of connections.

The library counts each connection that a request takes. With a pool that is the number of requests, so a connection is
counted here when the pool opens it. Statements of `BinaryCursor` are counted there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db.backends.postgresql import base as django_base
from django_prometheus.db import connection_errors_total, connections_total
from django_prometheus.db.backends.postgresql import base
from django_prometheus.db.common import ExportingCursorWrapper
from django_prometheus.models import model_deletes, model_inserts, model_updates
from prometheus_client import REGISTRY

# The library registers them when it is imported. No model has its mixin, so they would stay at nothing.
for _unused in (model_deletes, model_inserts, model_updates):
    REGISTRY.unregister(_unused)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL whose statements, errors and new sessions are counted."""

    def get_connection_params(self) -> dict[str, Any]:
        """Return what a session is opened with. Its cursors are of a class that counts statements."""
        given: dict[str, Any] = django_base.DatabaseWrapper.get_connection_params(self)
        given["cursor_factory"] = _counting(given["cursor_factory"], self.alias, self.vendor)
        return given

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool, or open one without a pool. Failures of both are counted."""
        try:
            return django_base.DatabaseWrapper.get_new_connection(self, conn_params)
        except Exception:
            connection_errors_total.labels(self.alias, self.vendor).inc()
            raise

    def _configure_connection(self, connection: Any) -> Any:
        """Prepare a new session. The pool calls this for each session that it opens, and Django without a pool."""
        connections_total.labels(self.alias, self.vendor).inc()
        return super()._configure_connection(connection)


@cache
def _counting(cursor: type, alias: str, vendor: str) -> type:
    """Return the library's class of cursors, once: a class for each request is garbage that only a search finds."""
    found: type = ExportingCursorWrapper(cursor, alias, vendor)
    return found

"""Drains and Failbacks of a cluster for its page. They are never deleted by themselves, so the page shows only some."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from apps.api.places import list_url
from apps.objects.apply import binary_cursor
from apps.objects.tables import object_table, read
from controlplane.kind import KINDS
from controlplane.kinds.drain import DRAIN, FINISHED

ORDERS: Final = 5  # of a kind that the page of a cluster shows; more that have not finished are shown as well
MOST: Final = 50  # of a kind

# The names are compared as text first, which is cheaper than to parse the documents of all clusters.
_QUERY: Final = f"""
    WITH asked AS (SELECT %s::text AS of_kind, %s::text AS cluster),
    found AS (
        SELECT o.doc, o.id, o.doc::jsonb #>> '{{status,phase}}' IS DISTINCT FROM '{FINISHED}' AS lasts
        FROM {object_table(DRAIN).name} o CROSS JOIN asked
        WHERE o.kind = of_kind AND strpos(o.doc, '"' || cluster || '"') > 0
            AND o.doc::jsonb #>> '{{spec,cluster}}' = cluster)
    SELECT doc, lasts, count(*) OVER () FROM found ORDER BY lasts DESC, id DESC LIMIT {MOST}"""


class ClusterOrders(NamedTuple):
    """The orders of one kind about a cluster: first those that have not finished, and of these the newest first.

    `more`: how many others there are; `all_url`: the list of all.
    """

    shown: list[Any]
    more: int
    all_url: str


def orders_of(kind: str, cluster: str) -> ClusterOrders:
    """Return the orders of a kind about a cluster. One query."""
    with binary_cursor() as cursor:
        rows = cursor.run(_QUERY, (kind, cluster)).fetchall()
    shown = [read(kind, doc) for place, (doc, lasts, _) in enumerate(rows) if lasts or place < ORDERS]
    all_url = list_url(KINDS[kind].resource, fieldSelector=f"spec.cluster={cluster}")
    return ClusterOrders(shown, (rows[0][2] if rows else 0) - len(shown), all_url)

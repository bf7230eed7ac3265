"""Pages of the objects under index keys: many pages of many objects cost about as much as reading each object once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from apps.objects.arrays import Array, BinaryCursor
from apps.objects.selecting import START
from controlplane.apimachinery.meta import Ref

NEAR: Final = 4  # times a page: so many objects are looked at by name before all under an index value are read again
_PLACE: Final = itemgetter(0, 1, 2)


def index_page(
    cursor: BinaryCursor,
    table: str,
    more: str,
    far: str,
    params: Sequence[Any],
    last: Ref,
    wanted: Array,
    limit: int,
) -> list[Sequence[Any]]:
    """Return the next page of the objects under index keys, after the object `last`, in order.

    `far`: the query by the index. It finds all objects under the keys, so each page would read and sort all of them
    again. Where many objects of the kind have the keys, the next ones are among those that follow by name: these are
    looked at first, and `far` is asked only if they do not fill the page. `more`: columns besides the reference.
    """
    if last[1:] == START:
        return sorted(cursor.run(far.format(rarely=""), (*params, limit)), key=_PLACE)
    columns = f"kind, namespace, name{more}"
    query = f"""
        WITH near AS MATERIALIZED (
            SELECT {columns} FROM (
                SELECT {columns}, keys FROM {table}
                WHERE kind = %s AND (namespace, name) > (%s, %s) ORDER BY namespace, name LIMIT %s
            ) AS following WHERE keys && %s ORDER BY namespace, name LIMIT %s
        ), far AS ({far.format(rarely="AND (SELECT count(*) FROM near) < %s")})
        SELECT * FROM near WHERE (SELECT count(*) FROM near) >= %s UNION ALL SELECT * FROM far"""
    asked = (*last, NEAR * limit, wanted, limit, *params, limit, limit, limit)
    return sorted(cursor.run(query, asked), key=_PLACE)

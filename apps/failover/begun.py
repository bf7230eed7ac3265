"""Lists of failovers for pages, newest first: what began them, and whether they still run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from apps.failover.models import GracefulEvictionTask
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.failovers import LAST
from apps.objects.models import BEGINS_FAILOVER
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Change
from controlplane.insight.begun import Begun, begun_failover
from controlplane.insight.record import decode_changes
from controlplane.kinds import BINDINGS
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.kinds.rows import Observation

PAGE: Final = 40  # the records of 60 failovers take more than 30 ms of CPU on a slow machine

_REASONS: Final = ", ".join(f"'{reason}'" for reason in BEGINS_FAILOVER)
_KINDS: Final = ", ".join(f"'{kind}'" for kind in BINDINGS)
# The first part is answered from the index changelog_failovers. The lines are then read from the newest on, until the
# page is full. A document names the clusters of all tasks, so a line may be found for a task of an earlier failover.
_BEGUN: Final = f"""
    WITH lines AS MATERIALIZED (
        SELECT version FROM objects_changelog
        WHERE type = 'MODIFIED' AND reason IN ({_REASONS}) AND kind IN ({_KINDS}) AND version < %s
            AND (%s = '' OR namespace = %s) AND (%s = '' OR (kind = %s AND name = %s)))
    SELECT line.version, type, kind, namespace, name, textsend(doc), textsend(old_doc), actor, reason, cause, at
    FROM (SELECT version FROM lines ORDER BY version DESC) ordered
    CROSS JOIN LATERAL (SELECT * FROM objects_changelog one WHERE one.version = ordered.version) line
    WHERE (%s::timestamptz IS NULL OR at >= %s) AND (%s::timestamptz IS NULL OR at <= %s)
        AND (%s = '' OR strpos(doc, %s) > 0)
    ORDER BY ordered.version DESC LIMIT %s"""
_OF_VERSION: Final = "SELECT kind, namespace, name FROM objects_changelog WHERE version = %s"
_RUNNING: Final = f"""
    SELECT binding, from_cluster, created_at FROM {GracefulEvictionTask._meta.db_table} WHERE binding = ANY(%s)"""


class FailoverChoice(NamedTuple):
    """Which failovers are listed; "" and None: all. `binding` is more exact than `namespace`."""

    cluster: str = ""
    namespace: str = ""
    since: datetime | None = None
    until: datetime | None = None
    binding: Ref | None = None


class BegunPage(NamedTuple):
    """Failovers, newest first. `after`: the version before which the next page begins; None: this is the last page.

    `running`: the names of those that have not finished.
    """

    failovers: list[Begun]
    running: frozenset[str]
    after: int | None = None


def begun_page(choice: FailoverChoice, *, before: int | None = None, limit: int = PAGE) -> BegunPage:
    """Return at most `limit` failovers that began before a version (None: the newest). Two queries.

    A page may have fewer failovers than `limit` although more follow.
    """
    binding = choice.binding or Ref("", choice.namespace, "")
    named = f'"fromCluster":"{choice.cluster}"'
    params = (
        *(LAST if before is None else before, binding.namespace, binding.namespace),
        *(binding.name, binding.kind, binding.name),
        *(choice.since, choice.since, choice.until, choice.until, choice.cluster, named, limit + 1),
    )
    with binary_cursor() as cursor:
        rows = cursor.run(_BEGUN, params).fetchall()
    lines = [
        Change(version, type_, Ref(kind, namespace, name), doc, old, actor, reason, cause, at)
        for version, type_, kind, namespace, name, doc, old, actor, reason, cause, at in rows[:limit]
    ]
    found = [begun for change in decode_changes(lines) if (begun := begun_failover(change)) is not None]
    chosen = sorted(
        (one for one in found if not choice.cluster or choice.cluster in one.left), key=lambda one: -one.version
    )
    return BegunPage(chosen, _running(chosen), lines[-1].version if len(rows) > limit else None)


def binding_of(name: str) -> Ref | None:
    """Return the binding of a FailoverRecord by the record's name; None: the change log has no such failover."""
    version = name.rpartition(".")[2]
    if not version.isdecimal() or len(version) > len(str(LAST)) or int(version) > LAST:
        return None
    with binary_cursor() as cursor:
        row = cursor.run(_OF_VERSION, (int(version),)).fetchone()
    return None if row is None or row[0] not in BINDINGS else Ref(*row)


def probe_turns(store: DjangoStore, records: Iterable[FailoverRecord]) -> dict[str, Sequence[datetime]]:
    """Return when the probes of the clusters that were left began to fail or to succeed, by cluster. One query."""
    clusters = {left.name for record in records for left in record.status.left}
    rows = store.rows(Observation, "key", sorted(clusters)) if clusters else {}
    return {name: row.turned_at for name, some in rows.items() for row in some}


def _running(failovers: Collection[Begun]) -> frozenset[str]:
    """Return the names of the failovers that have a task which is not cleared."""
    if not failovers:
        return frozenset()
    bindings = texts({str(begun.binding) for begun in failovers})
    with binary_cursor() as cursor:
        tasks = set(cursor.run(_RUNNING, (bindings,)))
    return frozenset(
        begun.name
        for begun in failovers
        if any((str(begun.binding), *task) in tasks for task in zip(begun.left, begun.created_at, strict=True))
    )

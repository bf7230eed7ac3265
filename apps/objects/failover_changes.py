"""The changes of FailoverRecords between two versions, computed from the change log."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from apps.objects import change_log, failovers
from apps.objects.apply import binary_cursor
from apps.objects.models import BEGINS_FAILOVER
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import BINDINGS, CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING, WORK
from controlplane.kinds.failover_record import FailoverRecord

MOST_BINDINGS: Final = 2000  # whose records are computed for one answer
AT_ONCE: Final = 100  # bindings whose changes are in memory together

_REASONS: Final = ", ".join(f"'{reason}'" for reason in BEGINS_FAILOVER)
_KINDS: Final = ", ".join(f"'{kind}'" for kind in BINDINGS)
# A Work names its binding in its annotations. The regular expression finds the first ones, which are the Work's own.
_CONCERNED: Final = f"""
    WITH lines AS MATERIALIZED (
        SELECT kind, namespace, name, CASE WHEN kind = '{WORK}' THEN left(doc, 4000) ELSE '' END AS doc
        FROM objects_changelog
        WHERE version > %s AND version <= %s
            AND (kind IN ({_KINDS}) OR (kind = '{WORK}' AND type IN ('ADDED', 'DELETED')))),
    changed AS (
        SELECT kind, namespace, name FROM lines WHERE kind <> '{WORK}'
        UNION
        SELECT '{RESOURCE_BINDING}', substring(doc from '"resourcebinding.karmada.io/namespace":"([^"]*)"'),
            substring(doc from '"resourcebinding.karmada.io/name":"([^"]*)"') FROM lines WHERE kind = '{WORK}'
        UNION
        SELECT '{CLUSTER_RESOURCE_BINDING}', '',
            substring(doc from '"clusterresourcebinding.karmada.io/name":"([^"]*)"') FROM lines WHERE kind = '{WORK}')
    SELECT kind, namespace, name, first.version FROM changed, LATERAL (
        SELECT min(version) AS version FROM objects_changelog line
        WHERE line.namespace = changed.namespace AND line.name = changed.name AND line.kind = changed.kind
            AND type = 'MODIFIED' AND reason IN ({_REASONS}) AND kind IN ({_KINDS})) first
    WHERE first.version IS NOT NULL
    ORDER BY kind, namespace, name LIMIT {MOST_BINDINGS + 1}"""


class ChangedRecord(NamedTuple):
    """A record that has changed, at the version with which it did.

    `shown_since`: the version with which it became a record. A move by hand is one only once its binding has failed
    over, for example because the move was taken back.
    """

    version: int
    shown_since: int
    record: FailoverRecord


def changed_records(since: int, until: int) -> list[ChangedRecord]:
    """Return the records that changed after a version up to another, in the order of their versions.

    Two queries, and four for each AT_ONCE bindings. Raises Expired if the log no longer has the version `since`, or if
    the records of more than MOST_BINDINGS bindings changed.
    """
    with binary_cursor() as cursor:
        oldest = change_log.oldest(cursor)
        found = cursor.run(_CONCERNED, (since, until)).fetchall()
    if since < oldest:
        raise Expired(f"too old resource version: {since} ({oldest})")
    if len(found) > MOST_BINDINGS:
        raise Expired(
            f"more than {MOST_BINDINGS} workloads failed over since resource version {since}: list again with limit=500"
        )
    refs = [Ref(*row[:3]) for row in found]
    first_failed_over = {(ref.namespace, ref.name): row[3] for ref, row in zip(refs, found, strict=True)}
    changed = list[ChangedRecord]()
    for first in range(0, len(refs), AT_ONCE):
        for record in failovers.of_bindings(refs[first : first + AT_ONCE], most_changes=failovers.MOST_CHANGES):
            place, version = failovers.place_of(record), min(int(record.metadata.resource_version), until)
            shown = max(place.version, first_failed_over[place.namespace, place.binding])
            if shown <= until and version > since:
                # What changed after `until` is shown already. It is sent again with its own version.
                metadata = replace(record.metadata, resource_version=str(version))
                changed.append(ChangedRecord(version, shown, replace(record, metadata=metadata)))
    return sorted(changed, key=lambda one: (one.version, one.record.metadata.name))

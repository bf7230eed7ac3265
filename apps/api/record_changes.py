"""Watches of FailoverRecords: the present records, and the changes after a version."""

from __future__ import annotations

import msgspec

from apps.api.streams import Computed
from apps.objects import failovers
from apps.objects.failover_changes import changed_records
from apps.objects.listing import Logged
from apps.objects.store import store
from controlplane.apimachinery.errors import BadRequest
from controlplane.kinds import failover_record
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.wire.request import Choice
from controlplane.wire.watch import ADDED, MODIFIED

MOST_AT_FIRST = 5000  # records that a watch sends before the changes


def changes(since: int, until: int) -> list[Logged]:
    """Return the changes of records after a version up to another. Raises Expired."""
    return [
        Logged(
            one.version,
            failover_record.KIND.key,
            one.record.metadata.namespace,
            one.record.metadata.name,
            ADDED if one.shown_since > since else MODIFIED,
            msgspec.json.encode(one.record),
            None,
        )
        for one in changed_records(since, until)
    ]


def present(choice: Choice) -> tuple[list[bytes], int]:
    """Return the records of a choice and their version. Raises BadRequest if they are more than MOST_AT_FIRST."""
    version = store().current_version()
    found, after = list[FailoverRecord](), None
    while True:
        page = failovers.page(namespace=choice.namespace, after=after, limit=failovers.MOST_BINDINGS)
        found += page.records
        after = page.after
        if after is None:
            break
        if len(found) > MOST_AT_FIRST:
            raise BadRequest(
                f"a watch sends at most {MOST_AT_FIRST} records at first: list with limit=500 and watch from the "
                "resourceVersion of that list"
            )
    taken = [one for one in found if choice.is_everything or choice.takes(msgspec.to_builtins(one))]
    return [msgspec.json.encode(one) for one in taken], version


COMPUTED = Computed(changes, present)

"""What columns of `kubectl get` show and the objects do not contain, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.api import in_force
from apps.api.answer import ReadBeside
from apps.objects.store import store
from controlplane import kinds
from controlplane.kinds.work import columns as work_columns
from controlplane.wire.table import Beside


def beside_works() -> Beside:
    """Return a function that returns since when the cluster of a Work cannot be reached. One query."""
    return work_columns.beside(store().list(kinds.CLUSTER))


READERS: Final[Mapping[str, ReadBeside]] = {
    kinds.FAILOVER_CONFIGURATION: in_force.beside_objects,
    kinds.WORK: beside_works,
}

"""Where the copies of waiting evictions would go if they left now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.apimachinery.meta import Ref
from controlplane.eviction.eviction_plan import clusters_left_together
from controlplane.eviction.refuge import Refuge, refuge_from
from controlplane.insight.failure_outlook import Situation, dry_run_of
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import Eviction
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings


def destinations(
    rows: Iterable[Eviction],
    bindings: Mapping[Ref, Binding],
    rows_by_binding: Mapping[str, Sequence[Eviction]],
    situation: Situation,
    settings: Settings,
    *,
    fleet: Fleet | None = None,
) -> dict[str, Refuge]:
    """Return by key where each copy would go, or why nowhere, by a dry run of the scheduler.

    Each is asked about as if it left first: capacity that the others would use counts as free. Rows whose binding is
    gone, or is not on the cluster any more, are left out. `rows_by_binding`: all rows of these bindings. `fleet`: see
    `dry_run_of`.
    """
    dry_run, found = dry_run_of(situation, settings, fleet), dict[str, Refuge]()
    clusters = {cluster.metadata.name: cluster for cluster in situation.clusters}
    for row in rows:
        binding = bindings.get(Ref.parse(row.binding))
        if binding is None or binding.spec.target(row.cluster) is None:
            continue
        leaving = clusters_left_together(row, rows_by_binding.get(row.binding, ()))
        result = dry_run.place_or_refuse(binding, leaving)
        source = clusters.get(row.cluster)
        ready = source is not None and source.ready == "True"
        found[row.key] = refuge_from(binding, leaving, result, settings, source_ready=ready, clusters=clusters)
    return found

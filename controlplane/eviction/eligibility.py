"""Which copies have to leave a cluster because of its taints, and when.

A taint is judged once, when it appears on the cluster [judged-once]. The due time is fixed for each binding, cluster
and taint (key, effect, timeAdded). Later edits of tolerations or policies do not change it. A taint that is added later
is judged separately, and the earliest due time counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane import interpret
from controlplane.apimachinery.times import later
from controlplane.clusters.tolerations import wait_seconds
from controlplane.kinds.binding import Binding, ResourceBindingSpec
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.policy import PropagationSpec
from controlplane.kinds.rows import Eviction, Judgement


def judge_taints(
    spec: ResourceBindingSpec,
    cluster: Cluster,
    before: Iterable[Judgement],
    *,
    clocks_from: datetime,
    judge_again: bool = False,
) -> tuple[Judgement, ...]:
    """Return one judgement for each evicting taint of a cluster: stored judgements are kept, new taints are judged.

    `clocks_from`: no waiting time starts earlier, because the Failover gate was off or the control plane was blind
    until then [failover-gate] [blind-fleet]. `judge_again`: all taints are judged again (setting
    eviction.reevaluate_policies). A taint without timeAdded is left out until it has one.
    """
    stored = {} if judge_again else {(entry.key, entry.effect, entry.time_added): entry for entry in before}
    taints = [item for item in cluster.spec.taints if item.effect in EVICTING_EFFECTS]
    judgements = []
    for taint in taints:
        if taint.time_added is None:
            continue
        old = stored.get((taint.key, taint.effect, taint.time_added))
        seconds = wait_seconds(spec, taint, taints) if old is None else old.wait_seconds
        due = None if seconds is None else later(max(taint.time_added, clocks_from), seconds)
        judgements.append(Judgement(taint.key, taint.effect, taint.time_added, due, seconds))
    return tuple(judgements)


def has_finished(binding: Binding, cluster: str) -> bool:
    """Test whether the copy on a cluster has finished, as a complete Job. Another one would run a second time, so it
    stays where it is, also if its cluster is lost."""
    return cluster in finished_copies(binding)


def finished_copies(binding: Binding) -> frozenset[str]:
    """Return the clusters whose copy of a binding has finished."""
    template = binding.spec.resource
    knows = interpret.interpreter_for(template.api_version, template.kind)
    if not knows.ends:
        return frozenset()
    return frozenset(
        [item.cluster_name for item in binding.status.aggregated_status if knows.has_finished(item.status)]
    )


def has_unjudged_taint(spec: ResourceBindingSpec, clusters: Mapping[str, Cluster], rows: Iterable[Eviction]) -> bool:
    """Test whether a target cluster of the binding has an evicting taint that is not judged yet for this binding.

    Until it is judged, an edit of the policy may not reach the binding: the policy at the time of the taint counts
    [judged-once].
    """
    judged = {
        (row.cluster, judgement.key, judgement.effect, judgement.time_added) for row in rows for judgement in row.judged
    }
    return any(
        (target.name, taint.key, taint.effect, taint.time_added) not in judged
        for target in spec.clusters
        if target.name in clusters
        for taint in clusters[target.name].spec.taints
        if taint.effect in EVICTING_EFFECTS and taint.time_added is not None
    )


def earliest_judgement(judgements: Iterable[Judgement]) -> Judgement | None:
    """Return the judgement with the earliest due time. None: the copy stays."""
    evicting = [
        (judgement.due_at, judgement.key, judgement.effect, judgement)
        for judgement in judgements
        if judgement.due_at is not None
    ]
    return min(evicting, key=lambda item: item[:3])[3] if evicting else None


def stays_as_decided(spec: ResourceBindingSpec | PropagationSpec, cluster: Cluster, row: Eviction) -> Judgement | None:
    """Return the judgement by which a copy stays although `spec`, as it is now, would have a taint evict it.

    None: there is none, the copy leaves for another taint, or an operator skipped its eviction.
    """
    if row.due_at is not None:
        return None
    stored = {(entry.key, entry.effect, entry.time_added): entry for entry in row.judged}
    for taint in cluster.spec.taints:
        if taint.time_added is None or wait_seconds(spec, taint, cluster.spec.taints) is None:
            continue
        judged = stored.get((taint.key, taint.effect, taint.time_added))
        if judged is not None and judged.due_at is None:
            return judged
    return None

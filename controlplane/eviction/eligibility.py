"""Who has to leave a cluster, and when (D4, D5, D6).

A taint is judged once, when it appears: eligibility and waiting time are fixed per (binding, cluster, key, effect,
timeAdded), and later edits of tolerations or policies change nothing. A later taint is its own question; the earliest
due time wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.times import later
from controlplane.clusters.tolerations import tolerates
from controlplane.kinds.binding import ResourceBindingSpec
from controlplane.kinds.cluster import EVICTING_EFFECTS, NO_EXECUTE, Cluster, Taint
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import Eviction, Judgement

TaintIdentity = tuple[str, str, datetime | None]  # key, effect, timeAdded: what makes a taint the same taint


def judge_taints(
    spec: ResourceBindingSpec,
    cluster: Cluster,
    before: Iterable[Judgement],
    *,
    clocks_from: datetime,
    anew: bool = False,
) -> tuple[Judgement, ...]:
    """Return the judgements of one copy: those made before for taints still there, and new ones for new taints.

    `clocks_from`: no clock counts from earlier (gate on, end of blindness; D9, D17). `anew` judges everything again
    (eviction.reevaluate_policies). A taint without timeAdded is judged once it has one.
    """
    known = {} if anew else {(one.key, one.effect, one.time_added): one for one in before}
    taints = [one for one in cluster.spec.taints if one.effect in EVICTING_EFFECTS]
    found = []
    for taint in taints:
        if taint.time_added is None:
            continue
        old = known.get((taint.key, taint.effect, taint.time_added))
        seconds = wait_seconds(spec, taint, taints) if old is None else old.wait_seconds
        due = None if seconds is None else later(max(taint.time_added, clocks_from), seconds)
        found.append(Judgement(taint.key, taint.effect, taint.time_added, due, seconds))
    return tuple(found)


def has_unjudged_taint(spec: ResourceBindingSpec, clusters: Mapping[str, Cluster], rows: Iterable[Eviction]) -> bool:
    """Test whether a taint on one of the targets' clusters has not been judged yet for this binding (D6).

    Until then nothing a policy says may change: what counts is what held when the taint appeared.
    """
    known = {(row.cluster, one.key, one.effect, one.time_added) for row in rows for one in row.judged}
    return any(
        (target.name, taint.key, taint.effect, taint.time_added) not in known
        for target in spec.clusters
        if target.name in clusters
        for taint in clusters[target.name].spec.taints
        if taint.effect in EVICTING_EFFECTS and taint.time_added is not None
    )


def wait_seconds(spec: ResourceBindingSpec, taint: Taint, taints: Sequence[Taint]) -> float | None:
    """Return how many seconds after the taint a copy leaves; None: it stays.

    NoExecute asks the placement's tolerations: none that bears the taint means at once; otherwise the shortest of the
    tolerations in use (the first that bears each taint, semantics 2.5). PreferNoExecute asks failover.cluster (D4).
    """
    if taint.effect != NO_EXECUTE:
        behaviour = None if spec.failover is None else spec.failover.cluster
        return None if behaviour is None else float(behaviour.waits)
    tolerations = () if spec.placement is None else spec.placement.cluster_tolerations
    if _first_toleration(tolerations, taint) is None:
        return 0.0
    used = (_first_toleration(tolerations, one) for one in taints if one.effect == NO_EXECUTE)
    bearing = [one.toleration_seconds for one in used if one is not None and tolerates(one, taint)]
    return min((float(max(0, seconds)) for seconds in bearing if seconds is not None), default=None)


def _first_toleration(tolerations: Iterable[Toleration], taint: Taint) -> Toleration | None:
    return next((one for one in tolerations if tolerates(one, taint)), None)


def earliest_judgement(judgements: Iterable[Judgement]) -> Judgement | None:
    """Return the judgement that moves a copy first; None: it stays."""
    moving = [(one.due_at, one.key, one.effect, one) for one in judgements if one.due_at is not None]
    return min(moving, key=lambda found: found[:3])[3] if moving else None

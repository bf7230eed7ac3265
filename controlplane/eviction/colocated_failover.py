"""Parts of one application follow a part that left a cluster for being ill there (decision 0007; S002).

Where the policy says in so many words that its parts stay together, all of them do: elsewhere they would not find each
other. Where nothing is said, only what has no pods follows, once no part with pods is wanted on that cluster any more:
nothing that runs, with the data it may have, is moved because something beside it is ill. Who follows waits until the
part it follows has a place, and leaves as its policy says, like one that is ill itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.names import TOGETHER_ANNOTATION
from controlplane.eviction import application_failover
from controlplane.kinds.binding import APPLICATION_FAILURE, Binding
from controlplane.kinds.binding.colocation_index import YES
from controlplane.kinds.binding.colocation_index import application as application_of
from controlplane.scheduling.colocation import runs_pods
from controlplane.settings import Settings

ClustersLeft = Mapping[str, Iterable[str]]
"""By binding (reference as text) the clusters its present version has left for being ill there."""


def application_to_follow(binding: Binding) -> str:
    """Return the application whose parts have to be looked at since this one left a cluster for being ill there and has
    a place; "" where there is none."""
    return application_of(binding) if _clusters_left(binding) else ""


def clusters_to_follow_from(binding: Binding, parts: Iterable[Binding], moves: ClustersLeft) -> dict[str, str]:
    """Return the clusters a binding leaves to follow another part of its application, each with that part's name."""
    others = [one for one in parts if one.ref != binding.ref and one.metadata.deletion_timestamp is None]
    whole = binding.metadata.annotations.get(TOGETHER_ANNOTATION) == YES
    found: dict[str, str] = {}
    for leader in others:
        for cluster in _clusters_left(leader, moves.get(str(leader.ref), ())):
            if binding.spec.target(cluster) is None or binding.spec.task(cluster) is not None:
                continue
            if whole or (not runs_pods(binding) and not _pods_wanted_on(cluster, others)):
                found.setdefault(cluster, leader.metadata.name)
    return found


def with_following_tasks(
    binding: Binding, clusters: Mapping[str, str], settings: Settings, *, now: datetime
) -> tuple[Binding, dict[str, str]]:
    """Return a binding that leaves clusters to follow others, and what state is missing on those it therefore stays on
    (D15)."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.application
    if behaviour is None:
        return binding, {}
    after, missing = binding, dict[str, str]()
    for cluster, leader in clusters.items():
        state = application_failover.state_to_preserve(binding, cluster, behaviour, settings)
        if state.problem and settings.state_preservation_on_missing == "Hold":
            missing[cluster] = state.problem
            continue
        message = f"follows {leader}, which was unhealthy there"
        after = application_failover.with_application_task(
            after, binding, cluster, behaviour, state, message=message, now=now
        )
    return after, missing


def _clusters_left(binding: Binding, moves: Iterable[str] = ()) -> Sequence[str]:
    """Return the clusters that a binding with a place has left for being ill there, or for following one that was.
    `moves`: those known of it although the task there is over."""
    spec = binding.spec
    if not spec.clusters:
        return ()
    tasks = (one.from_cluster for one in spec.graceful_eviction_tasks if one.reason == APPLICATION_FAILURE)
    return [name for name in dict.fromkeys((*tasks, *moves)) if spec.target(name) is None]


def _pods_wanted_on(cluster: str, parts: Iterable[Binding]) -> bool:
    return any(runs_pods(one) and one.spec.target(cluster) is not None for one in parts)

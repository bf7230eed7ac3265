"""Groups that bindings belong to, which decide where the bindings may be placed.

These are the parts of one application (`scheduling.colocation`) and workload affinity groups (`scheduling.question`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.affinity_index import group_keys
from controlplane.kinds.binding.colocation_index import MAX_PARTS_READ, application
from controlplane.scheduling.question import Groups


def applications(state: State, bindings: Iterable[Binding]) -> Mapping[str, Sequence[Binding]]:
    """Return the bindings of the applications that these bindings are parts of, by application.

    No query is made if they are parts of none.
    """
    wanted = sorted({key for binding in bindings if (key := application(binding))})
    return state.by_index(RESOURCE_BINDING, "together", wanted, limit=MAX_PARTS_READ) if wanted else {}


def workload_groups(state: State, bindings: Iterable[Binding]) -> Groups:
    """Return the workload affinity groups of these bindings, with all members of each group and their clusters.

    No query is made if they are in no group.
    """
    wanted = sorted({key for binding in bindings for key in group_keys(binding)})
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for kind in BINDINGS if wanted else ():
        for key, members in state.by_index(kind, "group", wanted).items():
            namespace, relation, group = key.split("/", 2)
            placed = groups.setdefault((namespace, relation, group), {})
            for member in members:
                placed[member.metadata.name] = [target.name for target in member.spec.clusters]
    return groups

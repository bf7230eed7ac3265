"""What is around bindings, for whoever asks where they may go: the other parts of their applications
(`scheduling.colocation`), and their workload affinity groups (`scheduling.question`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.affinity_index import group_keys
from controlplane.kinds.binding.colocation_index import MAX_PARTS_READ, application
from controlplane.scheduling.question import Groups


def applications(state: State, bindings: Iterable[Binding]) -> Mapping[str, Sequence[Binding]]:
    """Return the parts of the applications that these bindings are parts of, by application; no query where they are
    parts of none."""
    wanted = sorted({key for one in bindings if (key := application(one))})
    return state.by_index(RESOURCE_BINDING, "together", wanted, limit=MAX_PARTS_READ) if wanted else {}


def workload_groups(state: State, bindings: Iterable[Binding]) -> Groups:
    """Return where the workload affinity groups of these bindings are, from all bindings in them; no query where they
    are in none."""
    wanted = sorted({key for one in bindings for key in group_keys(one)})
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for kind in BINDINGS if wanted else ():
        for key, members in state.by_index(kind, "group", wanted).items():
            namespace, way, group = key.split("/", 2)
            placed = groups.setdefault((namespace, way, group), {})
            for one in members:
                placed[one.metadata.name] = [target.name for target in one.spec.clusters]
    return groups

"""The bindings that are to leave or return next, with what else decides whether they can. A document that cannot be
read keeps only what depends on it from moving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.apart import apart
from controlplane.engine.state import State, Unreadable
from controlplane.kinds.binding import Binding
from controlplane.scheduling.question import Groups


class QueuedBindings(msgspec.Struct, frozen=True):
    """Bindings of the first rows of the eviction queue, or of a page of a Drain or Failback.

    labels: of their workloads; empty if nothing selects by labels.
    applications: by application, the bindings that are parts of it.
    groups: the workload affinity groups of these bindings.
    unread: by binding, why it cannot be read, or what it depends on.
    """

    bindings: Mapping[Ref, Binding] = {}
    labels: Mapping[Ref, dict[str, str]] = {}
    applications: Mapping[str, Sequence[Binding]] = {}
    groups: Groups = {}
    unread: Mapping[Ref, str] = {}


def queued_bindings(state: State, refs: Sequence[Ref], *, with_labels: bool) -> QueuedBindings:
    """Return the bindings in a constant number of queries; more only if one of them cannot be read."""
    found = QueuedBindings()
    for part, read in apart(refs, lambda some: _read(state, some, with_labels=with_labels)):
        if isinstance(read, Unreadable):
            found = msgspec.structs.replace(found, unread={**found.unread, part[0]: str(read)})
        else:
            found = QueuedBindings(
                {**found.bindings, **read.bindings},
                {**found.labels, **read.labels},
                {**found.applications, **read.applications},
                {**found.groups, **read.groups},
                found.unread,
            )
    return found


def _read(state: State, refs: Sequence[Ref], *, with_labels: bool) -> QueuedBindings:
    bindings: dict[Ref, Binding] = state.get(refs)
    listed = bindings.values()
    labels = workload_labels(state, listed) if with_labels else {}
    return QueuedBindings(bindings, labels, applications(state, listed), workload_groups(state, listed))

"""The labels of the workloads of bindings. EvictionHolds, MaintenanceWindows and Failbacks may select by them."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.binding import Binding
from controlplane.propagation.bindings import template_ref


def workload_labels(state: State, bindings: Iterable[Binding]) -> dict[Ref, dict[str, str]]:
    """Return the labels of the workloads of these bindings, by binding. Makes one query.

    Bindings whose workload was deleted are left out. Values of a Secret whose key is lost are not needed.
    """
    templates = {binding.ref: template_ref(binding) for binding in bindings}
    found = state.get(set(templates.values()), unopened=True)
    return {ref: found[name].metadata.labels for ref, name in templates.items() if name in found}

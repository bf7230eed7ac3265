"""The labels of the workloads bindings are for: holds and failbacks choose by them."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.binding import Binding
from controlplane.propagation.bindings import template_ref


def workload_labels(state: State, bindings: Iterable[Binding]) -> dict[Ref, dict[str, str]]:
    """Return the labels of workloads by their binding's reference; one query. Workloads that are gone are left out."""
    templates = {one.ref: template_ref(one) for one in bindings}
    found = state.get(set(templates.values()))
    return {ref: found[name].metadata.labels for ref, name in templates.items() if name in found}

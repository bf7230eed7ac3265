"""State preservation: values of a copy's status that the new copy gets as labels [state-preservation].

The values are read when the eviction is decided.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controlplane.apimachinery.jsonpath import JSONPathError, evaluate
from controlplane.apimachinery.selectors import label_value_errors
from controlplane.eviction.purge import purge_mode
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import DIRECTLY, StatePreservationRule
from controlplane.settings import Settings


class PreservedState(msgspec.Struct, frozen=True):
    """Labels for the new copy, and why a value could not be read ("": no value is missing)."""

    labels: dict[str, str] = {}
    problem: str = ""


def has_preservation_rules(binding: Binding) -> bool:
    """Test whether the policy of a binding has state preservation rules for cluster failover."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.cluster
    return behaviour is not None and behaviour.state_preservation is not None


def preserved_state(binding: Binding, cluster: str, settings: Settings) -> PreservedState:
    """Return the state to preserve from the copy on a cluster.

    It is empty unless the gate StatefulFailoverInjection is on, the purge mode is Directly and the binding has one
    target. A value that cannot be read is taken from the newest task that has it.
    """
    behaviour = None if binding.spec.failover is None else binding.spec.failover.cluster
    rules = behaviour.state_preservation.rules if behaviour is not None and behaviour.state_preservation else ()
    applies = settings.gate("StatefulFailoverInjection") and purge_mode(binding, settings) == DIRECTLY
    if not rules or not applies or len(binding.spec.clusters) != 1:
        return PreservedState()
    return read_state(binding, cluster, rules)


def missing_state_reason(state: PreservedState, cluster: str, settings: Settings) -> str:
    """Return why the copy on a cluster is held because of missing state; "": it may leave without."""
    held = state.problem and settings.state_preservation_on_missing == "Hold"
    return f"the state to carry over cannot be read from cluster {cluster}: {state.problem}" if held else ""


def read_state(binding: Binding, cluster: str, rules: Iterable[StatePreservationRule]) -> PreservedState:
    """Return what the rules find in the status of the copy on a cluster."""
    item = next((entry for entry in binding.status.aggregated_status if entry.cluster_name == cluster), None)
    status = None if item is None else item.status
    labels: dict[str, str] = {}
    problems: list[str] = []
    for rule in rules:
        value, problem = _read(rule.json_path, status)
        value = value or _earlier_value(binding, rule.alias_label_name)
        if value:
            labels[rule.alias_label_name] = value
        elif problem:
            problems.append(f"{rule.alias_label_name}: {problem}")
    return PreservedState(labels, "; ".join(problems))


def _read(path: str, status: dict[str, object] | None) -> tuple[str, str]:
    """Return the value, and why it cannot be used ("": it can)."""
    if status is None:
        return "", "no status was ever collected from the cluster"
    try:
        value = evaluate(path, status)
    except JSONPathError as error:
        return "", str(error)
    errors = label_value_errors(value)
    return ("", errors[0]) if errors else (value, "")


def _earlier_value(binding: Binding, label: str) -> str:
    """Return the newest value that an earlier eviction of the binding preserved; "" without one."""
    tasks = reversed(binding.spec.graceful_eviction_tasks)
    return next((value for task in tasks if (value := task.preserved_label_state.get(label))), "")

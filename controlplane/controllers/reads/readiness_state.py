"""The state of the fleet that the readiness of bindings depends on."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.fleet_state import FLEET_ROW, QUEUE_ROW, fleet_states
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.state import State
from controlplane.eviction.holds import Holds
from controlplane.insight.failure_outlook import Situation
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.scheduling.batch import may_depend_on_capacity
from controlplane.scheduling.ledger import RESERVATION_EXPIRY


def situation_of(state: State, bindings: Sequence[Binding] = ()) -> Situation:
    """Return the state of the fleet, with the groups and the labels of these bindings. A constant number of queries.

    Without bindings, neither groups nor reserved capacity are read.
    """
    holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)))
    clusters, policies = state.list(CLUSTER), state.list(CLUSTER_TAINT_POLICY)
    fleet, queue = fleet_states(state, FLEET_ROW, QUEUE_ROW)
    return with_bindings(state, Situation(clusters, policies, fleet, queue, holds), bindings)


def with_bindings(state: State, situation: Situation, bindings: Sequence[Binding]) -> Situation:
    """Return the state of the fleet with the groups, the labels and the reserved capacity of these bindings."""
    if not bindings:
        return situation
    holds, needs_totals = situation.holds, any(may_depend_on_capacity(binding.spec) for binding in bindings)
    if holds.needs_labels():
        holds = replace(holds, labels=workload_labels(state, bindings))
    return replace(
        situation,
        holds=holds,
        reserved_capacity=state.reserved_capacity(within=RESERVATION_EXPIRY, totals=needs_totals),
        applications=applications(state, bindings),
        groups=workload_groups(state, bindings),
    )

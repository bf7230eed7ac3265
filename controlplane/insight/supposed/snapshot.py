"""What a question of `insight.what_if` is answered from: the fleet, and the bindings that the changes may concern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.holds import Holds
from controlplane.insight.supposed.override_edits import Copies
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.policy import Policy
from controlplane.kinds.rows import Eviction, FleetState
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.kinds.template import Template
from controlplane.scheduling.question import Groups
from controlplane.settings import Settings


class Snapshot(msgspec.Struct, frozen=True):
    """The state of the fleet at one moment.

    bindings: all that the changes may concern, in the order of their references, namespaced ones first.
    rows: their rows of the eviction queue, by reference as text.
    holds: with the labels of the workloads of `bindings`.
    base: the settings without FailoverConfiguration/default.
    edited: policies and holds that the changes create or replace, as they would be stored.
    invalid: why others are refused.
    templates: the workloads that these policies, and deleted ones, select or have claimed. policies: all policies that
    select one of their kinds, or have claimed one. rescheduled: the bindings that the scheduler is asked about again.
    priorities: the value of each PriorityClass that these name.
    copies: what edited and deleted override policies select, or selected before.
    """

    clusters: tuple[Cluster, ...]
    bindings: Mapping[Ref, Binding] = {}
    rows: Mapping[str, Sequence[Eviction]] = {}
    taint_policies: Sequence[ClusterTaintPolicy] = ()
    fleet: FleetState = FleetState("default")
    holds: Holds = Holds()
    reserved_capacity: ReservedCapacity = ReservedCapacity()
    applications: Mapping[str, Sequence[Binding]] = {}
    groups: Groups = {}
    base: Settings = Settings()
    edited: Mapping[Ref, Policy | OverridePolicy | ClusterTaintPolicy | EvictionHold | MaintenanceWindow] = {}
    invalid: tuple[str, ...] = ()
    templates: Mapping[Ref, Template] = {}
    policies: Mapping[Ref, Policy] = {}
    rescheduled: frozenset[Ref] = frozenset()
    priorities: dict[str, int] = {}
    copies: tuple[Copies, ...] = ()

"""What must hold of every decision of the scheduler about a binding, whatever is asked of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.controllers.scheduler import Placing, Scheduler
from controlplane.decision import Put
from controlplane.kinds.binding import SCHEDULED, Binding, ResourceBindingSpec, ResourceBindingStatus, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity, Placement, SpreadConstraint
from controlplane.meta import ObjectMeta, condition
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.selectors import LabelSelector
from tests.properties.test_schedule import SETTINGS, bindings, clusters

NOW = datetime(2026, 1, 1, tzinfo=UTC)

UNMET: tuple[dict[str, Any], ...] = (
    {"cluster_affinity": ClusterAffinity(cluster_names=("nowhere",))},
    {"cluster_affinity": ClusterAffinity(label_selector=LabelSelector({"tier": "none"}))},
    {"spread_constraints": (SpreadConstraint("cluster", "", 99, 99),), "replica_scheduling": None},
    {
        "spread_constraints": (SpreadConstraint("region", "", 9, 9), SpreadConstraint("cluster", "", 9, 9)),
        "replica_scheduling": None,
    },
)


def decided(members: list[Cluster], wanted: ResourceBindingSpec, before: Placement) -> tuple[TargetCluster, ...]:
    """Return where a binding is after a decision; `before`: the placement its present result was made for."""
    meta = ObjectMeta(
        name="web", namespace="default", generation=2, annotations={APPLIED_PLACEMENT: applied_text(before)}
    )
    subject = Binding("work.karmada.io/v1alpha2", "ResourceBinding", meta, wanted, ResourceBindingStatus())
    decision = Scheduler().decide(Placing(subject, tuple(members), (), (), {}, {}), SETTINGS, now=NOW)
    found = next((one.new for one in decision.changes if isinstance(one, Put)), subject)
    said = condition(found.status.conditions, SCHEDULED)
    assert said is not None, "a changed placement is always decided about"
    assert said.status == "False", said
    return tuple(found.spec.clusters)


@given(clusters(), bindings(), st.sampled_from(UNMET))
def test_a_constraint_that_cannot_be_met_removes_no_running_copy(
    members: list[Cluster], wanted: ResourceBindingSpec, unmet: dict[str, Any]
) -> None:
    assert wanted.placement is not None
    harder = replace(wanted, placement=replace(wanted.placement, **unmet))

    assert decided(members, harder, wanted.placement) == wanted.clusters

"""A new object makes a controller look at it only if there is something to decide: 10,000 are 10,000 looks."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import CLUSTER_PROPAGATION_POLICY_ID_LABEL
from controlplane.controllers.deployment_replicas_syncer import DeploymentReplicasSyncer
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.readiness import Readiness
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor
from controlplane.kinds.binding import SCHEDULED, Binding, TargetCluster
from controlplane.kinds.policy import Placement, ReplicaSchedulingStrategy
from controlplane.kinds.template import Template
from controlplane.propagation import matching
from tests.builders.bare import binding, template

USER = Actor("jane")


def due(controller: Any, old: Any, new: Any) -> list[str]:
    """Return the names of the objects that a change makes due."""
    return [mark.ref.name for mark in Router([controller]).marks(old, new, by=USER)]


def new_binding(**spec: Any) -> Binding:
    return binding("web").with_spec(**{"placement": Placement(), **spec})


def claimed(old: Template, **labels: str) -> Template:
    """Return a template as the policies controller claims it for ClusterPropagationPolicy/all."""
    found = old.with_meta(
        labels={**old.metadata.labels, CLUSTER_PROPAGATION_POLICY_ID_LABEL: "id", **labels},
        annotations={"clusterpropagationpolicy.karmada.io/name": "all"},
    )
    assert matching.claimant(found) == ("", "all")
    return found


class TestEvictionQueue:
    def test_the_first_claim_of_a_template_makes_no_binding_due(self) -> None:
        old = template("web", labels={"app": "web"})
        assert due(EvictionQueue(), old, claimed(old)) == []

    def test_a_claim_with_another_label_makes_it_due(self) -> None:
        """EvictionHolds select by the labels of users."""
        old = template("web", labels={"app": "web"})
        assert len(due(EvictionQueue(), old, claimed(old, tier="gold"))) == 1

    def test_another_label_of_a_claimed_template_makes_it_due(self) -> None:
        old = claimed(template("web"))
        assert len(due(EvictionQueue(), old, claimed(old, tier="gold"))) == 1


class TestDeploymentReplicasSyncer:
    @pytest.mark.parametrize(("type_", "count"), [("Divided", 1), ("Duplicated", 0)])
    def test_only_a_divided_deployment_is_due_when_its_binding_is_scheduled(self, type_: str, count: int) -> None:
        """The replicas of a Duplicated Deployment never follow its members."""
        old = new_binding(placement=Placement(replica_scheduling=ReplicaSchedulingStrategy(type_)))
        new = old.with_status(scheduler_observed_generation=old.metadata.generation)
        assert len(due(DeploymentReplicasSyncer(), old, new)) == count


class TestReadiness:
    def test_a_new_binding_waits_for_the_scheduler(self) -> None:
        assert due(Readiness(), None, new_binding()) == []

    def test_it_is_due_once_it_is_placed(self) -> None:
        new = new_binding()
        assert due(Readiness(), new, new.with_spec(clusters=(TargetCluster("member1", 2),))) == ["web"]

    def test_it_is_due_once_the_scheduler_reports_why_it_fits_nowhere(self) -> None:
        new = new_binding()
        refused = new.with_status(conditions=(Condition(SCHEDULED, "False", "NoClusterFit", "none fits"),))
        assert due(Readiness(), new, refused) == ["web"]

    @pytest.mark.parametrize(
        "kept",
        [{"placement": None}, {"clusters": (TargetCluster("member1", 2),)}, {"scheduler_name": "other"}],
        ids=["no placement", "placed", "another scheduler"],
    )
    def test_a_new_binding_that_the_scheduler_leaves_alone_is_due(self, kept: dict[str, Any]) -> None:
        assert due(Readiness(), None, new_binding(**kept)) == ["web"]

    def test_the_next_report_of_the_scheduler_makes_it_due_only_with_another_placement(self) -> None:
        placed = new_binding(clusters=(TargetCluster("member1", 2),))
        again = placed.with_status(conditions=(Condition(SCHEDULED, "True", "Success", "again"),))
        assert due(Readiness(), placed, again) == []

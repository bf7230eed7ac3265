"""PlacementReview (failover.lifeboat.io/v1alpha1): a dry run of the scheduler for a workload. It is never stored."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.kinds.policy import Placement
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of


class SupposedClusters(Struct, frozen=True):
    """Assumed differences from the present clusters."""

    lost: Annotated[tuple[str, ...], Meta(description="Names of clusters assumed to be gone.")] = ()
    added: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="Clusters assumed to have joined, with the status they would have."),
    ] = ()
    changed: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="Merge patches of clusters, by metadata.name, with the fields that differ."),
    ] = ()


class PlacementReviewSpec(Struct, frozen=True):
    manifest: Annotated[dict[str, Any] | None, Meta(description="The workload to schedule, as you would apply it.")] = (
        None
    )
    policy: Annotated[
        dict[str, Any] | None, Meta(description="A (Cluster)PropagationPolicy, stored or not, whose placement is used.")
    ] = None
    placement: Annotated[Placement | None, Meta(description="A placement instead of a whole policy.")] = None
    clusters: SupposedClusters = SupposedClusters()
    binding: Annotated[
        str,
        Meta(
            description=(
                "An existing binding to start from: <namespace>/<name> of a ResourceBinding, <name> of a "
                "ClusterResourceBinding. Manifest and policy are then only needed if they differ from the binding."
            )
        ),
    ] = ""


class PlacementReviewStatus(Struct, frozen=True):
    """The result that the scheduler would have now."""

    outcome: str = ""  # Placed, ResultStands, NoClusterFit, Unschedulable, SchedulerError
    message: str = ""
    affinity_name: str = ""
    clusters: tuple[TargetCluster, ...] = ()
    explanation: dict[str, Any] | None = None  # a PlacementExplanation; None: the scheduler would decide nothing


class PlacementReview(Object, frozen=True):
    spec: PlacementReviewSpec = PlacementReviewSpec()
    status: PlacementReviewStatus = PlacementReviewStatus()


explain(
    {
        PlacementReview: BOTH,
        PlacementReviewSpec: "clusters: Assumed differences from the present clusters.",
        PlacementReviewStatus: """
outcome: Placed, ResultStands, NoClusterFit, Unschedulable or SchedulerError.
message: Explanation of the outcome.
affinity_name: Name of the cluster affinity that was used.
clusters: Clusters on which the workload would be placed.
explanation: Explanation for every cluster.
""",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "PlacementReview",
    "placementreviews",
    "placementreview",
    False,
    verbs=("create",),
)
KIND = Kind(resource=RESOURCE, type=PlacementReview, schema=lambda: schema_of(PlacementReview), has_generation=False)
"""Not registered, because it is never stored."""

"""PlacementReview (failover.lifeboat.io/v1alpha1): asks where something would go; answered at once, never stored."""

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
    """How the fleet shall differ from the present one."""

    lost: Annotated[tuple[str, ...], Meta(description="Names of clusters assumed to be gone.")] = ()
    added: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="Clusters assumed to have joined, with the status they would have."),
    ] = ()
    changed: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="Merge patches of clusters by metadata.name: only what shall be different."),
    ] = ()


class PlacementReviewSpec(Struct, frozen=True):
    manifest: Annotated[dict[str, Any] | None, Meta(description="What is to be placed, as you would apply it.")] = None
    policy: Annotated[
        dict[str, Any] | None, Meta(description="A (Cluster)PropagationPolicy, stored or not; its placement is used.")
    ] = None
    placement: Annotated[Placement | None, Meta(description="A placement instead of a whole policy.")] = None
    clusters: SupposedClusters = SupposedClusters()
    binding: Annotated[
        str,
        Meta(
            description=(
                "An existing binding to start from: <namespace>/<name> of a ResourceBinding, <name> of a "
                "ClusterResourceBinding. Manifest and policy are then only needed where they shall differ."
            )
        ),
    ] = ""


class PlacementReviewStatus(Struct, frozen=True):
    """What the scheduler would do now."""

    outcome: str = ""  # Placed, ResultStands, NoClusterFit, Unschedulable, SchedulerError
    message: str = ""
    affinity_name: str = ""
    clusters: tuple[TargetCluster, ...] = ()
    explanation: dict[str, Any] | None = None  # a PlacementExplanation; None where nothing would be decided


class PlacementReview(Object, frozen=True):
    spec: PlacementReviewSpec = PlacementReviewSpec()
    status: PlacementReviewStatus = PlacementReviewStatus()


explain(
    {
        PlacementReview: BOTH,
        PlacementReviewSpec: "clusters: Changes of the fleet to suppose.",
        PlacementReviewStatus: """
outcome: Whether a place was found.
message: Why, for people.
affinity_name: Name of the cluster affinity that was used.
clusters: Clusters it would be placed on.
explanation: Why, cluster by cluster.
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
    categories=("lifeboat",),
    verbs=("create",),
)
KIND = Kind(resource=RESOURCE, type=PlacementReview, schema=lambda: schema_of(PlacementReview), has_generation=False)
"""Not in the registry: it is never stored."""

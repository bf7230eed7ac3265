"""FleetReadiness (failover.lifeboat.io/v1alpha1): how much of the fleet would fail over. Made when asked for."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

NAME = "fleet"


class ObstacleCount(Struct, frozen=True):
    """An obstacle, how many bindings it concerns, what to do, and some of the bindings."""

    what: str
    severity: str
    bindings: int
    remedy: str
    examples: tuple[str, ...] = ()


class FleetReadinessStatus(Struct, frozen=True):
    """How many would, and what is in the way of the others."""

    bindings: Annotated[
        int,
        Meta(description="Bindings of the covered ones that have a place of their own: what the numbers are about."),
    ] = 0
    ready: Annotated[int, Meta(description="Those that would leave any of their clusters if it went down now.")] = 0
    bindings_total: Annotated[int, Meta(description="All bindings there are, of both scopes.")] = 0
    bindings_covered: Annotated[int, Meta(description="Bindings that were looked at for this answer.")] = 0
    message: Annotated[str, Meta(description="What the answer does not cover; empty: it covers all bindings.")] = ""
    obstacles: Annotated[
        tuple[ObstacleCount, ...],
        Meta(description="What is in the way, the most frequent first, with its remedy."),
    ] = ()


class FleetReadiness(Object, frozen=True):
    """How much of the fleet would fail over now. Made when it is asked for."""

    status: FleetReadinessStatus = FleetReadinessStatus()


def _worst(doc: dict[str, Any], now: Any) -> str:
    found = doc.get("status", {}).get("obstacles", ())
    return ", ".join(f"{one['what']}:{one['bindings']}" for one in found[:3])


def _covered(doc: dict[str, Any], now: Any) -> str:
    status = doc.get("status", {})
    return f"{status.get('bindingsCovered', 0)}/{status.get('bindingsTotal', 0)}"


explain(
    {
        FleetReadiness: BOTH,
        ObstacleCount: """
what: The obstacle, in one word.
severity: How bad it is.
bindings: Number of bindings it concerns.
remedy: What to do.
examples: Some of the bindings.
""",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "FleetReadiness",
    "fleetreadinesses",
    "fleetreadiness",
    False,
    categories=("lifeboat",),
    columns=(
        Column("Bindings", cells.field("status", "bindings", default=0), type="integer"),
        Column("Ready", cells.field("status", "ready", default=0), type="integer"),
        Column("Covered", _covered, description="Bindings looked at, of all there are."),
        Column("Obstacles", _worst),
    ),
    verbs=("get", "list"),
)
KIND = Kind(resource=RESOURCE, type=FleetReadiness, schema=lambda: schema_of(FleetReadiness), has_generation=False)
"""Not in the registry: it is never stored."""

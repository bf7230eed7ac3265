"""FleetReadiness (failover.lifeboat.io/v1alpha1): how much of the fleet would fail over. Made when asked for."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.kind import Kind
from controlplane.meta import Object, Struct
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

    bindings: Annotated[int, Meta(description="All there are.")] = 0
    ready: Annotated[int, Meta(description="Those that would leave any of their clusters if it went down now.")] = 0
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


RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "FleetReadiness",
    "fleetreadinesses",
    "fleetreadiness",
    False,
    categories=("lifeboat",),
    columns=(
        Column("Bindings", lambda doc, now: doc.get("status", {}).get("bindings", 0), type="integer"),
        Column("Ready", lambda doc, now: doc.get("status", {}).get("ready", 0), type="integer"),
        Column("Obstacles", _worst),
    ),
    verbs=("get", "list"),
)
KIND = Kind(resource=RESOURCE, type=FleetReadiness, schema=lambda: schema_of(FleetReadiness), has_generation=False)
"""Not in the registry: it is never stored."""

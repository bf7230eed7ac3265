"""FleetReadiness (failover.lifeboat.io/v1alpha1): how many bindings would fail over now.

It is computed from the stored answers for the bindings (`rows.BindingReadiness`).
"""

from __future__ import annotations

from datetime import datetime
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
    """An obstacle to failovers, the number of bindings it concerns, and what to do about it."""

    what: str
    severity: str
    bindings: int
    remedy: str
    examples: tuple[str, ...] = ()


class VerdictCount(Struct, frozen=True):
    """The number of bindings with a verdict."""

    verdict: str
    bindings: int


class FleetReadinessStatus(Struct, frozen=True):
    """The number of bindings that would fail over, and the obstacles of the others."""

    bindings: Annotated[
        int,
        Meta(
            description="Covered bindings with a placement of their own. Attached bindings follow others and are "
            "not counted."
        ),
    ] = 0
    ready: Annotated[
        int, Meta(description="Bindings that would fail over from each of their clusters if it failed now.")
    ] = 0
    bindings_total: Annotated[int, Meta(description="Number of all ResourceBindings and ClusterResourceBindings.")] = 0
    bindings_covered: Annotated[int, Meta(description="Bindings that this answer covers.")] = 0
    bindings_outdated: Annotated[
        int,
        Meta(
            description="Covered bindings whose answer may be outdated, because the binding or the fleet changed and "
            "the binding is not checked again yet."
        ),
    ] = 0
    oldest_answer_time: Annotated[
        datetime | None,
        Meta(
            description="When the last check of all bindings began. Each answer was computed later, or was checked "
            "then. Absent: the first check is not over."
        ),
    ] = None
    message: Annotated[str, Meta(description="What the answer does not cover. Empty: it covers all bindings.")] = ""
    verdicts: Annotated[
        tuple[VerdictCount, ...],
        Meta(
            description="Number of bindings by verdict: Ready, Impaired (would move, with restrictions), Blocked and "
            "Attached. Obstacles that concern the whole fleet are left out of verdicts."
        ),
    ] = ()
    obstacles: Annotated[
        tuple[ObstacleCount, ...],
        Meta(description="Obstacles, the most frequent first, each with its remedy."),
    ] = ()


class FleetReadiness(Object, frozen=True):
    """How many bindings would fail over now, and the obstacles of the others, from stored answers for each binding."""

    status: FleetReadinessStatus = FleetReadinessStatus()


def _worst(doc: dict[str, Any], now: Any) -> str:
    obstacles = doc.get("status", {}).get("obstacles", ())
    return ", ".join(f"{obstacle['what']}:{obstacle['bindings']}" for obstacle in obstacles[:3])


def _covered(doc: dict[str, Any], now: Any) -> str:
    status = doc.get("status", {})
    return f"{status.get('bindingsCovered', 0)}/{status.get('bindingsTotal', 0)}"


explain(
    {
        FleetReadiness: BOTH,
        VerdictCount: """
verdict: Ready, Impaired, Blocked or Attached.
bindings: Number of bindings with this verdict.
""",
        ObstacleCount: """
what: Obstacle in one word.
severity: Blocks if it prevents failovers, Warns if not.
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
        Column("Covered", _covered, description="Bindings that the answer covers, of all bindings."),
        Column("Outdated", cells.field("status", "bindingsOutdated", default=0), type="integer"),
        Column("Obstacles", _worst),
    ),
    verbs=("get", "list"),
)
KIND = Kind(resource=RESOURCE, type=FleetReadiness, schema=lambda: schema_of(FleetReadiness), has_generation=False)
"""Not registered, because it is never stored."""

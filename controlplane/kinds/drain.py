"""Drain (failover.lifeboat.io/v1alpha1): empties a cluster, gracefully and at a rate of its own (D20)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from controlplane.apimachinery.causes import forbidden, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, Struct, UserStruct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, PROGRESS, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

DRAIN = "failover.lifeboat.io/Drain"
RUNNING, PAUSED, STOPPED, FINISHED = "Running", "Paused", "Stopped", "Finished"


class DrainSpec(UserStruct, frozen=True):
    """Which cluster is emptied, and how fast."""

    cluster: Annotated[str, Meta(description="The cluster to empty. It is cordoned first; uncordon it yourself.")] = ""
    rate: Annotated[float, Meta(description="Bindings per second, at most.")] = 0.5
    stop: Annotated[bool, Meta(description="Nothing more leaves; what is leaving goes on. false resumes.")] = False
    reason: Annotated[str, Meta(description="What for: it stands in the Events and tasks of what leaves.")] = ""


class Remaining(Struct, frozen=True):
    """A binding that cannot leave yet."""

    binding: str
    message: str


class DrainStatus(Struct, frozen=True):
    phase: Annotated[str, Meta(description="Running, Paused, Stopped or Finished.")] = ""
    message: Annotated[str, Meta(description="Why it is paused or finished, or how many cannot leave.")] = ""
    moved: Annotated[int, Meta(description="Bindings that began to leave.")] = 0
    leaving: Annotated[int, Meta(description="Bindings whose old copy is still there.")] = 0
    remaining: Annotated[int, Meta(description="Bindings that have not begun.")] = 0
    cannot_leave: Annotated[tuple[Remaining, ...], Meta(description="The first of those that cannot, and why.")] = ()
    blocked: Annotated[int, Meta(description="How many cannot, of those its present round has looked at.")] = 0
    after: Annotated[str, Meta(description="The binding its present round has come to. Unset: it begins.")] = ""
    tokens: Annotated[float, Meta(description="In its own bucket, at countedAt.")] = 0.0
    counted_at: datetime | None = None
    finish_time: datetime | None = None


class Drain(Object, frozen=True):
    """Empties a cluster, gracefully and at a rate of its own. It gives way to failures: evictions that are due, a fleet
    that is not well."""

    spec: DrainSpec = DrainSpec()
    status: DrainStatus = DrainStatus()


def validate(new: Drain, old: Drain | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a drain."""
    causes = []
    if not new.spec.cluster:
        causes.append(required("spec.cluster", "name the cluster to empty"))
    if old is not None and old.spec.cluster != new.spec.cluster:
        causes.append(forbidden("spec.cluster", "a drain stays with its cluster; create another one"))
    if new.spec.rate <= 0:
        causes.append(invalid("spec.rate", new.spec.rate, "must be greater than 0; set spec.stop to pause"))
    return causes


explain({Drain: BOTH, DrainStatus: PROGRESS, Remaining: PROGRESS})

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "Drain",
            "drains",
            "drain",
            False,
            categories=("lifeboat",),
            subresources=("status",),
            columns=(
                Column("Cluster", cells.field("spec", "cluster")),
                Column("Phase", cells.field("status", "phase")),
                Column("Moved", cells.field("status", "moved", default=0), type="integer"),
                Column("Leaving", cells.field("status", "leaving", default=0), type="integer"),
                Column("Remaining", cells.field("status", "remaining", default=0), type="integer"),
                Column("Message", cells.field("status", "message"), priority=1),
            ),
        ),
        type=Drain,
        schema=lambda: schema_of(Drain),
        validate=validate,
    ),
)

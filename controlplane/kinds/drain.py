"""Drain (failover.lifeboat.io/v1alpha1): evicts all copies from a cluster, gracefully and at its own rate
[unjoin-and-drain]."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from controlplane.apimachinery.causes import forbidden, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, Struct, UserStruct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, PROGRESS, explain
from controlplane.kinds.order_rate import rate_causes
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

DRAIN = "failover.lifeboat.io/Drain"
RUNNING, PAUSED, STOPPED, FINISHED = "Running", "Paused", "Stopped", "Finished"


class DrainSpec(UserStruct, frozen=True):
    """The cluster to drain, and the rate."""

    cluster: Annotated[
        str, Meta(description="The cluster to drain. The drain cordons it first. Uncordon it yourself afterwards.")
    ] = ""
    rate: Annotated[float, Meta(description="Maximum number of bindings per second.")] = 0.5
    stop: Annotated[
        bool, Meta(description="true stops the drain. Evictions that have started continue. false resumes it.")
    ] = False
    reason: Annotated[str, Meta(description="Reason of the drain. It is shown in Events and eviction tasks.")] = ""


class Remaining(Struct, frozen=True):
    """A binding that cannot be evicted yet."""

    binding: str
    message: str


class DrainStatus(Struct, frozen=True):
    phase: Annotated[str, Meta(description="Running, Paused, Stopped or Finished.")] = ""
    message: Annotated[
        str, Meta(description="Why the drain is paused or finished, or how many bindings cannot be evicted.")
    ] = ""
    moved: Annotated[int, Meta(description="Bindings whose eviction has started.")] = 0
    departing: Annotated[
        tuple[str, ...],
        Meta(
            description="Bindings whose eviction was decided at the last check. moved includes them. The next check "
            "subtracts those that are still on the cluster, because their eviction was not stored."
        ),
    ] = ()
    leaving: Annotated[int, Meta(description="Bindings whose old copy still exists.")] = 0
    remaining: Annotated[int, Meta(description="Bindings whose eviction has not started.")] = 0
    cannot_leave: Annotated[
        tuple[Remaining, ...], Meta(description="The first bindings that cannot be evicted, and why.")
    ] = ()
    blocked: Annotated[int, Meta(description="Number of bindings in the current round that cannot be evicted.")] = 0
    finished: Annotated[
        int, Meta(description="Copies in the current round that have finished, such as complete Jobs. They stay.")
    ] = 0
    after: Annotated[
        str, Meta(description="The last binding checked in the current round. Unset: the round has not started.")
    ] = ""
    tokens: Annotated[float, Meta(description="Tokens in the bucket of the drain at countedAt.")] = 0.0
    counted_at: datetime | None = None
    finish_time: datetime | None = None


class Drain(Object, frozen=True):
    """Evicts all copies from a cluster, gracefully and at its own rate.

    It pauses while evictions because of failures are due, and while too many clusters are unhealthy.
    """

    spec: DrainSpec = DrainSpec()
    status: DrainStatus = DrainStatus()


def validate(new: Drain, old: Drain | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a drain."""
    causes = []
    if not new.spec.cluster:
        causes.append(required("spec.cluster", "name the cluster to drain"))
    if old is not None and old.spec.cluster != new.spec.cluster:
        causes.append(forbidden("spec.cluster", "must not change; create another Drain for another cluster"))
    before = None if old is None else old.spec.rate
    return [*causes, *rate_causes(new.spec.rate, before, advice="; set spec.stop to pause")]


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
            fields=("spec.cluster",),
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

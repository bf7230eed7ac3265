"""FailoverRecord (failover.lifeboat.io/v1alpha1): one failover of a binding, as a person reads it. Never stored.

It is assembled from the change log each time somebody asks (`controlplane.insight.record`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.binding import ObjectReference, TargetCluster
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

RUNNING, FINISHED = "Running", "Finished"
SEEN, TAINTED, DECIDED, SCHEDULED, STARTED = "Seen", "Tainted", "Decided", "Scheduled", "Started"
WAITED_FOR, HEALTHY, CLEARED, REMOVED = "WaitedFor", "Healthy", "Cleared", "Removed"


class Step(Struct, frozen=True):
    """One thing that happened, and the change that says so."""

    at: datetime
    seconds: Annotated[float, Meta(description="Since the first step.")]
    what: Annotated[
        str,
        Meta(description="Seen, Tainted, Decided, Scheduled, Started, WaitedFor, Healthy, Cleared or Removed."),
    ]
    cluster: str = ""
    message: str = ""
    by: Annotated[str, Meta(description="The controller or person that wrote the change.")] = ""
    rule: Annotated[str, Meta(description="The reason the change was written for.")] = ""
    version: Annotated[int, Meta(description="The resourceVersion of the change.")] = 0
    cause: Annotated[int, Meta(description="The resourceVersion of the change acted upon; 0 unknown.")] = 0


class Durations(Struct, frozen=True):
    """Seconds each part took; absent where it did not happen or goes on."""

    detected: Annotated[float | None, Meta(description="From the failure being seen to the taint.")] = None
    waited: Annotated[float | None, Meta(description="From the taint to the eviction: tolerated, queued, held.")] = None
    scheduled: Annotated[float | None, Meta(description="From the eviction to the new placement.")] = None
    started: Annotated[float | None, Meta(description="From the new placement to all of it being healthy.")] = None
    total: Annotated[float | None, Meta(description="From the first step to the old copies being let go.")] = None


class FailoverRecordStatus(Struct, frozen=True):
    """What happened, step by step."""

    binding: Annotated[str, Meta(description="Kind, namespace and name of the binding.")] = ""
    resource: Annotated[ObjectReference, Meta(description="The workload.")] = ObjectReference("", "", "")
    state: Annotated[str, Meta(description="Running or Finished.")] = ""
    reason: Annotated[
        str,
        Meta(description="Why: TaintUntolerated, ApplicationFailure, Drain, Failback, FailbackInPart, Reverted."),
    ] = ""
    purge_mode: Annotated[str, Meta(description="Gracefully, Directly or Never.")] = ""
    left: Annotated[tuple[TargetCluster, ...], Meta(description="The clusters it left, and how many replicas.")] = ()
    before: Annotated[tuple[TargetCluster, ...], Meta(description="Where it was.")] = ()
    after: Annotated[tuple[TargetCluster, ...], Meta(description="Where it is placed since, or was at the end.")] = ()
    preserved: Annotated[dict[str, str], Meta(description="Labels that carried state to the new copy.")] = {}
    durations: Durations = Durations()
    steps: Annotated[tuple[Step, ...], Meta(description="What happened, in order.")] = ()


class FailoverRecord(Object, frozen=True):
    """One failover of a binding: seen, decided, waited for, moved, with seconds and by which rule. Read from the change
    log when it is asked for."""

    status: FailoverRecordStatus = FailoverRecordStatus()


def _names(field: str) -> Any:
    def cell(doc: dict[str, Any], now: Any) -> str:
        return ",".join(one["name"] for one in doc.get("status", {}).get(field, ()))

    return cell


explain(
    {
        FailoverRecord: BOTH,
        FailoverRecordStatus: "durations: Seconds that each part took.",
        Step: "at: When it happened.\ncluster: Cluster it is about.\nmessage: What happened, for people.",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "FailoverRecord",
    "failoverrecords",
    "failoverrecord",
    True,
    short_names=("fr",),
    categories=("lifeboat",),
    columns=(
        Column("Binding", cells.field("status", "binding")),
        Column("Left", _names("left")),
        Column("After", _names("after")),
        Column("State", cells.field("status", "state")),
        Column("Reason", cells.field("status", "reason")),
        Column("Seconds", cells.field("status", "durations", "total")),
    ),
    verbs=("get", "list"),
)
KIND = Kind(resource=RESOURCE, type=FailoverRecord, schema=lambda: schema_of(FailoverRecord), has_generation=False)
"""Not in the registry: it is never stored."""

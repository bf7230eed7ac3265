"""FailoverRecord (failover.lifeboat.io/v1alpha1): a report about a failover of a binding. It is never stored.

It is made from the change log for every request (`controlplane.insight.record`).
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
    """A step of a failover, and the change in which it was recorded."""

    at: datetime
    seconds: Annotated[float, Meta(description="Seconds since the first step.")]
    what: Annotated[
        str,
        Meta(description="Seen, Tainted, Decided, Scheduled, Started, WaitedFor, Healthy, Cleared or Removed."),
    ]
    cluster: str = ""
    message: str = ""
    by: Annotated[str, Meta(description="Controller or user that wrote the change.")] = ""
    rule: Annotated[str, Meta(description="Reason for which the change was written.")] = ""
    version: Annotated[int, Meta(description="resourceVersion of the change.")] = 0
    cause: Annotated[int, Meta(description="resourceVersion of the change that caused this change. 0: unknown.")] = 0


class Durations(Struct, frozen=True):
    """The seconds that each part took. Unset: the part did not happen, or is not finished."""

    detected: Annotated[float | None, Meta(description="From the detection of the failure to the taint.")] = None
    waited: Annotated[
        float | None, Meta(description="From the taint to the eviction, while tolerated, queued or held.")
    ] = None
    scheduled: Annotated[float | None, Meta(description="From the eviction to the new placement.")] = None
    started: Annotated[float | None, Meta(description="From the new placement until all copies are healthy.")] = None
    total: Annotated[float | None, Meta(description="From the first step until the old copies are released.")] = None


class FailoverRecordStatus(Struct, frozen=True):
    """The steps and results of the failover."""

    binding: Annotated[str, Meta(description="Kind, namespace and name of the binding.")] = ""
    resource: Annotated[ObjectReference, Meta(description="The workload.")] = ObjectReference("", "", "")
    state: Annotated[str, Meta(description="Running or Finished.")] = ""
    reason: Annotated[
        str,
        Meta(
            description="Why: TaintUntolerated, ApplicationFailure, Drain, Failback, FailbackInPart, Reverted, "
            "RevertedInPart, RestoredInPart."
        ),
    ] = ""
    purge_mode: Annotated[str, Meta(description="Gracefully, Directly or Never.")] = ""
    left: Annotated[
        tuple[TargetCluster, ...], Meta(description="Clusters that the binding left, and replicas there.")
    ] = ()
    before: Annotated[tuple[TargetCluster, ...], Meta(description="Clusters before the failover.")] = ()
    after: Annotated[tuple[TargetCluster, ...], Meta(description="Clusters after the failover.")] = ()
    preserved: Annotated[
        dict[str, str], Meta(description="Labels with the preserved state that the new copy got.")
    ] = {}
    durations: Durations = Durations()
    steps: Annotated[tuple[Step, ...], Meta(description="Steps in the order of their times.")] = ()


class FailoverRecord(Object, frozen=True):
    """A report about a failover of a binding: its steps, their times and their reasons.

    It is read from the change log for every request.
    """

    status: FailoverRecordStatus = FailoverRecordStatus()


def _names(field: str) -> Any:
    def cell(doc: dict[str, Any], now: Any) -> str:
        return ",".join(target["name"] for target in doc.get("status", {}).get(field, ()))

    return cell


explain(
    {
        FailoverRecord: BOTH,
        FailoverRecordStatus: "durations: Seconds that each part took.",
        Step: "at: When it happened.\ncluster: Cluster of the step.\nmessage: Explanation of the step.",
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
    verbs=("get", "list", "watch"),
)
KIND = Kind(resource=RESOURCE, type=FailoverRecord, schema=lambda: schema_of(FailoverRecord), has_generation=False)
"""Not registered, because it is never stored."""

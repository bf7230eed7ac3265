"""Drill (failover.lifeboat.io/v1alpha1): a game day on purpose, with criteria and a report that is kept."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from controlplane.apimachinery.causes import forbidden, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Condition, Object, Struct, UserStruct
from controlplane.apimachinery.selectors import LabelSelector, dns1123_label_errors, matches, selector_errors
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, PROGRESS, explain
from controlplane.kinds.order_rate import rate_causes
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

DRILL: Final = "failover.lifeboat.io/Drill"
SIMULATED, DRAIN = "Simulated", "Drain"
MODES: Final = (SIMULATED, DRAIN)
RUNNING, RETURNING, FINISHED, STOPPED = "Running", "Returning", "Finished", "Stopped"
PASSED, FAILED = "Passed", "Failed"
COMPLETE: Final = "Complete"  # condition type; the reason is the phase, later the result
OF_DRILL: Final = "failover.lifeboat.io/drill"
"""Label of a Drain or Failback that a Drill has created: the name of the Drill."""

# Criteria, as `status.verdicts` names them.
DURATION, WITHOUT_PLACE, HEALTHY_COPIES = "maxDurationSeconds", "maxWithoutPlace", "minHealthyCopies"
LONGEST_SECONDS = 7 * 24 * 3600
MOST_SIMULATED: Final = 2000  # bindings of a simulated drill: about a second in a worker
LONGEST_NAME = 63  # it is the value of a label of its Drains


class DrillCriteria(UserStruct, frozen=True):
    """What the drill has to achieve. It has passed if all criteria are met."""

    max_duration_seconds: Annotated[
        int,
        Meta(
            description="Seconds within which all workloads have to be moved. A drill of mode Drain is ended "
            "when they have passed. A simulated drill compares the estimate with them."
        ),
    ] = 3600
    max_without_place: Annotated[
        int, Meta(description="How many workloads may stay because there is no place for them, or because of a hold.")
    ] = 0
    min_healthy_copies: Annotated[
        int,
        Meta(
            description="How many healthy copies each workload needs all the time, checked every 5 seconds. 0: not "
            "checked. A simulated drill does not check it."
        ),
    ] = 1


class DrillSpec(UserStruct, frozen=True):
    """The clusters to practise with, the workloads that are watched, and the criteria."""

    mode: Annotated[
        str,
        Meta(
            description="Simulated: computes what the loss of the clusters would do, and changes nothing; at most 2000 "
            "workloads, What if answers about more. Drain: "
            "empties the clusters with Drains. They stay cordoned afterwards, unless spec.returns is set."
        ),
    ] = SIMULATED
    clusters: Annotated[
        tuple[str, ...], Meta(description="The clusters that are lost or drained, all at the same time.")
    ] = ()
    namespaces: Annotated[
        tuple[str, ...],
        Meta(description="The criteria count workloads in these namespaces. Unset: in all. All workloads move."),
    ] = ()
    selector: Annotated[
        LabelSelector | None,
        Meta(description="The criteria count workloads with these labels. Unset: all. All workloads move."),
    ] = None
    rate: Annotated[float, Meta(description="Mode Drain: maximum number of bindings per second and cluster.")] = 0.5
    returns: Annotated[
        bool,
        Meta(
            description="Mode Drain: afterwards uncordon the clusters, and return the workloads with Failbacks. "
            "Clusters that were cordoned before stay cordoned. The drill has failed if not all workloads return."
        ),
    ] = False
    criteria: DrillCriteria = DrillCriteria()
    stop: Annotated[
        bool, Meta(description="true ends the drill and stops its Drains and Failbacks. It cannot be resumed.")
    ] = False
    reason: Annotated[str, Meta(description="What the drill is about. It is shown in Events and in the Drains.")] = ""

    def watches(self, namespace: str, labels: dict[str, str]) -> bool:
        """Test whether the criteria count a workload."""
        return (not self.namespaces or namespace in self.namespaces) and (
            self.selector is None or matches(self.selector, labels)
        )


class Verdict(Struct, frozen=True):
    """A criterion, and whether it was met."""

    criterion: str
    limit: Annotated[float, Meta(description="The value of spec.criteria.")]
    measured: Annotated[float | None, Meta(description="The measured value. Unset: it could not be measured.")] = None
    passed: bool = False
    message: str = ""


class Finding(Struct, frozen=True):
    """A workload that a criterion was not met for, or that needs attention."""

    binding: str
    message: str


class DrillStatus(Struct, frozen=True):
    """The progress, and the report when it is over."""

    phase: Annotated[str, Meta(description="Running, Returning, Finished or Stopped.")] = ""
    result: Annotated[str, Meta(description="Passed or Failed. Unset: the drill is not over, or was stopped.")] = ""
    message: Annotated[str, Meta(description="The result in a sentence, or the progress.")] = ""
    start_time: Annotated[datetime | None, Meta(description="When the drill began.")] = None
    finish_time: datetime | None = None
    duration_seconds: Annotated[
        float | None, Meta(description="How long it took. Simulated: the estimate. Unset: it is not known.")
    ] = None
    workloads: Annotated[int, Meta(description="Workloads on the clusters that the criteria count.")] = 0
    moved: Annotated[int, Meta(description="Those that left the clusters, or would leave them.")] = 0
    returned: Annotated[int, Meta(description="Workloads that the Failbacks have returned.")] = 0
    idle_since: Annotated[
        datetime | None,
        Meta(description="With returns: since when no workload can return. They are tried again for 2 minutes."),
    ] = None
    cordoned_before: Annotated[
        tuple[str, ...], Meta(description="Clusters that were cordoned when the drill began.")
    ] = ()
    without_place: Annotated[
        int, Meta(description="Those that stayed because there was no place for them, or because of a hold.")
    ] = 0
    staying: Annotated[
        int, Meta(description="Simulated: those that tolerate the loss, so that they stay where they are.")
    ] = 0
    waiting_for_person: Annotated[
        int, Meta(description="Simulated: those whose new copies start only after an action of a person.")
    ] = 0
    least_healthy_copies: Annotated[
        int | None, Meta(description="The lowest number of healthy copies that any of them had. Unset: not checked.")
    ] = None
    verdicts: Annotated[tuple[Verdict, ...], Meta(description="Each criterion, and whether it was met.")] = ()
    findings: Annotated[
        tuple[Finding, ...], Meta(description="The first workloads for which a criterion was not met.")
    ] = ()
    remarks: Annotated[tuple[str, ...], Meta(description="What else was found, and what to do afterwards.")] = ()
    conditions: Annotated[
        tuple[Condition, ...], Meta(description="Complete is True when the drill is over; the reason is its result.")
    ] = ()


class Drill(Object, frozen=True):
    """A game day on purpose: clusters are lost in a simulation, or drained, and criteria decide whether it has passed.

    The report stays in the status until the Drill is deleted.
    """

    spec: DrillSpec = DrillSpec()
    status: DrillStatus = DrillStatus()

    @property
    def is_over(self) -> bool:
        return self.status.phase in (FINISHED, STOPPED)


def drain_name(drill: Drill, cluster: str) -> str:
    """Return the name of the Drain, and of the Failback, that a drill creates for a cluster."""
    return f"{drill.metadata.name}-{cluster}"


def validate(new: Drill, old: Drill | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a drill, as far as they do not depend on other objects."""
    spec, criteria, causes = new.spec, new.spec.criteria, list[Cause]()
    if spec.mode not in MODES:
        causes.append(unsupported("spec.mode", spec.mode, MODES))
    if len(new.metadata.name) > LONGEST_NAME:
        causes.append(invalid("metadata.name", new.metadata.name, f"must have at most {LONGEST_NAME} characters"))
    if not spec.clusters:
        causes.append(required("spec.clusters", "name the clusters to practise with"))
    causes += rate_causes(spec.rate, None if old is None else old.spec.rate)
    for index, name in enumerate(spec.namespaces):
        causes += [invalid(f"spec.namespaces[{index}]", name, rule) for rule in dns1123_label_errors(name)]
    if spec.selector is not None:
        for field, message in selector_errors(spec.selector):
            causes.append(invalid(f"spec.selector.{field}", spec.selector, message))
    if not 1 <= criteria.max_duration_seconds <= LONGEST_SECONDS:
        rule = f"must be from 1 to {LONGEST_SECONDS}"
        causes.append(invalid("spec.criteria.maxDurationSeconds", criteria.max_duration_seconds, rule))
    for field, value in (
        ("maxWithoutPlace", criteria.max_without_place),
        ("minHealthyCopies", criteria.min_healthy_copies),
    ):
        if value < 0:
            causes.append(invalid(f"spec.criteria.{field}", value, "must not be negative"))
    if old is not None:
        same = msgspec.structs.replace(old.spec, stop=spec.stop)
        if spec != same:
            causes.append(
                forbidden("spec", "only stop may change; create another Drill for other clusters or criteria")
            )
        elif old.spec.stop and not spec.stop:
            causes.append(invalid("spec.stop", False, "a drill that was stopped is over: create another Drill"))
    return causes


def _clusters(doc: dict[str, Any], now: datetime) -> str:
    return ",".join(doc.get("spec", {}).get("clusters", ()))


explain(
    {
        Drill: BOTH,
        DrillSpec: "criteria: What the drill has to achieve.",
        DrillStatus: PROGRESS,
        Verdict: """
criterion: Field of spec.criteria.
passed: Whether the criterion was met.
message: Explanation.
""",
        Finding: PROGRESS,
    }
)

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "Drill",
            "drills",
            "drill",
            False,
            categories=("lifeboat",),
            subresources=("status",),
            columns=(
                Column("Mode", cells.field("spec", "mode")),
                Column("Clusters", _clusters),
                Column("Phase", cells.field("status", "phase")),
                Column("Result", cells.field("status", "result")),
                Column("Workloads", cells.field("status", "workloads", default=0), type="integer"),
                Column("Moved", cells.field("status", "moved", default=0), type="integer"),
                Column("Seconds", cells.field("status", "durationSeconds")),
                Column("Message", cells.field("status", "message"), priority=1),
            ),
        ),
        type=Drill,
        schema=lambda: schema_of(Drill),
        validate=validate,
    ),
)

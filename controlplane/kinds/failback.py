"""Failback (failover.lifeboat.io/v1alpha1): brings back what has left its clusters, by somebody's word (D19, D23)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.causes import immutable, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Condition, Object, Struct, UserStruct
from controlplane.apimachinery.selectors import LabelSelector, selector_errors
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, PROGRESS, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

FAILBACK = "failover.lifeboat.io/Failback"
RUNNING, PAUSED, STOPPED, PLANNED, FAILED, FINISHED = "Running", "Paused", "Stopped", "Planned", "Failed", "Finished"
COMPLETE = "Complete"  # condition type; its reason says what a Failback that is not complete is at

MOST_AT_ONCE = 100
SUBJECT = ("cluster", "binding", "selector")


class FailbackSpec(UserStruct, frozen=True):
    """What goes back, and how fast. Of cluster, binding and selector all that is given has to fit."""

    cluster: Annotated[str, Meta(description="Back to this cluster: everything that left it.")] = ""
    binding: Annotated[
        str,
        Meta(description="One binding: <namespace>/<name> of a ResourceBinding, <name> of a ClusterResourceBinding."),
    ] = ""
    selector: Annotated[LabelSelector | None, Meta(description="On the labels of the workloads.")] = None
    rate: Annotated[float, Meta(description="Bindings per second, at most.")] = 0.5
    at_once: Annotated[
        int, Meta(description="Bindings on their way back at the same time, at most; the first failure stops the rest.")
    ] = 10
    dry_run: Annotated[bool, Meta(description="Nothing moves; status.planned says what would.")] = False
    stop: Annotated[bool, Meta(description="Nothing more goes back; what is on its way goes on. false resumes.")] = (
        False
    )
    reason: Annotated[str, Meta(description="What for: it stands in the Events and tasks of what goes back.")] = ""


class Staying(Struct, frozen=True):
    """A binding that cannot go back yet, or whose way back failed."""

    binding: str
    message: str
    cluster: str = ""


class Returning(Struct, frozen=True):
    """A binding on its way back: its old copies stay until the one it goes back to is healthy."""

    binding: str
    cluster: str
    since: datetime


class Planned(Struct, frozen=True):
    """What would go back."""

    binding: str
    cluster: str
    replicas: int = 0
    leaves: tuple[str, ...] = ()


class FailbackStatus(Struct, frozen=True):
    phase: Annotated[str, Meta(description="Planned, Running, Paused, Stopped, Failed or Finished.")] = ""
    message: Annotated[str, Meta(description="Why it is paused, has failed or is finished; what is planned.")] = ""
    returned: Annotated[int, Meta(description="Bindings that are back, and healthy there.")] = 0
    remaining: Annotated[
        int, Meta(description="Bindings that have not begun; what a selector leaves out counts until it is looked at.")
    ] = 0
    returning: Annotated[tuple[Returning, ...], Meta(description="What is on its way.")] = ()
    cannot_return: Annotated[tuple[Staying, ...], Meta(description="The first of those that cannot, and why.")] = ()
    blocked: Annotated[int, Meta(description="How many cannot, of those its present round has looked at.")] = 0
    planned: Annotated[tuple[Planned, ...], Meta(description="With dryRun: what would go back.")] = ()
    failed: Annotated[Staying | None, Meta(description="The failure it stopped at. stop: true and false go on.")] = None
    conditions: Annotated[tuple[Condition, ...], Meta(description="Complete: True once everything is back.")] = ()
    tokens: Annotated[float, Meta(description="In its own bucket, at countedAt.")] = 0.0
    counted_at: datetime | None = None
    after: Annotated[str, Meta(description="The binding its present round has come to. Unset: it begins.")] = ""
    finish_time: datetime | None = None


class Failback(Object, frozen=True):
    """Brings back what has left its clusters, one binding after the other, until the first failure."""

    spec: FailbackSpec = FailbackSpec()
    status: FailbackStatus = FailbackStatus()


def validate(new: Failback, old: Failback | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a failback, as far as it can be said without looking at anything else."""
    spec, causes = new.spec, []
    if not spec.cluster and not spec.binding and spec.selector is None:
        causes.append(required("spec", "name what goes back: spec.cluster, spec.binding or spec.selector"))
    if spec.selector is not None:
        for field, message in selector_errors(spec.selector):
            causes.append(invalid(f"spec.selector.{field}", spec.selector, message))
    if spec.rate <= 0:
        causes.append(invalid("spec.rate", spec.rate, "must be greater than 0; set spec.stop to pause"))
    if not 1 <= spec.at_once <= MOST_AT_ONCE:
        causes.append(invalid("spec.atOnce", spec.at_once, f"must be from 1 to {MOST_AT_ONCE}"))
    if old is not None:
        causes += [
            immutable(f"spec.{name}", getattr(spec, name))
            for name in SUBJECT
            if getattr(spec, name) != getattr(old.spec, name)
        ]
    return causes


def _subject(doc: dict[str, Any], now: datetime) -> str:
    spec = doc.get("spec", {})
    named = [f"{name} {spec[name]}" for name in ("cluster", "binding") if spec.get(name)]
    return ", ".join(named + (["selector"] if spec.get("selector") is not None else []))


explain({Failback: BOTH, FailbackStatus: PROGRESS, Returning: PROGRESS, Staying: PROGRESS, Planned: PROGRESS})

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "Failback",
            "failbacks",
            "failback",
            False,
            categories=("lifeboat",),
            subresources=("status",),
            columns=(
                Column("Subject", _subject),
                Column("Phase", cells.field("status", "phase")),
                Column("Returned", cells.field("status", "returned", default=0), type="integer"),
                Column("Returning", lambda doc, now: len(doc.get("status", {}).get("returning", ())), type="integer"),
                Column("Remaining", cells.field("status", "remaining", default=0), type="integer"),
                Column("Message", cells.field("status", "message"), priority=1),
            ),
        ),
        type=Failback,
        schema=lambda: schema_of(Failback),
        validate=validate,
    ),
)

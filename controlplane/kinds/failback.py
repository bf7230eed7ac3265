"""Failback (failover.lifeboat.io/v1alpha1): returns bindings to the clusters they left in a failover, on request
[recovered-clusters]."""

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
from controlplane.kinds.order_rate import rate_causes
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

FAILBACK = "failover.lifeboat.io/Failback"
RUNNING, PAUSED, STOPPED, PLANNED, FAILED, FINISHED = "Running", "Paused", "Stopped", "Planned", "Failed", "Finished"
COMPLETE = "Complete"  # condition type; the reason is the phase of a Failback that is not complete

MOST_AT_ONCE = 100
SUBJECT = ("cluster", "binding", "selector")


class FailbackSpec(UserStruct, frozen=True):
    """The bindings to return, and the rate. A binding has to match cluster, binding and selector, as far as they are
    set."""

    cluster: Annotated[str, Meta(description="Return the bindings that left this cluster.")] = ""
    binding: Annotated[
        str,
        Meta(
            description="Return this binding: <namespace>/<name> of a ResourceBinding, <name> of a "
            "ClusterResourceBinding."
        ),
    ] = ""
    selector: Annotated[LabelSelector | None, Meta(description="Return workloads with these labels.")] = None
    rate: Annotated[float, Meta(description="Maximum number of bindings per second.")] = 0.5
    at_once: Annotated[
        int,
        Meta(
            description="Maximum number of bindings that return at the same time. The first failure stops the failback."
        ),
    ] = 10
    dry_run: Annotated[bool, Meta(description="true moves nothing. status.planned shows what would move.")] = False
    stop: Annotated[
        bool, Meta(description="true stops the failback. Returns that have started continue. false resumes it.")
    ] = False
    reason: Annotated[str, Meta(description="Reason of the failback. It is shown in Events and eviction tasks.")] = ""


class Staying(Struct, frozen=True):
    """A binding that cannot return yet, or whose return failed."""

    binding: str
    message: str
    cluster: str = ""


class Returning(Struct, frozen=True):
    """A binding that is returning. Its other copies stay until the copy on the cluster it returns to is healthy."""

    binding: str
    cluster: str
    since: datetime


class Planned(Struct, frozen=True):
    """A return that a dry run planned."""

    binding: str
    cluster: str
    replicas: int = 0
    leaves: tuple[str, ...] = ()


class FailbackStatus(Struct, frozen=True):
    phase: Annotated[str, Meta(description="Planned, Running, Paused, Stopped, Failed or Finished.")] = ""
    message: Annotated[str, Meta(description="Why the failback is paused, failed or finished, or what is planned.")] = (
        ""
    )
    returned: Annotated[int, Meta(description="Bindings that have returned and are healthy.")] = 0
    remaining: Annotated[
        int,
        Meta(
            description="Bindings whose return has not started. Bindings that the selector excludes count until "
            "they are checked."
        ),
    ] = 0
    returning: Annotated[tuple[Returning, ...], Meta(description="Bindings that are returning.")] = ()
    cannot_return: Annotated[
        tuple[Staying, ...], Meta(description="The first bindings that cannot return, and why.")
    ] = ()
    blocked: Annotated[int, Meta(description="Number of bindings in the current round that cannot return.")] = 0
    planned: Annotated[tuple[Planned, ...], Meta(description="With dryRun: the returns that would start.")] = ()
    failed: Annotated[
        Staying | None,
        Meta(description="The failure that stopped the failback. To continue, set stop to true and then to false."),
    ] = None
    conditions: Annotated[
        tuple[Condition, ...], Meta(description="Complete is True when all bindings have returned.")
    ] = ()
    tokens: Annotated[float, Meta(description="Tokens in the bucket of the failback at countedAt.")] = 0.0
    counted_at: datetime | None = None
    after: Annotated[
        str, Meta(description="The last binding checked in the current round. Unset: the round has not started.")
    ] = ""
    finish_time: datetime | None = None


class Failback(Object, frozen=True):
    """Returns bindings to the clusters they left in a failover, one after the other, until the first failure."""

    spec: FailbackSpec = FailbackSpec()
    status: FailbackStatus = FailbackStatus()


def validate(new: Failback, old: Failback | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a failback, as far as they do not depend on other objects."""
    spec, causes = new.spec, []
    if not spec.cluster and not spec.binding and spec.selector is None:
        causes.append(
            required("spec", "set spec.cluster, spec.binding or spec.selector to choose the bindings that return")
        )
    if spec.selector is not None:
        for field, message in selector_errors(spec.selector):
            causes.append(invalid(f"spec.selector.{field}", spec.selector, message))
    before = None if old is None else old.spec.rate
    causes += rate_causes(spec.rate, before, advice="; set spec.stop to pause")
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
            fields=("spec.cluster",),
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

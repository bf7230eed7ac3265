"""Drain (failover.lifeboat.io/v1alpha1): empties a cluster, gracefully and at a rate of its own (D20)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from controlplane.causes import forbidden, invalid, required
from controlplane.errors import Cause
from controlplane.kind import Kind
from controlplane.meta import Object, Struct
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

DRAIN = "failover.lifeboat.io/Drain"
RUNNING, PAUSED, STOPPED, FINISHED = "Running", "Paused", "Stopped", "Finished"


class DrainSpec(Struct, frozen=True):
    cluster: Annotated[str, Meta(description="The cluster to empty. It is cordoned first; uncordon it yourself.")] = ""
    rate: Annotated[float, Meta(description="Bindings per second, at most.")] = 0.5
    stop: Annotated[bool, Meta(description="Nothing more leaves; what is leaving goes on. false resumes.")] = False
    reason: str = ""


class Remaining(Struct, frozen=True):
    """A binding that cannot leave yet."""

    binding: str
    message: str


class DrainStatus(Struct, frozen=True):
    phase: str = ""
    message: str = ""
    moved: int = 0  # bindings that began to leave
    leaving: int = 0  # bindings whose old copy is still there
    remaining: int = 0  # bindings that have not begun
    cannot_leave: tuple[Remaining, ...] = ()  # the first of them
    blocked: int = 0  # how many there are, of those its present round has looked at
    after: str = ""  # the binding its present round has come to; "" it begins
    tokens: float = 0.0  # of its own bucket, at `counted_at`
    counted_at: datetime | None = None
    finish_time: datetime | None = None


class Drain(Object, frozen=True):
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


def _status(field: str, absent: Any = "") -> Any:
    return lambda doc, now: doc.get("status", {}).get(field, absent)


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
                Column("Cluster", lambda doc, now: doc.get("spec", {}).get("cluster", "")),
                Column("Phase", _status("phase")),
                Column("Moved", _status("moved", 0), type="integer"),
                Column("Leaving", _status("leaving", 0), type="integer"),
                Column("Remaining", _status("remaining", 0), type="integer"),
                Column("Message", _status("message"), priority=1),
            ),
        ),
        type=Drain,
        schema=lambda: schema_of(Drain),
        validate=validate,
    ),
)

"""FleetStatus (failover.lifeboat.io/v1alpha1): the state of the fleet in a sentence and in figures. It is never stored.

`kubectl get fleetstatus`, the command `lifeboat status` and the page Situation of the console show the same object,
GET /apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet. `controlplane.insight.situation` computes it, and
`apps/api/fleet_status.py` reads what it is computed from, with a constant number of queries.
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

# Severity of a member or of a thing to do.
BAD, WARN, OK = "Bad", "Warn", "OK"


class MemberStatus(Struct, frozen=True):
    """A cluster as the fleet sees it."""

    name: str
    state: Annotated[
        str, Meta(description="Ready, NotReady, Unknown, AccessLost, Flapping, Joining (never Ready yet) or Leaving.")
    ] = ""
    severity: Annotated[str, Meta(description="Bad, Warn or OK. The list begins with the worst.")] = OK
    since: Annotated[datetime | None, Meta(description="Since when the cluster is in this state.")] = None
    message: Annotated[str, Meta(description="Explanation of the state. Empty: there is nothing to explain.")] = ""
    region: str = ""
    provider: str = ""
    taints: Annotated[tuple[str, ...], Meta(description="key:effect of each taint.")] = ()
    in_maintenance: Annotated[bool, Meta(description="A MaintenanceWindow of the cluster is open.")] = False
    workloads: Annotated[int, Meta(description="Bindings that are placed on the cluster.")] = 0
    queued: Annotated[int, Meta(description="Copies whose eviction is queued.")] = 0
    held: Annotated[int, Meta(description="Copies whose eviction is held.")] = 0
    moving: Annotated[int, Meta(description="Evicted copies that are kept until their replacement is healthy.")] = 0
    moved: Annotated[int, Meta(description="Copies that have moved away since the cluster failed.")] = 0


class HeldCount(Struct, frozen=True):
    """A reason for which evictions are held, and their number."""

    reason: str
    evictions: int
    message: str = ""


class QueueStatus(Struct, frozen=True):
    """The eviction queue in figures."""

    queued: int = 0
    held: int = 0
    held_by: Annotated[tuple[HeldCount, ...], Meta(description="The held evictions by reason, most first.")] = ()
    moving: Annotated[int, Meta(description="Evicted copies that are kept until their replacement is healthy.")] = 0
    moved: Annotated[int, Meta(description="Copies that have moved away from clusters that are not Ready now.")] = 0
    stuck: Annotated[
        int,
        Meta(
            description="Moving copies whose time is over: the replacement is not healthy, or a lost cluster does not "
            "confirm that they are gone. Copies with suppressDeletion do not count."
        ),
    ] = 0
    stuck_is_more: Annotated[bool, Meta(description="More copies are stuck than were counted.")] = False
    recovering: Annotated[int, Meta(description="Evictions that wait because their cluster is Ready again.")] = 0
    tier: Annotated[str, Meta(description="Normal, Secondary, Stopped or Blind.")] = ""
    rate: Annotated[float, Meta(description="Evictions per second in each bucket. 0: nothing is evicted.")] = 0.0
    why: Annotated[str, Meta(description="Why this rate applies.")] = ""
    ends_at: Annotated[
        datetime | None,
        Meta(description="Estimated time of the last queued eviction. Unset: nothing is queued or evicted."),
    ] = None


class Attention(Struct, frozen=True):
    """Something that needs an operator, with its remedy."""

    what: Annotated[
        str,
        Meta(
            description="Blind, Stopped, NoTokens, NotObserved, GateOff, Paused, NeverReady, AccessLost, "
            "DirectlyWaiting, Stuck, Held, Flapping or CredentialExpires."
        ),
    ]
    severity: str
    message: str
    remedy: Annotated[str, Meta(description="What to do.")]
    command: Annotated[str, Meta(description="A command that helps. Empty: there is none.")] = ""
    cluster: Annotated[str, Meta(description="The cluster it concerns. Empty: the fleet.")] = ""
    since: datetime | None = None


class Pause(Struct, frozen=True):
    """An open EvictionHold over the whole fleet."""

    name: str
    reason: str = ""
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None


class Prepared(Struct, frozen=True):
    """How many workloads would fail over if one of their clusters failed."""

    workloads: int
    ready: int
    at: Annotated[datetime | None, Meta(description="Age of the oldest answer that is counted.")] = None


class LastDrill(Struct, frozen=True):
    """The newest Drill and its result."""

    name: str
    mode: Annotated[str, Meta(description="Simulated or Drain.")] = ""
    result: Annotated[str, Meta(description="Passed, Failed, Stopped or Running.")] = ""
    message: Annotated[str, Meta(description="The result in a sentence.")] = ""
    at: Annotated[datetime | None, Meta(description="When it was over; while it runs, when it began.")] = None


class FleetStatusStatus(Struct, frozen=True):
    """The state of the fleet."""

    sentence: Annotated[str, Meta(description="The state of the fleet in one or two sentences.")] = ""
    severity: Annotated[str, Meta(description="Bad, Warn or OK.")] = OK
    clusters: int = 0
    ready: Annotated[int, Meta(description="Clusters that are Ready and grant access.")] = 0
    ready_since: Annotated[
        datetime | None, Meta(description="Since when all clusters are Ready. Unset: not all are.")
    ] = None
    workloads: Annotated[int, Meta(description="Copies of workloads on all clusters.")] = 0
    queue: QueueStatus = QueueStatus()
    attention: Annotated[tuple[Attention, ...], Meta(description="What needs an operator, the worst first.")] = ()
    pauses: Annotated[tuple[Pause, ...], Meta(description="Open EvictionHolds over the whole fleet.")] = ()
    readiness: Annotated[Prepared | None, Meta(description="Unset: not computed yet.")] = None
    last_drill: Annotated[LastDrill | None, Meta(description="The newest Drill. Unset: there is none.")] = None
    members: Annotated[tuple[MemberStatus, ...], Meta(description="All clusters, the worst first.")] = ()
    as_of: Annotated[datetime | None, Meta(description="The time of these figures.")] = None


class FleetStatus(Object, frozen=True):
    """The state of the fleet in a sentence and in figures. It is computed for every request."""

    status: FleetStatusStatus = FleetStatusStatus()


def _ready(doc: dict[str, Any], now: Any) -> str:
    status = doc.get("status", {})
    return f"{status.get('ready', 0)}/{status.get('clusters', 0)}"


def _paused(doc: dict[str, Any], now: Any) -> str:
    return ", ".join(pause.get("who") or pause["name"] for pause in doc.get("status", {}).get("pauses", ()))


def _rate(doc: dict[str, Any], now: Any) -> str:
    queue = doc.get("status", {}).get("queue", {})
    return f"{queue.get('rate', 0):g}/s {queue.get('tier', '')}".rstrip()


explain(
    {
        FleetStatus: BOTH,
        MemberStatus: """
name: Name of the cluster.
region: Region of the cluster.
provider: Provider of the cluster.
""",
        HeldCount: """
reason: NoRefuge, StateMissing, OnHold, Maintenance, Flapping, HeldByHand or Unreadable.
evictions: Number of evictions held for this reason.
message: The reason in words.
""",
        QueueStatus: """
queued: Copies whose eviction is queued.
held: Copies whose eviction is held.
""",
        Attention: """
severity: Bad or Warn.
message: What is wrong.
since: Since when.
""",
        Pause: """
name: Name of the EvictionHold.
reason: Why evictions are paused.
who: Who paused them.
since: Since when.
until: When the hold expires. Unset: when it is deleted.
""",
        LastDrill: "name: Name of the Drill.",
        Prepared: """
workloads: Bindings whose readiness is known.
ready: Those that would fail over from each of their clusters.
""",
        FleetStatusStatus: """
clusters: Number of clusters.
queue: The eviction queue in figures.
""",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "FleetStatus",
    "fleetstatuses",
    "fleetstatus",
    False,
    categories=("lifeboat",),
    columns=(
        Column("Ready", _ready, description="Clusters that are Ready, of all clusters."),
        Column("Queued", cells.field("status", "queue", "queued", default=0), type="integer"),
        Column("Held", cells.field("status", "queue", "held", default=0), type="integer"),
        Column("Moving", cells.field("status", "queue", "moving", default=0), type="integer"),
        Column("Moved", cells.field("status", "queue", "moved", default=0), type="integer"),
        Column("Stuck", cells.field("status", "queue", "stuck", default=0), type="integer"),
        Column("Rate", _rate),
        Column("Ends", cells.field("status", "queue", "endsAt")),
        Column("Paused", _paused, description="Who pauses all evictions."),
        Column("Sentence", cells.field("status", "sentence"), priority=1),
    ),
    verbs=("get", "list"),
)
KIND = Kind(resource=RESOURCE, type=FleetStatus, schema=lambda: schema_of(FleetStatus), has_generation=False)
"""Not registered, because it is never stored."""

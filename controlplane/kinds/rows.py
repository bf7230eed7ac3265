"""Row-native values: facts that change often or in bulk and need neither a version nor a place in the change log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.kinds.cluster import APIEnablement, NodeSummary, ResourceSummary


class Row(Struct, frozen=True):
    """A value stored under `key`. `INDEXES` names the fields it is looked up by; each says who reads it. `MADE` names
    the field that tells a value from a later one under its key ("": none): a Drop of the one leaves the other."""

    key: str
    INDEXES: ClassVar[dict[str, str]] = {}
    MADE: ClassVar[str] = ""
    NUMBERED: ClassVar[tuple[str, ...]] = ()
    """Fields that give a value a new number, the highest so far, when they change. The store numbers such values in the
    order they are stored and notes in `writer` which controller stored them."""

    @property
    def made(self) -> Any:
        """What tells this value from a later one under its key; None where nothing does."""
        return getattr(self, self.MADE) if self.MADE else None


class Observation(Row, frozen=True):
    """What probes and heartbeats last said of a cluster (key: its name), before debounce, by the store's clock."""

    status: str = ""  # last observed: True, False, Unknown; "" never observed
    reason: str = ""
    message: str = ""
    since: datetime | None = None  # when it last crossed between True and not True, unobserved time taken out
    observed_at: datetime | None = None  # when anybody last looked
    access_lost: str = ""  # why access was lost (401, 403, TLS, our own fault); "" it was not (D22)
    access_reason: str = ""  # the same in one word, a condition's reason
    renewed_at: datetime | None = None  # last sign of life of a Pull member's agent, unobserved time taken out
    collected_at: datetime | None = None  # when version, APIs and resources were last read
    unobserved_seconds: float = 0.0  # how long, in all, nobody observed the cluster: such time counts for nothing (D3)
    resumed_at: datetime | None = None  # when somebody looked again after the last such time
    turns: int = 0  # how often it crossed between True and not True, ever (fault 3)
    turned_at: tuple[datetime, ...] = ()  # the latest of those moments, oldest first, unobserved time taken out
    answered_at: datetime | None = None  # last probe answered with "ready", or last heartbeat received; never moved


class Collected(Row, frozen=True):
    """What was last read from a healthy member (key: the cluster's name): version, APIs, nodes and resources."""

    kubernetes_version: str = ""
    api_enablements: tuple[APIEnablement, ...] = ()
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    unread: tuple[str, ...] = ()  # API versions that did not answer; `api_enablements` has what was read of them last
    at: datetime | None = None


class MatchWindow(Row, frozen=True):
    """Since when a ClusterTaintPolicy's conditions hold, or no longer hold, on a cluster (D3). key: policy|cluster."""

    policy: str = ""
    cluster: str = ""
    rule: str = ""  # digest of the policy's target and conditions: editing them starts the window anew
    matching: bool = False
    since: datetime | None = None
    unobserved_seconds: float = 0.0  # the observation's total when the window began
    ready: str = ""  # status of Ready when it was last looked at, where the conditions ask for Ready
    ready_since: datetime | None = None

    INDEXES: ClassVar[dict[str, str]] = {
        "cluster": "controllers.cluster_taints: all windows of a cluster in one query",
        "policy": "controllers.garbage: windows of policies that are gone",
    }


class Judgement(Struct, frozen=True):
    """What one taint means for one copy, fixed when the taint appeared (D6). `due_at` None: it stays."""

    key: str
    effect: str
    time_added: datetime
    due_at: datetime | None = None
    wait_seconds: float | None = None  # between the taint and the eviction; None: for ever


QUEUED, HELD, RECOVERING = "Queued", "Held", "Recovering"
EVICTED, ABANDONED = "Evicted", "Abandoned"
ENDED = (EVICTED, ABANDONED)

# Why an eviction is held: until capacity changes, until holds, windows and flapping change, until it is released.
NO_REFUGE, STATE_MISSING = "NoRefuge", "StateMissing"
ON_HOLD, MAINTENANCE, UNSTEADY = "OnHold", "Maintenance", "Flapping"
HELD_BY_HAND = "HeldByHand"
SKIPPED = "Skipped"  # why one is abandoned


class Eviction(Row, frozen=True):
    """A copy that taints want away from a cluster: an item of the eviction queue (D6, D7). key: binding ref|cluster.

    Rows of copies that stay (`due_at` None) are kept too: they record that eligibility was decided. Rows of what was
    evicted or abandoned stay until the cluster recovers: figures of an outage are computed from them.
    """

    binding: str = ""  # Ref as text
    cluster: str = ""
    resource_kind: str = ""  # apiVersion/Kind of the template, for metrics
    priority: int = 0
    due_at: datetime | None = None
    queued_at: datetime | None = None
    state: str = QUEUED
    reason: str = ""  # why it is held
    message: str = ""
    generation: int = 0  # of the binding when it was last looked at: an edit makes a held one looked at again
    judged: tuple[Judgement, ...] = ()
    failed_at: datetime | None = None  # when it first found no refuge (evict_success_rate)
    ended_at: datetime | None = None  # None: it still waits, or stays

    @property
    def held(self) -> bool:
        """Whether it is held, or was and is only being looked at again. Any other reason that a queued row has is over;
        the row keeps it so that nobody is told twice where it is not."""
        return self.state == HELD or (self.state == QUEUED and self.reason in (NO_REFUGE, STATE_MISSING))

    INDEXES: ClassVar[dict[str, str]] = {
        "binding": "controllers.eviction_queue: all evictions of a binding in one query",
        "cluster": "controllers.eviction_queue: what recovery drops; metrics per cluster",
        "state": "controllers.evictions: held ones looked at again when capacity changes",
    }


class UnhealthyCopies(Row, frozen=True):
    """Since when which copies of a binding (key: its Ref as text) are unhealthy, for application failover."""

    since: dict[str, datetime] = {}  # by cluster
    version: str = ""  # of the workload, as `eviction.application_failover.workload_version` returns it
    moves: dict[str, datetime] = {}  # clusters this version has left for being unhealthy, and when


class Stop(Struct, frozen=True):
    """A time in which the tier, a rate of 0 or the lack of tokens let nothing be evicted. `until` None: it goes on."""

    since: datetime
    why: str
    until: datetime | None = None


QueuePosition = tuple[int, datetime, str]
"""A place in the eviction queue, ageing aside: priority, due time, key (D7)."""


class FleetState(Row, frozen=True):
    """What is remembered of the fleet as a whole: blindness (D9) and when the gate was opened (D17).

    Keys "default" and "tier" (`tier`, `stops`) are written by controllers.fleet_watch, key "queue" (`capacity`,
    `holds`, `scope`, `cursor`, `stops`) by controllers.evictions.
    """

    blind_since: datetime | None = None  # None: at least one cluster is not faulty
    sighted_at: datetime | None = None  # when the last blindness ended: timers restart from here
    failover_on_since: datetime | None = None
    capacity: str = ""  # digest of the clusters when held evictions were last looked at
    holds: str = ""  # digest of holds and windows when held evictions were last looked at
    tier: str = ""  # name of the tier that was last told; "" it was always Normal
    stops: tuple[Stop, ...] = ()  # the latest, oldest first
    scope: str = ""  # eviction.bucket_scope when the queue was last looked at
    cursor: QueuePosition | None = None  # how far held evictions have been looked at again; None: all have been


class CapacityReservation(Row, frozen=True):
    """Capacity promised to a Work that no status has counted yet. key: binding ref|cluster.

    `reserved`: kept free by an eviction for what the scheduler places next, which takes it or gives it back; its key
    ends in |refuge.
    """

    binding: str = ""
    cluster: str = ""
    replicas: int = 0
    request: str = ""  # what one replica (or set) asks for, as JSON
    made_at: datetime | None = None
    applied_at: datetime | None = None  # when its Work was first seen applied; a report from later counts it
    reserved: bool = False
    writer: str = ""  # the controller that stored it last; set by the store

    INDEXES: ClassVar[dict[str, str]] = {
        "cluster": "controllers.scheduler and promises: what is promised on clusters",
        "binding": "controllers.scheduler: a binding's own promises are replaced",
    }
    MADE: ClassVar[str] = "made_at"  # an eviction may reserve anew while controllers.reservations ends what nobody took
    NUMBERED: ClassVar[tuple[str, ...]] = ("replicas", "request", "made_at")  # of them depends what a ledger counts


class PlacementHint(Row, frozen=True):
    """Where an eviction found room for a binding (key: its Ref): the scheduler takes it where it still holds (D10)."""

    generation: int = 0  # of the binding it was worked out for
    clusters: dict[str, int] = {}


class PlacementNote(Row, frozen=True):
    """Why a binding (key: its Ref as text) went where it went, or nowhere (scheduling.note). Texts are JSON."""

    decision: str = ""  # Summary
    detail: str = ""  # Detail; clusters are places in the names of `fleet`
    previous: str = ""  # the decision before; "" there was none
    fleet: str = ""  # key of FleetNames

    INDEXES: ClassVar[dict[str, str]] = {"fleet": "controllers.fleet_names: which fleets some note speaks of"}


class FleetNames(Row, frozen=True):
    """The names of a fleet's clusters in order, as a JSON list, under the digest of them (key)."""

    names: str = ""


class Sweep(Row, frozen=True):
    """How far controllers.garbage has looked through a kind (key: the kind) in its present round."""

    after_namespace: str = ""
    after_name: str = ""


ROWS: tuple[type[Row], ...] = (
    Observation,
    Collected,
    MatchWindow,
    Eviction,
    UnhealthyCopies,
    FleetState,
    CapacityReservation,
    PlacementHint,
    PlacementNote,
    FleetNames,
    Sweep,
)


def eviction_key(binding: Ref, cluster: str) -> str:
    """Return the key of a queue item: one per binding and cluster."""
    return f"{binding}|{cluster}"


def window_key(policy: str, cluster: str) -> str:
    """Return the key of a match window: one per policy and cluster."""
    return f"{policy}|{cluster}"

"""Rows: values that change often or in bulk, and are stored without a resourceVersion and without the change log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.kinds.cluster import APIEnablement, NodeSummary, ResourceSummary
from controlplane.kinds.obstacle import Obstacle


class Row(Struct, frozen=True):
    """A value that is stored under a key.

    `INDEXES` has the fields by which rows are found, each with its readers. `MADE` is the name of the field that
    distinguishes a row from a later row under the same key ("": none): dropping the old row does not drop the new one.
    """

    key: str
    INDEXES: ClassVar[dict[str, str]] = {}
    MADE: ClassVar[str] = ""
    NUMBERED: ClassVar[tuple[str, ...]] = ()
    """Fields whose change gives a row a new number, which is higher than all numbers before.

    The store assigns the numbers, and stores in `writer` which controller wrote the row.
    """

    @property
    def made(self) -> Any:
        """The value that distinguishes this row from a later row under its key; None: rows of this type have none."""
        return getattr(self, self.MADE) if self.MADE else None


class ProbeSpell(Struct, frozen=True):
    """A time in which all probes of a cluster had the same result: True, False, Unknown, AccessLost or Unobserved."""

    status: str
    since: datetime


class Observation(Row, frozen=True):
    """The latest results of probes and heartbeats of a cluster (key: its name), before thresholds are applied.

    All times are by the clock of the store. "Unobserved time" is time in which no process probed the cluster. It is
    excluded from some of the times below.
    """

    status: str = ""  # the last result: True, False or Unknown; "": never observed
    reason: str = ""
    message: str = ""
    since: datetime | None = None  # when it last changed between True and not True, without unobserved time
    observed_at: datetime | None = None  # when the cluster was last probed, or last sent a heartbeat
    access_lost: str = ""  # why access was lost (401, 403, TLS, wrong Secret); "": it was not [lost-access]
    access_reason: str = ""  # the same in one word, as the reason of a condition
    renewed_at: datetime | None = None  # last heartbeat of a Pull member's agent, without unobserved time
    collected_at: datetime | None = None  # when version, APIs and resources were last read
    unobserved_seconds: float = 0.0  # total unobserved time, which no window counts [taint-windows]
    resumed_at: datetime | None = None  # when the last unobserved time ended
    turns: int = 0  # how often it changed between True and not True in all [flapping-cluster]
    turned_at: tuple[datetime, ...] = ()  # the latest such times, oldest first, without unobserved time
    answered_at: datetime | None = None  # last successful probe or heartbeat, by the clock
    history: tuple[ProbeSpell, ...] = ()  # the results within the last day, by the clock (`clusters.probe_history`)


class Collected(Row, frozen=True):
    """What was last read from a healthy member: version, APIs, nodes and resources. key: the name of the cluster."""

    kubernetes_version: str = ""
    api_enablements: tuple[APIEnablement, ...] = ()
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    unread: tuple[str, ...] = ()  # API versions that did not answer; `api_enablements` has their last known content
    at: datetime | None = None


class MatchWindow(Row, frozen=True):
    """Since when the conditions of a ClusterTaintPolicy match a cluster, or do not match it. key: policy|cluster.

    See [taint-windows].
    """

    policy: str = ""
    cluster: str = ""
    rule: str = ""  # digest of the policy's target and conditions; an edit restarts the window
    matching: bool = False
    since: datetime | None = None
    unobserved_seconds: float = 0.0  # that of the Observation when the window began
    ready: str = ""  # the status of Ready at the last check, if the conditions contain Ready
    ready_since: datetime | None = None

    INDEXES: ClassVar[dict[str, str]] = {
        "cluster": "controllers.cluster_taints: all windows of a cluster in one query",
        "policy": "controllers.garbage: windows of deleted policies",
    }


class Judgement(Struct, frozen=True):
    """When a taint evicts a copy, as decided when the taint appeared [judged-once]. `due_at` None: the copy stays."""

    key: str
    effect: str
    time_added: datetime
    due_at: datetime | None = None
    wait_seconds: float | None = None  # from the taint to the eviction; None: the copy stays


QUEUED, HELD, RECOVERING = "Queued", "Held", "Recovering"
EVICTED, ABANDONED = "Evicted", "Abandoned"
ENDED = (EVICTED, ABANDONED)

# Reasons for which an eviction is held. The first two are checked again when capacity changes, the next three when
# holds, windows or flapping clusters change. HELD_BY_HAND ends with an order of an operator. UNREADABLE: the document
# of the binding, or of one that it depends on, cannot be read.
NO_REFUGE, STATE_MISSING = "NoRefuge", "StateMissing"
ON_HOLD, MAINTENANCE, UNSTEADY = "OnHold", "Maintenance", "Flapping"
HELD_BY_HAND = "HeldByHand"
UNREADABLE = "Unreadable"
SKIPPED = "Skipped"  # reason for which an eviction is abandoned


class Eviction(Row, frozen=True):
    """An item of the eviction queue: a copy on a cluster with a taint [eviction-queue]. key: binding reference|cluster.

    A copy that stays (`due_at` None) has a row as well, which records that its taints were judged. Rows of copies that
    were evicted or abandoned exist until the cluster recovers, because figures of an outage are computed from them.
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
    generation: int = 0  # of the binding at the last check; after an edit, a held eviction is checked again
    judged: tuple[Judgement, ...] = ()
    failed_at: datetime | None = None  # when no other cluster was found for the first time (metric evict_success_rate)
    ended_at: datetime | None = None  # None: the copy waits for its eviction, or stays

    @property
    def held(self) -> bool:
        """Whether the eviction is held, or was held for NoRefuge or StateMissing and is queued to be checked again.

        A queued row may have another reason from an earlier hold. It does not hold the row. It is kept so that the same
        Event is not sent again.
        """
        return self.state == HELD or (self.state == QUEUED and self.reason in (NO_REFUGE, STATE_MISSING))

    INDEXES: ClassVar[dict[str, str]] = {
        "binding": "controllers.eviction_queue: all evictions of a binding in one query",
        "cluster": "controllers.eviction_queue: rows that a recovery drops; metrics per cluster",
        "state": "controllers.evictions: held evictions, when capacity changes",
    }


class UnhealthyCopies(Row, frozen=True):
    """Since when copies of a binding are unhealthy, for application failover. key: the reference of the binding."""

    since: dict[str, datetime] = {}  # by cluster
    version: str = ""  # of the workload, as `eviction.application_failover.workload_version` returns it
    moves: dict[str, datetime] = {}  # when this version was evicted from a cluster because it was unhealthy, by cluster


class Stop(Struct, frozen=True):
    """A time in which nothing was evicted, because of the tier, a rate of 0 or missing tokens.

    `until` None: it lasts.
    """

    since: datetime
    why: str
    until: datetime | None = None


QueuePosition = tuple[int, datetime, str]
"""A position in the eviction queue, without ageing: priority, due time, key."""


class FleetState(Row, frozen=True):
    """The state of the fleet: when it was blind [blind-fleet], and since when the gate Failover is on [failover-gate].

    controllers.fleet_watch writes the keys "default", "tier" (`tier`, `stops`) and "workers" (`looked_at`, `stops`,
    `dependencies`). controllers.evictions writes the key "queue" (`capacity`, `holds`, `scope`, `cursor`, `stops`).
    """

    blind_since: datetime | None = None  # None: at least one cluster is not faulty
    sighted_at: datetime | None = None  # when the fleet was last blind; wait times restart from here
    failover_on_since: datetime | None = None
    capacity: str = ""  # digest of the clusters when held evictions were last checked
    holds: str = ""  # digest of holds and windows when held evictions were last checked
    tier: str = ""  # the tier that was last reported; "": it was always Normal
    stops: tuple[Stop, ...] = ()  # the latest, oldest first; of "workers": times in which no worker ran
    scope: str = ""  # Cluster: the queue is read by cluster, because of eviction.bucket_scope or missing observations
    cursor: QueuePosition | None = None  # the last held eviction that was checked again; None: all were checked
    looked_at: datetime | None = None  # when a worker looked at the fleet last
    dependencies: str = ""  # On or Off, as the gate PropagateDeps was then; "": it was never looked at


class CapacityReservation(Row, frozen=True):
    """Capacity of a cluster that a binding uses, while the status of the cluster does not include it yet.

    key: binding reference|cluster. With `reserved`, an eviction reserved the capacity until the scheduler places the
    binding, which uses or releases it. The key then ends with |refuge.
    """

    binding: str = ""
    cluster: str = ""
    replicas: int = 0
    request: str = ""  # what a replica, or a set of components, requests, as JSON
    made_at: datetime | None = None
    applied_at: datetime | None = None  # when its Work was applied; a later status of the cluster includes the capacity
    reserved: bool = False
    writer: str = ""  # the controller that last wrote the row; set by the store

    INDEXES: ClassVar[dict[str, str]] = {
        "cluster": "controllers.scheduler, reservations: capacity that is reserved on clusters",
        "binding": "controllers.scheduler: reservations of a binding, which it replaces",
    }
    MADE: ClassVar[str] = "made_at"  # an eviction may reserve again while an expired reservation is dropped
    NUMBERED: ClassVar[tuple[str, ...]] = ("replicas", "request", "made_at")  # the fields that a ledger counts


class PlacementHint(Row, frozen=True):
    """The clusters that an eviction found for a binding.

    The scheduler uses them if they are still valid [refuge-first].

    key: the reference of the binding.
    """

    generation: int = 0  # of the binding for which it was computed
    clusters: dict[str, int] = {}


class PlacementNote(Row, frozen=True):
    """The explanation of a scheduling decision (scheduling.note), as JSON. key: the reference of the binding."""

    decision: str = ""  # Summary
    detail: str = ""  # Detail, in which a cluster is an index into the names of `fleet`
    previous: str = ""  # the decision before; "": none
    fleet: str = ""  # key of FleetNames

    INDEXES: ClassVar[dict[str, str]] = {"fleet": "controllers.fleet_names: fleets that notes refer to"}


class FleetNames(Row, frozen=True):
    """The ordered names of the clusters of a fleet, as a JSON list. key: the digest of the names."""

    names: str = ""


class Sweep(Row, frozen=True):
    """The progress of controllers.garbage through the objects of a kind in its current round. key: the kind."""

    after_namespace: str = ""
    after_name: str = ""


class BindingReadiness(Row, frozen=True):
    """Whether a binding would fail over, without what concerns the whole fleet. key: the reference of the binding.

    The row is written only if the answer differs from the stored one.
    """

    namespace: str = ""
    name: str = ""
    workload: str = ""  # apiVersion/Kind of the template
    verdict: str = ""  # insight.readiness_row.VERDICTS
    named: str = ""  # the obstacles in one word each, sorted, with commas
    clusters: tuple[str, ...] = ()  # on which the binding is placed
    obstacles: tuple[Obstacle, ...] = ()
    since: datetime | None = None  # when the answer last changed


class ReadinessRound(Row, frozen=True):
    """The progress of controllers.readiness through all bindings after a change of the fleet. key: "fleet"."""

    digest: str = ""  # of the fleet when the round began
    began_at: datetime | None = None  # None: there was no round yet
    ended_at: datetime | None = None  # None: the round is not over
    after: str = ""  # the last binding that was checked, as text
    checked: int = 0  # bindings that this round has checked
    settled_at: datetime | None = None  # when the last round that is over began: every answer is at least as new


class Notice(Row, frozen=True):
    """A message to people that a channel (webhook or e-mail) is to get (`insight.notices`). key: channel|unique id."""

    channel: str = ""
    topic: str = ""
    subject: str = ""  # a cluster, or "fleet"
    severity: str = ""
    text: str = ""
    count: int = 1  # how often this happened in the transaction that wrote the notice
    at: datetime | None = None
    due_at: datetime | None = None  # when it is sent, or tried again
    sent_at: datetime | None = None  # None: no channel has accepted it yet
    attempts: int = 0
    error: str = ""  # why the last attempt failed


class IssuedToken(Row, frozen=True):
    """A bearer token of a ServiceAccount that a Secret holds. key: the SHA-256 of the token, in hexadecimal.

    The token is valid while the Secret and the ServiceAccount with these uids exist.
    """

    namespace: str = ""
    account: str = ""
    account_uid: str = ""
    secret: str = ""
    secret_uid: str = ""
    place: str = ""  # namespace/name of the Secret
    last_used: datetime | None = None  # None: never; the API stores it at most every few minutes

    INDEXES: ClassVar[dict[str, str]] = {"place": "controllers.token_secrets: the tokens of a Secret in one query"}


class AuditEvent(Row, frozen=True):
    """A request that wrote something or was refused [audit-events]. key: the audit id, with a number for each object.

    `document` is the event of audit.k8s.io/v1 as JSON. The other fields are what people search by.
    """

    at: datetime | None = None
    username: str = ""
    acted_as: str = ""  # user whom the request impersonated; "": none
    verb: str = ""
    api_group: str = ""
    resource: str = ""  # with its subresource: deployments/scale
    namespace: str = ""
    name: str = ""
    path: str = ""
    code: int = 0
    decision: str = ""  # allow or forbid; "": no rule was asked
    reason: str = ""  # the rule that decided, or why the request was refused
    source: str = ""
    document: str = ""
    unsent: bool = False  # the webhook has not accepted it yet


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
    BindingReadiness,
    ReadinessRound,
    Notice,
    IssuedToken,
    AuditEvent,
)


def eviction_key(binding: Ref, cluster: str) -> str:
    """Return the key of the Eviction of a binding and a cluster."""
    return f"{binding}|{cluster}"


def window_key(policy: str, cluster: str) -> str:
    """Return the key of the MatchWindow of a policy and a cluster."""
    return f"{policy}|{cluster}"

"""ClusterStatus: publishes the conditions and resources of a member in the status of its Cluster [cluster-status].

Conditions are debounced. A Push member is probed by controllers.probes and read by controllers.collection; their rows
make the cluster due. A Pull member is not probed: the Lease and the status that its agent writes count as observations
here [heartbeat-leases].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition, with_condition
from controlplane.apimachinery.names import CLUSTER_NAMESPACE
from controlplane.clusters import fence, flapping, health, heartbeats
from controlplane.controllers.reads.fleet_state import FLEET, next_look
from controlplane.engine.controller import Controller, Ownership, all_clusters
from controlplane.engine.decision import Decision, Event, Put, Save
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER, FAILOVER_CONFIGURATION, LEASE
from controlplane.kinds.cluster import ACCESS_LOST, COMPLETE_APIS, FENCED, FLAPPING, PULL, READY, Cluster
from controlplane.kinds.cluster import ClusterStatus as Status
from controlplane.kinds.rows import Collected, Observation
from controlplane.kinds.template import Template
from controlplane.settings import Settings


class ClusterStatusSnapshot(msgspec.Struct, frozen=True):
    """A cluster with what was observed of it and collected from it. None: nothing yet."""

    subject: Cluster
    observation: Observation | None
    collected: Collected | None
    lease: Template | None = None  # the heartbeats of a Pull member
    heard_until: datetime | None = None  # up to when this control plane could receive heartbeats; None: not known


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster is due when its conditions or its fence changed."""
    if new is None:
        return ()
    same = (
        old is not None
        and old.status.conditions == new.status.conditions
        and fence.fence_of(old) == fence.fence_of(new)
    )
    return () if same else (new.ref,)


def _lease_renewed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """A cluster is due when the agent of the Pull member has renewed its Lease."""
    if (
        new is None
        or new.metadata.namespace != CLUSTER_NAMESPACE
        or heartbeats.received(old) == heartbeats.received(new)
    ):
        return ()
    return (Ref(CLUSTER, "", new.metadata.name),)


def _observed(old: Observation | None, new: Observation | None) -> Iterable[Ref]:
    """A cluster is due when something else was observed of it than before.

    Probes compares only observations of a calm cluster. These wait until the cluster is looked at anyway.
    """
    row = new or old
    assert row is not None, "a row was stored or removed"
    if old is not None and new == replace(old, observed_at=row.observed_at, answered_at=row.answered_at):
        return ()
    return (Ref(CLUSTER, "", row.key),)


class ClusterStatus(Controller):
    """Key: a Cluster. Writes its status and ends its fence, and writes the Observation of a Pull member."""

    name = "cluster_status"
    group = "fleet"
    keys = (CLUSTER,)
    watches = (
        Watch(CLUSTER, _cluster_changed),
        Watch(LEASE, _lease_renewed),
        Watch("row/Observation", _observed),
        Watch("row/Collected", lambda old, new: [Ref(CLUSTER, "", (new or old).key)]),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    owns = Ownership({CLUSTER: ("status", "metadata.annotations")}, rows=(Observation,))
    due_at_start = (FLEET,)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return all clusters, because the settings decide how long observations have to last."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterStatusSnapshot | None]:
        names = [ref.name for ref in refs]
        clusters = state.get(refs)
        observations = state.rows(Observation, "key", names)
        collected = state.rows(Collected, "key", names)
        pulled = [ref.name for ref, cluster in clusters.items() if cluster.spec.sync_mode == PULL]
        leases = state.get([Ref(LEASE, CLUSTER_NAMESPACE, name) for name in pulled])
        heard_until = state.lease_held_until(heartbeats.LISTENING) if pulled else None
        return [
            ClusterStatusSnapshot(
                clusters[ref],
                next(iter(observations.get(ref.name, ())), None),
                next(iter(collected.get(ref.name, ())), None),
                leases.get(Ref(LEASE, CLUSTER_NAMESPACE, ref.name)),
                heard_until,
            )
            if ref in clusters
            else None
            for ref in refs
        ]

    def decide(
        self, snapshot: ClusterStatusSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        cluster, seen = snapshot.subject, snapshot.observation
        pulled, collected = cluster.spec.sync_mode == PULL, snapshot.collected
        if seen is not None and not _is_about(cluster, seen.renewed_at if pulled else seen.observed_at, now=now):
            seen = None
        if pulled:
            lease, until = snapshot.lease, snapshot.heard_until
            lease = lease if _is_about(cluster, heartbeats.received(lease), now=now) else None
            seen = heartbeats.heard(cluster, lease, seen, settings, now=now, heard_until=until)
        settled = health.debounce(cluster, seen, settings, now=now)
        until = health.observed_until(seen, settings, now=now)
        flaps = flapping.settle(cluster, seen, settings, until=until)
        conditions = cluster.status.conditions
        for new in (*settled.conditions, *(() if flaps.condition is None else (flaps.condition,))):
            conditions = with_condition(conditions, new, now=now)
        status = cluster.status
        if conditions is not status.conditions:
            status = replace(status, conditions=conditions)
        if collected is not None and not pulled and _is_ready(conditions) and _is_about(cluster, collected.at, now=now):
            status = _with_collected(status, collected, now=now)
        changed = cluster if status == cluster.status else replace(cluster, status=status)
        fenced = fence.check(changed, answered_at=None if seen is None else seen.answered_at, now=now)
        changed = fenced.cluster
        wakes = [next_look(settings, now=now), settled.wake_at, flaps.wake_at, fenced.wake_at]
        rows = (
            (Save(seen),)
            if pulled and seen is not None and _is_worth_storing(seen, snapshot.observation, settings)
            else ()
        )
        return Decision(
            changes=(*((Put(changed, cluster),) if changed is not cluster else ()), *rows),
            events=_condition_events(cluster, changed),
            wake_at=min(moment for moment in wakes if moment is not None and moment > now),
            reason="ClusterStatus",
        )


def _is_about(cluster: Cluster, heard_at: datetime | None, *, now: datetime) -> bool:
    """Test whether what was heard of a member is about this Cluster, not about an earlier one with the same name.

    The agent of the earlier one may have renewed its Lease right after the Cluster was deleted, and what was read of a
    Push member is removed a moment after that. A Cluster that was created later than now says nothing: the clock of the
    database was put back [skewed-clocks].
    """
    joined = cluster.metadata.creation_timestamp
    return heard_at is None or joined is None or not heard_at < joined <= now


def _is_worth_storing(seen: Observation, before: Observation | None, settings: Settings) -> bool:
    """Test whether the Observation of a Pull member is stored: it changed, or the stored one is out of date."""
    if before is None or before.observed_at is None or replace(seen, observed_at=before.observed_at) != before:
        return True
    assert seen.observed_at is not None, "an observation of a Pull member has a time"
    return (seen.observed_at - before.observed_at).total_seconds() >= settings.cluster_status_update_frequency


def _is_ready(conditions: tuple[Condition, ...]) -> bool:
    ready = condition(conditions, READY)
    return ready is not None and ready.status == health.TRUE


def _with_collected(status: Status, collected: Collected, *, now: datetime) -> Status:
    """Return the status with the version, APIs, nodes and resources that were collected from the member."""
    complete = Condition(COMPLETE_APIS, *_completeness(collected))
    return replace(
        status,
        kubernetes_version=collected.kubernetes_version,
        api_enablements=collected.api_enablements,
        node_summary=collected.node_summary,
        resource_summary=collected.resource_summary,
        conditions=with_condition(status.conditions, complete, now=now),
    )


def _completeness(collected: Collected) -> tuple[str, str, str]:
    """Return status, reason and message of the condition about the APIs of a member [cluster-object]."""
    if not collected.api_enablements:
        return "False", "Empty", "the member reported no API resources"
    if collected.unread:
        return (
            "False",
            "Partial",
            f"the member did not answer for these APIs, which are shown as last read: {', '.join(collected.unread)}",
        )
    return "True", "Complete", "the member's API resources were read"


def _condition_events(old: Cluster, new: Cluster) -> tuple[Event, ...]:
    """Return the Events about changed conditions: Ready, AccessLost, Flapping and Fenced."""
    if new is old:
        return ()
    name, events = new.metadata.name, list[Event]()
    if old.ready != new.ready:
        ready = condition(new.status.conditions, READY)
        message = f"cluster {name} is Ready={new.ready}: {ready.message if ready else ''}"
        events.append(Event(new, "ClusterReadyChanged", message, warning=new.ready != health.TRUE))
    before, after = (condition(side.status.conditions, ACCESS_LOST) for side in (old, new))
    if after is not None and (before is None or (before.status, before.reason) != (after.status, after.reason)):
        events.append(Event(new, after.reason, f"cluster {name}: {after.message}", warning=after.status == health.TRUE))
    if old.flapping != new.flapping:
        flaps = condition(new.status.conditions, FLAPPING)
        reason, why = "ClusterFlapping" if new.flapping else "ClusterCalm", "" if flaps is None else flaps.message
        events.append(Event(new, reason, f"cluster {name}: {why}", warning=new.flapping))
    before, after = (condition(side.status.conditions, FENCED) for side in (old, new))
    if after is not None and (before is None or (before.status, before.message) != (after.status, after.message)):
        reason = "ClusterFenced" if after.status == health.TRUE else "ClusterFenceEnded"
        events.append(Event(new, reason, f"cluster {name}: {after.message}", warning=after.reason == fence.EXPIRED))
    return tuple(events)

"""ClusterStatus: publishes what was observed of and collected from a member, debounced (semantics 2.1, 2.2; D22).

Whoever probes writes Observation and Collected rows, which make the cluster due here; so does the end of a debounce.
Pull members are not probed: what arrives from their agents (Lease, status) is taken as observation here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition, with_condition
from controlplane.apimachinery.names import CLUSTER_NAMESPACE
from controlplane.clusters import fence, flapping, health, heartbeats
from controlplane.controllers.reads.fleet_state import FLEET
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
    subject: Cluster
    observation: Observation | None
    collected: Collected | None
    lease: Template | None = None  # a Pull member's heartbeats
    heard_until: datetime | None = None  # up to when its agent could report; None: nobody says


def _changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster is due when its conditions change, or its fence."""
    if new is None:
        return ()
    same = (
        old is not None
        and old.status.conditions == new.status.conditions
        and fence.fence_of(old) == fence.fence_of(new)
    )
    return () if same else (new.ref,)


def _renewed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """A Pull member is due when its agent's Lease is renewed."""
    if (
        new is None
        or new.metadata.namespace != CLUSTER_NAMESPACE
        or heartbeats.received(old) == heartbeats.received(new)
    ):
        return ()
    return (Ref(CLUSTER, "", new.metadata.name),)


class ClusterStatus(Controller):
    name = "cluster_status"
    group = "fleet"
    keys = (CLUSTER,)
    watches = (
        Watch(CLUSTER, _changed),
        Watch(LEASE, _renewed),
        Watch("row/Observation", lambda old, new: [Ref(CLUSTER, "", (new or old).key)]),
        Watch("row/Collected", lambda old, new: [Ref(CLUSTER, "", (new or old).key)]),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    owns = Ownership({CLUSTER: ("status", "metadata.annotations")}, rows=(Observation,))
    due_at_start = (FLEET,)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """The settings say how long every cluster's answers have to last."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterStatusSnapshot | None]:
        names = [ref.name for ref in refs]
        clusters = state.get(refs)
        observations = state.rows(Observation, "key", names)
        collected = state.rows(Collected, "key", names)
        pulled = [ref.name for ref, one in clusters.items() if one.spec.sync_mode == PULL]
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
        pulled = cluster.spec.sync_mode == PULL
        if pulled:
            ears = snapshot.heard_until
            seen = heartbeats.heard(cluster, snapshot.lease, seen, settings, now=now, heard_until=ears)
        settled = health.settle(cluster, seen, settings, now=now)
        until = health.observed_until(seen, settings, now=now)
        flaps = flapping.settle(cluster, seen, settings, until=until)
        conditions = cluster.status.conditions
        for one in (*settled.conditions, *(() if flaps.condition is None else (flaps.condition,))):
            conditions = with_condition(conditions, one, now=now)
        status = cluster.status
        if conditions is not status.conditions:
            status = replace(status, conditions=conditions)
        if snapshot.collected is not None and not pulled and _healthy(conditions):
            status = _with_collected(status, snapshot.collected, now=now)
        changed = cluster if status == cluster.status else replace(cluster, status=status)
        fenced = fence.settle(changed, answered_at=None if seen is None else seen.answered_at, now=now)
        changed = fenced.cluster
        pause = timedelta(seconds=settings.cluster_monitor_period)
        looks = [now + pause, settled.wake_at, flaps.wake_at, fenced.wake_at]
        rows = (Save(seen),) if pulled and seen is not None and _news(seen, snapshot.observation, settings) else ()
        return Decision(
            changes=(*((Put(changed, cluster),) if changed is not cluster else ()), *rows),
            events=_told(cluster, changed),
            wake_at=min(moment for moment in looks if moment is not None and moment > now),
            reason="ClusterStatus",
        )


def _news(seen: Observation, before: Observation | None, settings: Settings) -> bool:
    """Test whether a look at a Pull member is worth keeping: something arrived, or it was long ago that we listened."""
    if before is None or before.observed_at is None or replace(seen, observed_at=before.observed_at) != before:
        return True
    assert seen.observed_at is not None, "whoever listens says when"
    return (seen.observed_at - before.observed_at).total_seconds() >= settings.cluster_status_update_frequency


def _healthy(conditions: tuple[Condition, ...]) -> bool:
    ready = condition(conditions, READY)
    return ready is not None and ready.status == health.TRUE


def _with_collected(status: Status, collected: Collected, *, now: datetime) -> Status:
    told = Condition(COMPLETE_APIS, *_completeness(collected))
    return replace(
        status,
        kubernetes_version=collected.kubernetes_version,
        api_enablements=collected.api_enablements,
        node_summary=collected.node_summary,
        resource_summary=collected.resource_summary,
        conditions=with_condition(status.conditions, told, now=now),
    )


def _completeness(collected: Collected) -> tuple[str, str, str]:
    """Return status, reason and message of the condition about a member's APIs (semantics 1.1)."""
    if not collected.api_enablements:
        return "False", "Empty", "the member reported no API resources"
    if collected.unread:
        return "False", "Partial", f"not answered for, and shown as last read: {', '.join(collected.unread)}"
    return "True", "Complete", "the member's API resources were read"


def _told(old: Cluster, new: Cluster) -> tuple[Event, ...]:
    if new is old:
        return ()
    name, events = new.metadata.name, list[Event]()
    if old.ready != new.ready:
        ready = condition(new.status.conditions, READY)
        message = f"cluster {name} is Ready={new.ready}: {ready.message if ready else ''}"
        events.append(Event(new, "ClusterReadyChanged", message, warning=new.ready != health.TRUE))
    before, after = (condition(one.status.conditions, ACCESS_LOST) for one in (old, new))
    if after is not None and (before is None or (before.status, before.reason) != (after.status, after.reason)):
        events.append(Event(new, after.reason, f"cluster {name}: {after.message}", warning=after.status == health.TRUE))
    if old.flapping != new.flapping:
        flaps = condition(new.status.conditions, FLAPPING)
        what, why = "ClusterFlapping" if new.flapping else "ClusterCalm", "" if flaps is None else flaps.message
        events.append(Event(new, what, f"cluster {name}: {why}", warning=new.flapping))
    before, after = (condition(one.status.conditions, FENCED) for one in (old, new))
    if after is not None and (before is None or (before.status, before.message) != (after.status, after.message)):
        what = "ClusterFenced" if after.status == health.TRUE else "ClusterFenceEnded"
        events.append(Event(new, what, f"cluster {name}: {after.message}", warning=after.reason == fence.EXPIRED))
    return tuple(events)

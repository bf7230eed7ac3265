"""ClusterStatus: publishes what was observed of and collected from a member, debounced (semantics 2.1, 2.2; D22).

Whoever probes writes Observation and Collected rows, which make the cluster due here; so does the end of a debounce.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane import health
from controlplane.controllers.controller import Controller, Ownership
from controlplane.decision import Decision, Event, Put
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import READY, Cluster
from controlplane.kinds.cluster import ClusterStatus as Status
from controlplane.kinds.rows import Collected, Observation
from controlplane.meta import Condition, Ref, condition, with_condition
from controlplane.settings import Settings
from controlplane.state import State, Watch

COMPLETE_APIS = "CompleteAPIEnablements"


class ClusterStatusSnapshot(msgspec.Struct, frozen=True):
    subject: Cluster
    observation: Observation | None
    collected: Collected | None


def _changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    if new is None or (old is not None and old.status.conditions == new.status.conditions):
        return ()
    return (new.ref,)


class ClusterStatus(Controller):
    name = "cluster_status"
    group = "fleet"
    keys = (CLUSTER,)
    watches = (
        Watch(CLUSTER, _changed),
        Watch("row/Observation", lambda old, new: [Ref(CLUSTER, "", (new or old).key)]),
        Watch("row/Collected", lambda old, new: [Ref(CLUSTER, "", (new or old).key)]),
    )
    owns = Ownership({CLUSTER: ("status",)})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterStatusSnapshot | None]:
        names = [ref.name for ref in refs]
        clusters = state.get(refs)
        observations = state.rows(Observation, "key", names)
        collected = state.rows(Collected, "key", names)
        return [
            ClusterStatusSnapshot(
                clusters[ref],
                next(iter(observations.get(ref.name, ())), None),
                next(iter(collected.get(ref.name, ())), None),
            )
            if ref in clusters
            else None
            for ref in refs
        ]

    def decide(
        self, snapshot: ClusterStatusSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        cluster = snapshot.subject
        settled = health.settle(cluster, snapshot.observation, settings, now=now)
        conditions = cluster.status.conditions
        for one in settled.conditions:
            conditions = with_condition(conditions, one, now=now)
        status = replace(cluster.status, conditions=conditions)
        if snapshot.collected is not None and _healthy(conditions):
            status = _with_collected(status, snapshot.collected, now=now)
        changed = cluster if status == cluster.status else replace(cluster, status=status)
        look = now + timedelta(seconds=settings.cluster_monitor_period)
        return Decision(
            changes=(Put(changed, cluster),) if changed is not cluster else (),
            events=_told(cluster, changed),
            wake_at=look if settled.wake_at is None else min(look, settled.wake_at),
            reason="ClusterStatus",
        )


def collects(cluster: Cluster, observation: Observation | None) -> bool:
    """Test whether a member shall be read now: observed healthy and published Ready (semantics 2.1)."""
    return cluster.ready == health.TRUE and observation is not None and observation.status == health.TRUE


def _healthy(conditions: tuple[Condition, ...]) -> bool:
    ready = condition(conditions, READY)
    return ready is not None and ready.status == health.TRUE


def _with_collected(status: Status, collected: Collected, *, now: datetime) -> Status:
    complete = collected.api_enablements != ()
    told = Condition(
        COMPLETE_APIS,
        "True" if complete else "False",
        "Complete" if complete else "Empty",
        "the member's API resources were read" if complete else "the member reported no API resources",
    )
    return replace(
        status,
        kubernetes_version=collected.kubernetes_version,
        api_enablements=collected.api_enablements,
        node_summary=collected.node_summary,
        resource_summary=collected.resource_summary,
        conditions=with_condition(status.conditions, told, now=now),
    )


def _told(old: Cluster, new: Cluster) -> tuple[Event, ...]:
    if old.ready == new.ready:
        return ()
    ready = condition(new.status.conditions, READY)
    message = f"cluster {new.metadata.name} is Ready={new.ready}: {ready.message if ready else ''}"
    return (Event(new, "ClusterReadyChanged", message, warning=new.ready != health.TRUE),)

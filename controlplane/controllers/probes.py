"""Probes: asks every Push member whether it is ready, and stores the answer as an Observation [cluster-status].

controllers.cluster_status debounces the observations and publishes Ready and AccessLost [lost-access].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.clusters.health import TRUE, observe, seen
from controlplane.clusters.questions import Answer, Probe, endpoint_of
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.member_access import connection_fields, readable_credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership, all_clusters
from controlplane.engine.decision import NOTHING, Decision, Save
from controlplane.engine.state import State, Watch
from controlplane.kinds.cluster import ACCESS_REFUSED, MISCONFIGURED, Cluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.settings import Settings


class ProbeSnapshot(Struct, frozen=True):
    """A cluster, its credentials, and the last Observation of it.

    `unreadable`: why the credentials cannot be read, so that it cannot be asked. "": they can, or it has none.
    """

    subject: Cluster
    secret: Template | None
    seen: Observation | None
    unreadable: str = ""


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """A cluster is due when it joins or is reached in another way. After that, each decision sets the next time."""
    if new is None:
        return
    if old is None or connection_fields(old) != connection_fields(new):
        yield new.ref


class Probes(MemberController):
    """Key: a Cluster. Writes its Observation."""

    name: ClassVar[str] = "probes"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.CLUSTER, _cluster_changed),
        Watch(kinds.FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)
    owns: ClassVar[Ownership] = Ownership({}, rows=(Observation,))

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return all clusters, because the settings decide how often each of them is probed."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ProbeSnapshot | None]:
        clusters = state.get(refs)
        secrets, unreadable = readable_credentials(state, list(clusters.values()))
        seen = state.rows(Observation, "key", [ref.name for ref in refs])
        return [
            ProbeSnapshot(
                clusters[ref],
                secrets.get(ref.name),
                next(iter(seen.get(ref.name, ())), None),
                unreadable.get(ref.name, ""),
            )
            if ref in clusters
            else None
            for ref in refs
        ]

    def question(self, snapshot: ProbeSnapshot, settings: Settings, *, now: datetime) -> Probe | None:
        cluster = snapshot.subject
        if not cluster.called_directly or snapshot.unreadable:
            return None
        # The time limit is so short that a member that hangs is still observed without a gap (`health.holds_for`).
        return Probe(endpoint_of(cluster, snapshot.secret), seconds=settings.cluster_status_update_frequency)

    def decide(
        self, snapshot: ProbeSnapshot, settings: Settings, *, now: datetime, answer: Answer | None = None
    ) -> Decision:
        if snapshot.unreadable and snapshot.subject.called_directly:
            answer = Answer(0, problem=snapshot.unreadable, access=True, reason=MISCONFIGURED)
        if answer is None:
            return NOTHING
        before = snapshot.seen or Observation(key=snapshot.subject.metadata.name)
        lost = (answer.reason or ACCESS_REFUSED) if answer.access else ""
        observed = seen(answer.code, problem=answer.problem, access=lost)
        wake_at = now + timedelta(seconds=settings.cluster_status_update_frequency)
        row = observe(before, observed, settings, now=now)
        known = snapshot.seen if _is_calm(snapshot.subject) and row.status == TRUE else None
        return Decision(changes=(Save(row, known),), wake_at=wake_at)


def _is_calm(cluster: Cluster) -> bool:
    """Test whether another answer like the last changes nothing: no fence ends by it, and no threshold counts it."""
    return cluster.answers and not cluster.flapping

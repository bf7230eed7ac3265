"""The store of an agent: in memory, kept on disk, with what has to be reported to the control plane."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from apps.agent.clock import SteadyClock
from apps.agent.disk import Disk
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.clusters.health import TRUE
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Event
from controlplane.engine.events import counted, event_ref
from controlplane.engine.memory import MemoryStore
from controlplane.engine.merge import Remove, Write
from controlplane.engine.state import Actor, Claim
from controlplane.kind import text_of
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.event import Event as StoredEvent
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import WorkStatus

MOST_EVENTS = 1_000  # that wait to be sent; the oldest are left out
_KEPT = (WORK, CLUSTER)
_CONTROL_PLANE = Actor("control-plane")


class AgentStore(MemoryStore):
    """A store whose objects come from the control plane. Controllers write status and finalizers, which are reported.

    `outgoing`: objects whose status changed here. `released`: Works without our finalizer, with the finalizers that
    they keep. `events`: Events to send.
    """

    def __init__(
        self, controllers: Iterable[Controller], disk: Disk, clock: Callable[[], datetime] | None = None
    ) -> None:
        """`clock`: the time of this store; None: that of the machine, which never goes back."""
        super().__init__(controllers=controllers, clock=clock or SteadyClock())
        self.disk = disk
        self.outgoing: dict[Ref, None] = {}
        self.released: dict[Ref, tuple[str, ...]] = {}
        self.events: deque[StoredEvent] = deque(maxlen=MOST_EVENTS)
        self._knows_ready = False
        self._loaded: set[str] = set()

    def load(self, kind: str) -> None:
        """Take over the objects of a kind that are on disk. Does nothing when it is called again for this kind."""
        if kind not in self._loaded:
            self._loaded.add(kind)
            for obj in self.disk.objects(kind):
                self._write(Write(obj, False), Decision(), _CONTROL_PLANE, None)

    def mirror(self, obj: Any) -> None:
        """Store an object as the control plane has it. A known Work or Cluster keeps the status that it has here.

        A Work that was deleted and made again while the control plane was away has to be applied, whatever its status
        says: it may have got a report about the Work before it.
        """
        known = self.objects.get(obj.ref)
        if known is not None and obj.ref.kind == WORK and _is_another(obj, known):
            self.forget(obj.ref)
            known, obj = None, replace(obj, status=WorkStatus())
        if known is not None and known.metadata.uid == obj.metadata.uid and obj.ref.kind in _KEPT:
            obj = replace(obj, status=known.status)  # type: ignore[attr-defined]  # Works and Clusters have one
        if known is None or _without_version(obj) != _without_version(known):
            self._write(Write(obj, False), Decision(), _CONTROL_PLANE, None)

    def forget(self, ref: Ref) -> None:
        """Remove an object that the control plane does not have any more. Its member is not touched."""
        if (known := self.objects.get(ref)) is not None:
            self._write(Remove(known), Decision(), _CONTROL_PLANE, None)

    def knows_ready(self, ref: Ref) -> bool:
        """Test whether Ready of the Cluster is what this process has found out, and not what was so before its start.

        A change of Ready has to last for a threshold, also right after the start. While the member refuses access, the
        last Ready that was known stands.
        """
        if not self._knows_ready:
            cluster: Cluster | None = self.get([ref]).get(ref)
            seen: Observation | None = next(iter(self.rows(Observation, "key", [ref.name]).get(ref.name, ())), None)
            if cluster is not None and cluster.ready and seen is not None:
                self._knows_ready = bool(seen.access_lost) or (seen.status == TRUE) == (cluster.ready == TRUE)
        return self._knows_ready

    def extend(self, claims: Sequence[tuple[Claim, datetime]], *, lease_seconds: float) -> datetime:
        """Extend claims, given with the times at which they end, to `lease_seconds` from now; return now.

        The claim of a row that was marked meanwhile is extended too: otherwise the newer Work would be applied while
        the older one is still being applied.
        """
        now = self.now()
        for claim, end in claims:
            rows = self.due.get(claim.controller, {})
            row = rows.get(claim.ref)
            if row is not None and row.lease_until is not None and now < end:
                rows[claim.ref] = replace(row, lease_until=now + timedelta(seconds=lease_seconds))
        return now

    def _log_change(self, old: Object | None, stored: Object, *, removed: bool, decision: Decision, by: Actor) -> None:
        """Keep the change on disk and note what has to be reported, instead of logging it."""
        ref = stored.ref
        if ref.kind not in _KEPT:
            return
        if removed:
            self.disk.drop(ref)
        else:
            self.disk.keep(ref, text_of(stored))
        if not by.controller:
            return
        before = () if old is None else old.metadata.finalizers
        if ref.kind == WORK and WORK_FINALIZER in before and (removed or stored.metadata.finalizers != before):
            self.released[ref] = tuple(name for name in before if name != WORK_FINALIZER)
        if not removed:
            self.outgoing[ref] = None

    def _record_event(self, event: Event, by: Actor) -> None:
        """Keep an Event about a Work until it is sent."""
        if event.about.ref.kind == WORK:
            ref = event_ref(event, by=by.name)
            self.events.append(counted(event, ref=ref, by=by.name, now=self.now(), old=None))


def _is_another(obj: Object, known: Object) -> bool:
    """Test whether an object has the name of a known one and is another. All Works of a binding on a cluster have the
    same uid."""
    new, old = obj.metadata, known.metadata
    return (new.uid, new.creation_timestamp) != (old.uid, old.creation_timestamp)


def _without_version(obj: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, resource_version=""))

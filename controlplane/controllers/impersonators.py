"""Impersonators: gives the impersonator in each member the right to act as the users of the proxy [proxy-rights]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import IMPERSONATOR
from controlplane.authorization import proxied
from controlplane.authorization.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from controlplane.engine.controller import Controller, Ownership, all_clusters
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.settings import Settings

ROLES: Final = "roles"
"""The name of the fan-out from changed ClusterRoles and ClusterRoleBindings."""


class ImpersonatorSnapshot(Struct, frozen=True):
    """A cluster (None: deleted), the Works of its impersonator by kind of their object, and who may use its proxy."""

    cluster: Cluster | None
    stored: dict[str, Work]
    subjects: proxied.Subjects

    @property
    def subject(self) -> Cluster | None:
        return self.cluster


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    before, after = (None if side is None else side.spec.impersonator_secret_ref for side in (old, new))
    if before != after:
        yield present.ref


def _role_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """All clusters are due when rules of a ClusterRole, or the subjects of a ClusterRoleBinding, changed."""
    if old is None or new is None or old.content != new.content:
        present = new or old
        assert present is not None, "a change has an old or a new side"
        yield present.ref


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The cluster of a Work is due when the Work was removed or its spec was edited."""
    if old is None or (new is not None and old.metadata.generation == new.metadata.generation):
        return
    yield from works.owner(old, (kinds.CLUSTER,))


class Impersonators(Controller):
    """Key: a Cluster. Keeps the Works with ClusterRole and ClusterRoleBinding of its impersonator."""

    name: ClassVar[str] = "impersonators"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.CLUSTER, _cluster_changed),
        Watch(CLUSTER_ROLE, _role_changed, fan_out=True),
        Watch(CLUSTER_ROLE_BINDING, _role_changed, fan_out=True),
        Watch(kinds.WORK, _work_changed),
    )
    owns: ClassVar[Ownership] = Ownership(
        {kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec")}
    )
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ImpersonatorSnapshot | None]:
        found = state.get(refs)
        stored = state.by_index(kinds.WORK, "binding", [str(ref) for ref in refs])
        roles = [role.document() for role in state.list(CLUSTER_ROLE)]
        bindings = [binding.document() for binding in state.list(CLUSTER_ROLE_BINDING)]
        snapshots = []
        for ref in refs:
            own = {
                kind: work
                for work in stored.get(str(ref), ())
                for kind in works.IMPERSONATOR_KINDS
                if works.is_copy_of(work, kind, IMPERSONATOR)
            }
            subjects = proxied.subjects(ref.name, roles, bindings)
            snapshots.append(ImpersonatorSnapshot(found.get(ref), own, subjects))
        return snapshots

    def decide(
        self, snapshot: ImpersonatorSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        cluster = snapshot.cluster
        if cluster is None or cluster.terminating:
            return NOTHING  # unjoin removes all Works of the cluster
        if cluster.spec.impersonator_secret_ref is None:
            removed = [deleting(work, now=now) for work in snapshot.stored.values() if not _is_going(work)]
            return Decision(changes=tuple(removed), reason="ImpersonatorGone") if removed else NOTHING
        changes: list[Put | Delete] = []
        for wanted in works.impersonator_works(cluster, snapshot.subjects, now=now):
            stored = snapshot.stored.get(wanted.manifest["kind"])
            if stored is not None and _is_going(stored):
                continue  # the cluster is due again once the Work is removed
            renewed = wanted if stored is None else works.updated(stored, wanted)
            if renewed is not stored:
                changes.append(Put(renewed, stored))
        if not changes:
            return NOTHING
        message = f"the rights of {IMPERSONATOR} in {cluster.metadata.name} follow those on clusters/proxy"
        event = Event(cluster, "SyncImpersonationConfigSucceed", message, step=True)
        return Decision(changes=tuple(changes), events=(event,), reason="SyncImpersonator")

    def fan_out_of(self, origin: Ref) -> str:
        """All changed roles are expanded together: hundreds are created at once, and each concerns all clusters."""
        return ROLES

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        return all_clusters(state, after=after, limit=limit)


def _is_going(work: Work) -> bool:
    return work.metadata.deletion_timestamp is not None

"""Namespaces: every Namespace here exists in every member, so that what is sent there has a place (semantics 1.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import (
    KUBE_SYSTEM_NAMESPACE,
    SKIP_AUTO_PROPAGATION_LABEL,
    cluster_of_execution_namespace,
    is_reserved_namespace,
)
from controlplane.controllers.reads.propagated_kinds import is_propagated_namespace
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Delete, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.settings import Settings


class Spread(Struct, frozen=True):
    """A Namespace (None: gone), its Works by cluster, and all clusters."""

    ref: Ref
    namespace: Template | None
    stored: dict[str, Work]
    clusters: tuple[Cluster, ...]

    @property
    def subject(self) -> Template | None:
        return self.namespace


def _namespace(old: Template | None, new: Template | None) -> Iterator[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if is_reserved_namespace(present.metadata.name):
        return
    if old is not None and new is not None:
        before, after = old.metadata, new.metadata
        if (before.labels, before.annotations, before.deletion_timestamp) == (
            after.labels,
            after.annotations,
            after.deletion_timestamp,
        ):
            return
    yield present.ref


def _work(old: Work | None, new: Work | None) -> Iterator[Ref]:
    if old is None or (new is not None and old.metadata.generation == new.metadata.generation):
        return
    yield from works.owner(old, (kinds.NAMESPACE,))


def _cluster(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """All Namespaces are due when a cluster joins."""
    if old is None and new is not None:
        yield new.ref


class Namespaces(Controller):
    """Key: a Namespace. Makes a Work of it for every cluster; removes them once the Namespace itself is gone.

    What a Namespace holds goes first, here as in Kubernetes, and each copy for itself.
    """

    name: ClassVar[str] = "namespaces"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.NAMESPACE,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.NAMESPACE, _namespace),
        Watch(kinds.WORK, _work),
        Watch(kinds.CLUSTER, _cluster, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        {kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec")}
    )
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Spread | None]:
        found = state.get(refs)
        stored = state.by_index(kinds.WORK, "binding", [str(ref) for ref in refs])
        clusters = tuple(one for one in state.list(kinds.CLUSTER) if not one.terminating)
        snapshots: list[Spread | None] = []
        for ref in refs:
            own = {
                cluster_of_execution_namespace(work.metadata.namespace): work
                for work in stored.get(str(ref), ())
                if works.is_copy_of(work, "Namespace", ref.name)
            }
            namespace = found.get(ref)
            snapshots.append(Spread(ref, namespace, own, clusters) if namespace is not None or own else None)
        return snapshots

    def decide(self, snapshot: Spread, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        namespace = snapshot.namespace
        if namespace is None:
            gone = tuple(
                deleting(work, now=now) for work in snapshot.stored.values() if work.metadata.deletion_timestamp is None
            )
            return Decision(changes=gone, reason="NamespaceGone") if gone else NOTHING
        if namespace.metadata.deletion_timestamp is not None or not spreads(namespace, settings):
            return NOTHING  # copies that are there stay: removing them would remove what they hold
        changes: list[Put | Delete] = []
        for cluster in snapshot.clusters:
            stored = snapshot.stored.get(cluster.metadata.name)
            if stored is not None and stored.metadata.deletion_timestamp is not None:
                continue  # due again once it is gone
            wanted = works.namespace_work(namespace, cluster.metadata.name, now=now)
            renewed = wanted if stored is None else works.updated(stored, wanted)
            if renewed is not stored:
                changes.append(Put(renewed, stored))
        return Decision(changes=tuple(changes), reason="SyncNamespace") if changes else NOTHING

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        found = state.list(kinds.NAMESPACE, after=cursor_after(after), limit=limit)
        return page([one.ref for one in found], limit=limit)


def spreads(namespace: Template, settings: Settings) -> bool:
    """Test whether a Namespace is brought to the members at all."""
    name = namespace.metadata.name
    if (
        name in ("default", KUBE_SYSTEM_NAMESPACE)
        or namespace.metadata.labels.get(SKIP_AUTO_PROPAGATION_LABEL) == "true"
    ):
        return False
    return is_propagated_namespace(name, settings.skipped_propagating_namespaces)

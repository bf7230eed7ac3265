"""Namespaces: creates each Namespace on every member, so that objects can be applied in it [derived-names]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import (
    KUBE_SYSTEM_NAMESPACE,
    SKIP_AUTO_PROPAGATION_LABEL,
    cluster_of_execution_namespace,
    execution_namespace,
    is_reserved_namespace,
    work_name,
)
from controlplane.controllers.reads import override_policies
from controlplane.controllers.reads.propagated_kinds import is_propagated_namespace
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.propagation.override_run import OverrideRun, differs
from controlplane.propagation.overrides import OverrideFailed
from controlplane.settings import Settings

COPY: Final = "NamespaceCopy"
"""Kind of a key: the copy of a Namespace (name) on a cluster (namespace). A cluster that joins makes only these due,
because the Works of all Namespaces on all clusters are thousands of times as many."""


class NamespacesSnapshot(Struct, frozen=True):
    """A Namespace (None: deleted), its Works by cluster, the clusters that it is created on, and the override policies
    for the Namespace. Of a copy: only its Work and its cluster."""

    ref: Ref
    namespace: Template | None
    stored: dict[str, Work]
    clusters: tuple[Cluster, ...]
    overrides: tuple[OverridePolicy, ...] = ()

    @property
    def subject(self) -> Template | None:
        return self.namespace


def _namespace_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A Namespace is due when it was created or deleted, or its metadata changed."""
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


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The Namespace of a Work is due when the Work was removed or its spec was edited."""
    if old is None or (new is not None and old.metadata.generation == new.metadata.generation):
        return
    yield from works.owner(old, (kinds.NAMESPACE,))


def _cluster_joined(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The copies of all Namespaces on a cluster are due when it joins."""
    if old is None and new is not None:
        yield new.ref


def _override_policy_changed(old: OverridePolicy | None, new: OverridePolicy | None) -> Iterator[Ref]:
    """All Namespaces are due when an override policy changed that selects, or selected, Namespaces."""
    yield from filter(override_policies.concerns_namespaces, override_policies.policy_changed(old, new))


class Namespaces(Controller):
    """Key: a Namespace, or its copy on one cluster. Creates a Work of it for every cluster, and deletes these Works
    once the Namespace is removed.

    controllers.namespace_content removes the objects in a deleted Namespace first, and their copies with them.
    """

    name: ClassVar[str] = "namespaces"
    group: ClassVar[str] = "propagation"
    creates_separately: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = (kinds.NAMESPACE, COPY)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.NAMESPACE, _namespace_changed),
        Watch(kinds.WORK, _work_changed),
        Watch(kinds.CLUSTER, _cluster_joined, fan_out=True),
        Watch(kinds.CLUSTER_OVERRIDE_POLICY, _override_policy_changed, fan_out=True),
        Watch(kinds.CLUSTER, override_policies.cluster_changed, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        {kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec")}
    )
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[NamespacesSnapshot | None]:
        names = {ref: Ref(kinds.NAMESPACE, "", ref.name) for ref in refs}
        found = state.get(set(names.values()))
        stored = _stored(state, refs)
        clusters = {one.metadata.name: one for one in state.list(kinds.CLUSTER) if not one.terminating}
        everywhere = tuple(clusters.values())
        overrides = override_policies.policies_of(state, found.values())
        snapshots: list[NamespacesSnapshot | None] = []
        for ref in refs:
            own = {
                cluster_of_execution_namespace(work.metadata.namespace): work
                for work in stored.get(ref, ())
                if works.is_copy_of(work, "Namespace", ref.name)
            }
            joined = clusters.get(ref.namespace)
            on = everywhere if ref.kind == kinds.NAMESPACE else () if joined is None else (joined,)
            namespace = found.get(names[ref])
            snapshots.append(
                NamespacesSnapshot(ref, namespace, own, on, overrides.get(names[ref], ()))
                if namespace is not None or own
                else None
            )
        return snapshots

    def decide(
        self, snapshot: NamespacesSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        namespace = snapshot.namespace
        if namespace is None:
            deletions = tuple(
                deleting(work, now=now) for work in snapshot.stored.values() if work.metadata.deletion_timestamp is None
            )
            return Decision(changes=deletions, reason="NamespaceGone") if deletions else NOTHING
        if namespace.metadata.deletion_timestamp is not None or not is_propagated(namespace, settings):
            return NOTHING  # existing copies stay: with them, all objects in them would be deleted
        return self._synchronized(snapshot, namespace, now=now)

    def _synchronized(self, snapshot: NamespacesSnapshot, namespace: Template, *, now: datetime) -> Decision:
        """Return the decision that creates and updates the Works of a Namespace."""
        changes, changed = list[Put](), set[str]()
        run = OverrideRun(snapshot.overrides, {cluster.metadata.name: cluster for cluster in snapshot.clusters})
        override = run if snapshot.overrides else None
        for cluster in snapshot.clusters:
            stored = snapshot.stored.get(cluster.metadata.name)
            if stored is not None and stored.metadata.deletion_timestamp is not None:
                continue  # the Namespace is due again once the Work is removed
            try:
                wanted = works.namespace_work(namespace, cluster.metadata.name, override=override, now=now)
            except OverrideFailed:
                continue
            renewed = wanted if stored is None else works.updated(stored, wanted)
            if renewed is not stored:
                changes.append(Put(renewed, stored))
                if differs(renewed, stored):
                    changed.add(cluster.metadata.name)
        events = (*run.failed((namespace,)), *run.succeeded(namespace, changed))
        return Decision(changes=tuple(changes), events=events, reason="SyncNamespace") if changes or events else NOTHING

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        if origin.kind == override_policies.TARGET and not override_policies.any_reads_clusters(state):
            return [], None
        found = state.list(kinds.NAMESPACE, after=cursor_after(after), limit=limit)
        refs, cursor = page([namespace.ref for namespace in found], limit=limit)
        if origin.kind == kinds.CLUSTER:
            refs = [Ref(COPY, origin.name, ref.name) for ref in refs]
        return refs, cursor


def _stored(state: State, refs: Sequence[Ref]) -> dict[Ref, Sequence[Work]]:
    """Return the Works of Namespaces, and those of copies."""
    whole = {str(ref): ref for ref in refs if ref.kind == kinds.NAMESPACE}
    named = state.by_index(kinds.WORK, "binding", list(whole)) if whole else {}
    copies = {
        ref: Ref(kinds.WORK, execution_namespace(ref.namespace), work_name("Namespace", ref.name))
        for ref in refs
        if ref.kind == COPY
    }
    single = state.get(copies.values()) if copies else {}
    of_copies = {ref: (single[name],) for ref, name in copies.items() if name in single}
    return {whole[text]: found for text, found in named.items()} | of_copies


def is_propagated(namespace: Template, settings: Settings) -> bool:
    """Test whether a Namespace is created on the members at all."""
    name = namespace.metadata.name
    if (
        name in ("default", KUBE_SYSTEM_NAMESPACE)
        or namespace.metadata.labels.get(SKIP_AUTO_PROPAGATION_LABEL) == "true"
    ):
        return False
    return is_propagated_namespace(name, settings.skipped_propagating_namespaces)

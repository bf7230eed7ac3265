"""DeploymentReplicasSyncer: lets the replicas of a Deployment follow what autoscalers of members made of them
[scaled-workloads]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, scaled_replicas
from controlplane.settings import Settings

DEPLOYMENT: Final = "apps/Deployment"


class SyncerSnapshot(Struct, frozen=True):
    """A Deployment with its binding."""

    subject: Template
    binding: Binding


def _deployment_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A Deployment whose replicas are left to members is due when its label, its replicas or its status changed."""
    if new is None or not scaled_replicas.retains(new):
        return
    if old is None or _counts(old) != _counts(new) or not scaled_replicas.retains(old):
        yield new.ref


def _counts(deployment: Template) -> tuple[Any, Any]:
    return deployment.spec.get("replicas"), deployment.status.get("replicas")


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A divided Deployment is due when its binding was scheduled, or its members have reported."""
    if old is None or new is None or new.spec.placement is None or not new.spec.placement.divided:
        return
    ref = bindings.template_ref(new)
    before, after = old.status, new.status
    if ref.kind == DEPLOYMENT and (
        before.scheduler_observed_generation != after.scheduler_observed_generation
        or before.aggregated_status != after.aggregated_status
    ):
        yield ref


class DeploymentReplicasSyncer(Controller):
    """Key: a Deployment. Writes spec.replicas of a divided Deployment whose replicas members decide."""

    name: ClassVar[str] = "deployment_replicas_syncer"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (DEPLOYMENT,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(DEPLOYMENT, _deployment_changed),
        Watch(kinds.RESOURCE_BINDING, _binding_changed),
    )
    owns: ClassVar[Ownership] = Ownership({DEPLOYMENT: ("content", "spec")})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[SyncerSnapshot | None]:
        found = {ref: obj for ref, obj in state.get(refs).items() if scaled_replicas.retains(obj)}
        placed = state.get([bindings.binding_ref(ref) for ref in found]) if found else {}
        return [
            SyncerSnapshot(found[ref], binding)
            if ref in found and (binding := placed.get(bindings.binding_ref(ref))) is not None
            else None
            for ref in refs
        ]

    def decide(self, snapshot: SyncerSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        deployment = snapshot.subject
        replicas = scaled_replicas.reported_replicas(deployment, snapshot.binding)
        if replicas is None or deployment.metadata.deletion_timestamp is not None:
            return NOTHING
        synced = deployment.with_content({**deployment.content, "spec": {**deployment.spec, "replicas": replicas}})
        before = deployment.spec.get("replicas")
        message = f"spec.replicas follows the members, whose autoscaler scales them: {before} → {replicas}"
        event = Event(deployment, "SyncReplicasSucceed", message, step=True)
        return Decision(changes=(Put(synced, deployment),), events=(event,), reason="SyncReplicas")

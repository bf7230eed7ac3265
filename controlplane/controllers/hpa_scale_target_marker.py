"""HpaScaleTargetMarker: marks the workloads whose replicas members decide, because an autoscaler was propagated with
them [scaled-workloads]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Put
from controlplane.engine.state import State, Watch
from controlplane.kinds.template import Template
from controlplane.kinds.template.scale_target_index import AUTOSCALER, SCALE_TARGET, scale_target
from controlplane.propagation import scaled_replicas
from controlplane.settings import Settings


class ScaleTargetSnapshot(Struct, frozen=True):
    """A workload, and the autoscalers that scale it."""

    subject: Template
    autoscalers: tuple[Template, ...]


def _autoscaler_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The workload that an autoscaler scales is due; if scaleTargetRef changed, the earlier workload as well."""
    sides = [side for side in (old, new) if side is not None]
    if len(sides) == 2 and _deciding(sides[0]) == _deciding(sides[1]):
        return
    yield from {target for side in sides if (target := scale_target(side)) is not None}


def _deciding(autoscaler: Template) -> tuple[Any, ...]:
    metadata = autoscaler.metadata
    return metadata.labels, metadata.deletion_timestamp, scale_target(autoscaler)


def _workload_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A workload with replicas is due when it is created, because its autoscaler may be there already.

    So it is when its mark changed: a user who replaces the workload by a manifest without the mark removes it.
    """
    if new is None or "replicas" not in new.spec:
        return
    if old is None or scaled_replicas.mark(old) != scaled_replicas.mark(new):
        yield new.ref


class HpaScaleTargetMarker(Controller):
    """Key: a workload. Writes the label that makes members keep their replicas."""

    name: ClassVar[str] = "hpa_scale_target_marker"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = PropagatedKinds()
    watches: ClassVar[tuple[Watch, ...]] = (Watch(AUTOSCALER, _autoscaler_changed), Watch("*", _workload_changed))
    owns: ClassVar[Ownership] = Ownership({"*": ("metadata.labels", "metadata.annotations")})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ScaleTargetSnapshot | None]:
        found = state.get(refs)
        any_autoscaler = state.list(AUTOSCALER, limit=1)  # a short query, and the next one searches for each workload
        scaling = state.by_index(AUTOSCALER, SCALE_TARGET, [str(ref) for ref in refs]) if any_autoscaler else {}
        return [
            ScaleTargetSnapshot(found[ref], tuple(scaling.get(str(ref), ()))) if ref in found else None for ref in refs
        ]

    def decide(
        self, snapshot: ScaleTargetSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        workload = snapshot.subject
        marked = scaled_replicas.marked(workload, snapshot.autoscalers)
        return NOTHING if marked is workload else Decision(changes=(Put(marked, workload),), reason="ScaleTarget")

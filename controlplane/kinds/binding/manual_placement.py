"""Targets that a user wrote into a binding by hand. The scheduler keeps them until they become stale [edits-by-hand].

The write adds a mark to the binding, which is a digest of its targets, replicas and placement. The mark applies while
the digest is the same. An eviction, a scale-up or a change of the policy makes it stale.
"""

from __future__ import annotations

import hashlib

import msgspec

from controlplane.apimachinery.names import PLACED_BY_HAND_ANNOTATION
from controlplane.kinds.binding import Binding, ResourceBindingSpec


def with_mark(new: Binding, old: Binding | None) -> Binding:
    """Return a binding that a user edited, with a mark if the edit changed its targets or eviction tasks.

    `old` is the stored binding; None: the binding is being created, which adds no mark.
    """
    if old is None or _placed(new) == _placed(old):
        return new
    return new.with_meta(annotations={**new.metadata.annotations, PLACED_BY_HAND_ANNOTATION: _digest(new.spec)})


def mark_applies(binding: Binding) -> bool:
    """Test whether the present targets are those that a user wrote, for the present placement and replicas."""
    mark = binding.metadata.annotations.get(PLACED_BY_HAND_ANNOTATION)
    return mark is not None and mark == _digest(binding.spec)


def _placed(binding: Binding) -> tuple[object, ...]:
    return binding.spec.clusters, binding.spec.graceful_eviction_tasks


def _digest(spec: ResourceBindingSpec) -> str:
    text = msgspec.json.encode([spec.clusters, spec.replicas, spec.placement])
    return hashlib.sha256(text).hexdigest()[:16]

"""Placements somebody wrote into a binding by hand: honoured until placement or replicas change (D23).

The mark is a digest of what was written and of what it was written for. A result that copies would follow clusters
away from stands while the mark fits; an eviction or a scale-up makes it stale.
"""

from __future__ import annotations

import hashlib

import msgspec

from controlplane.apimachinery.names import PLACED_BY_HAND_ANNOTATION
from controlplane.kinds.binding import Binding, ResourceBindingSpec


def with_mark(new: Binding, old: Binding | None) -> Binding:
    """Return a binding somebody edited, with the mark where the edit placed it or moved its tasks."""
    if old is None or _placed(new) == _placed(old):
        return new
    return new.with_meta(annotations={**new.metadata.annotations, PLACED_BY_HAND_ANNOTATION: _digest(new.spec)})


def mark_applies(binding: Binding) -> bool:
    """Test whether the present placement is what somebody wrote, for the placement and replicas it has."""
    mark = binding.metadata.annotations.get(PLACED_BY_HAND_ANNOTATION)
    return mark is not None and mark == _digest(binding.spec)


def _placed(binding: Binding) -> tuple[object, ...]:
    return binding.spec.clusters, binding.spec.graceful_eviction_tasks


def _digest(spec: ResourceBindingSpec) -> str:
    text = msgspec.json.encode([spec.clusters, spec.replicas, spec.placement])
    return hashlib.sha256(text).hexdigest()[:16]

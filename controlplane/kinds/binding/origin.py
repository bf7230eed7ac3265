"""Home: where a binding was before it failed over, and what it has left of that (D19, D23).

Controllers that let copies leave note it in the annotation `failover.lifeboat.io/before-failover`,
{"clusters": {"member1": 1, "member2": 2}, "left": {"member1": "2026-…Z"}, "placement": "…"}, in the very write in which
the copy leaves, so that it lives as long as the binding. A failover after a failover keeps the first home. It is no
home any more once the placement is another one, a reschedule was asked for, or somebody placed the binding by hand.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.apimachinery.meta import Struct, to_seconds
from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.kinds.binding import Binding, manual_placement
from controlplane.kinds.policy import Placement

ANY = "*"  # among the index values: it has left some cluster


class Origin(Struct, frozen=True):
    """`clusters`: replicas by cluster before the first of its failovers; `left`: since when it is away from which."""

    clusters: dict[str, int]
    left: dict[str, Annotated[datetime, Meta(tz=True)]]
    placement: str  # digest of the placement it was home under

    @property
    def since(self) -> datetime:
        """When it first left."""
        return min(self.left.values())


def origin_of(binding: Binding) -> Origin | None:
    """Return the home a binding is away from; None where it is away from none."""
    known = _noted(binding)
    if known is None or known.placement != _digest(binding.spec.placement) or manual_placement.mark_applies(binding):
        return None
    gone = (name for name in known.left if binding.spec.target(name) is None and name in known.clusters)
    away = {name: known.left[name] for name in gone}
    if not away:
        return None
    found = Origin(known.clusters, away, known.placement)
    asked = binding.spec.reschedule_triggered_at
    return found if asked is None or asked <= found.since else None


def with_departures(new: Binding, old: Binding, *, now: datetime) -> Binding:
    """Return `new`, which lets targets of `old` leave through tasks, with its home noted."""
    gone = [
        target.name
        for target in old.spec.clusters
        if new.spec.target(target.name) is None and new.spec.task(target.name) is not None
    ]
    if not gone:
        return new
    known = origin_of(old) or Origin(
        {one.name: one.replicas for one in old.spec.clusters}, {}, _digest(old.spec.placement)
    )
    left = {name: to_seconds(now) for name in gone if name in known.clusters}
    return _with(new, Origin(known.clusters, {**known.left, **left}, known.placement))


def with_return(binding: Binding, cluster: str) -> Binding:
    """Return the binding with a cluster of its home taken off those it is away from; at home nothing is noted."""
    known = origin_of(binding)
    left = {} if known is None else {name: at for name, at in known.left.items() if name != cluster}
    return _with(binding, Origin(known.clusters, left, known.placement) if known is not None and left else None)


def left_clusters(binding: Binding) -> list[str]:
    """Return the clusters a binding is noted to be away from, and ANY beside them: its values in the index `left`."""
    known = _noted(binding)
    away = [] if known is None else [name for name in known.left if binding.spec.target(name) is None]
    return [*away, ANY] if away else []


def _noted(binding: Binding) -> Origin | None:
    text = binding.metadata.annotations.get(BEFORE_FAILOVER_ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Origin)
    except msgspec.MsgspecError:
        return None  # somebody else wrote it


def _with(binding: Binding, known: Origin | None) -> Binding:
    annotations = {key: text for key, text in binding.metadata.annotations.items() if key != BEFORE_FAILOVER_ANNOTATION}
    if known is not None:
        annotations[BEFORE_FAILOVER_ANNOTATION] = msgspec.json.encode(known, order="sorted").decode()
    return binding.with_meta(annotations=annotations)


def _digest(placement: Placement | None) -> str:
    return "" if placement is None else hashlib.sha256(msgspec.json.encode(placement)).hexdigest()[:16]

"""Preview: what a dangerous write does to the workloads, as a warning for its author. A dry run returns it too.

All ways in share it: it stands beside the writer (`apps/objects/writer.py`). Its cost is bounded: a write that concerns
more than SMALL bindings gets their number, and the way to ask for the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from apps.objects.configuration import base
from apps.objects.store import DjangoStore
from apps.objects.tallies import copies_on
from apps.objects.what_if import SMALL, is_small
from controlplane.apimachinery.meta import condition
from controlplane.controllers.reads.supposed_snapshot import supposed_snapshot
from controlplane.engine.decision import Delete, Put
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.insight.changes import Change, Cordoned
from controlplane.insight.preview_texts import (
    cordon_text,
    fence_text,
    hold_text,
    placement_text,
    steering_text,
    unfence_text,
)
from controlplane.insight.previews import (
    concerned,
    fenced_cluster,
    has_effects,
    is_final,
    named_clusters,
    preview_text,
    questions,
    subject_of,
)
from controlplane.insight.what_if import what_if
from controlplane.kinds import BINDINGS
from controlplane.settings import Settings

log = logging.getLogger(__name__)

COUNTED = 3  # clusters whose bindings are counted if there are too many to work out what happens to them
UNKNOWN = "effects: not known, because they could not be worked out; the log of the API says why"
ASK = "ask for the effects with lifeboat whatif, or POST /apis/failover.lifeboat.io/v1alpha1/whatifs"


class Preview(NamedTuple):
    """What writes do to the workloads, as warnings, and the number of workloads that move, stop or change.

    More workloads than SMALL are not counted.
    subject: what a person types to confirm a large act; "": the writes have no subject in common.
    is_final: the act cannot be taken back, so that its subject is always typed.
    """

    texts: tuple[str, ...] = ()
    concerned: int = 0
    subject: str = ""
    is_final: bool = False


def preview(
    store: DjangoStore, writes: Sequence[Put | Delete], settings: Settings, *, is_asked: bool, now: datetime
) -> Preview:
    """Return what the writes do to the workloads; no texts: nothing that is worth a warning.

    is_asked: the author asks for the effects, so an edit without effects says that it moves nothing, or what it places.
    With each write this would be noise.
    A preview that fails is logged and left out, because it must not keep a person from writing.
    """
    changes, fenced = questions(writes), sorted(filter(None, map(fenced_cluster, writes)))
    plain = [*map(placement_text, writes), *map(unfence_text, writes)]
    if not changes and not fenced and not any(plain):
        return Preview()
    try:
        found = _effects(store, changes, settings, now=now)
        effects = found.texts or _without_effects(writes, changes, now=now)
        moved = sum(map(bool, map(placement_text, writes)))
        texts = (*effects, *(_fence(store, name) for name in fenced), *filter(None, plain))
        silent = (found.sentence,) if is_asked else ()
        subject = subject_of(writes[0]) if len(writes) == 1 else ""
        return Preview(texts or silent, found.concerned + moved, subject, any(map(is_final, writes)))
    except Exception:
        log.exception("the effects of a write could not be worked out; it is stored without a preview")
        return Preview((UNKNOWN,) if is_asked else ())


class _Found(NamedTuple):
    """What changes do. `sentence`: says it if there is nothing to warn about, as with workloads that get a place."""

    texts: tuple[str, ...] = ()
    concerned: int = 0
    sentence: str = ""


def _effects(store: DjangoStore, changes: Sequence[Change], settings: Settings, *, now: datetime) -> _Found:
    if not changes:
        return _Found()
    if not is_small(store, changes):
        return _Found((f"effects: {_counted(changes)}; {ASK}",), SMALL + 1)
    snapshot = supposed_snapshot(store, changes, settings=settings, base=base(), now=now)
    effects = what_if(snapshot, changes, settings, now=now)
    if not has_effects(effects) and not effects.remarks:
        return _Found(sentence=preview_text(effects))
    return _Found((preview_text(effects),), concerned(effects))


def _without_effects(writes: Sequence[Put | Delete], changes: Sequence[Change], *, now: datetime) -> tuple[str, ...]:
    """Return what cordons, holds, gates and rates do although no copy moves and no eviction that waits changes."""
    cordoned = [name for change in changes if isinstance(change, Cordoned) for name in change.names]
    texts = [cordon_text(name, copies_on([name])) for name in cordoned]
    texts += (text for write in writes for text in (hold_text(write, now=now), steering_text(write)) if text)
    return tuple(texts)


def _counted(changes: Sequence[Change]) -> str:
    """Return how many bindings are on the clusters that the changes name, or that there are more than SMALL."""
    names = named_clusters(changes)[:COUNTED]
    if not names:
        return f"more than {SMALL} bindings are concerned"
    counts = {name: copies_on([name]) for name in names}
    return ", ".join(f"{count} bindings are on cluster {name}" for name, count in counts.items())


def _fence(store: DjangoStore, name: str) -> str:
    """Return how many workloads have new copies that wait for the cluster to be confirmed as down."""
    waiting = 0
    for kind in BINDINGS:
        for binding in store.by_index(kind, "leaving", [name], limit=SMALL).get(name, ()):
            found = condition(binding.status.conditions, DIRECTLY_WAITING)
            waiting += found is not None and found.status == "True" and binding.spec.task(name) is not None
    return fence_text(name, waiting)

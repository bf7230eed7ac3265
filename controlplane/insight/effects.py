"""Effects: what `insight.what_if` answers. Which copies move where, which have no place, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import field
from msgspec.structs import fields, replace

from controlplane.apimachinery.meta import Ref, Struct


class Affected(Struct, frozen=True):
    """A binding that a change concerns.

    `from_`: the replicas that leave, by cluster. `to`: the additional replicas, by cluster. Both count 0 for a workload
    without replicas. `at`: when its last copy is evicted, at the rate in force. None: unknown, or nothing is evicted.
    """

    binding: str
    workload: str
    from_: dict[str, int] = field(name="from", default_factory=dict)
    to: dict[str, int] = {}
    reason: str = ""
    message: str = ""
    at: datetime | None = None


class Overpacked(Struct, frozen=True):
    """A cluster that gets more than it has room for. Amounts: cpu in thousandths, everything else in whole units."""

    cluster: str
    resource: str
    needed: int
    room: int


class Effects(Struct, frozen=True):
    """What follows from changes.

    moves: bindings that leave clusters, those of `waits_for_person` included.
    placed: bindings that are on no cluster now, and get a place.
    without_place: bindings that stay, because the scheduler finds no other cluster.
    waits_for_person: bindings that leave, but whose new copies start only after an action of a person.
    held: bindings whose evictions are held, or are not processed because no evictions take place.
    stays: bindings that tolerate the taints, or for which an operator skipped the eviction.
    removed: bindings whose copies are removed and do not run elsewhere.
    overridden: copies that get another content, each with its cluster in `to` and what changes in `message`.
    refused: why a change would be refused; each is left out of the effects.
    remarks: rules that shape the answer.
    queued_before: evictions that are in the queue already and take place besides.
    cancelled: evictions that are in the queue, and that the changes end.
    eta_seconds: from now until the last eviction. None: nothing is evicted, or the time is unknown.
    hidden: by the name of a list in documents, how many of its bindings the reader may not see. They are left out.
    """

    sentence: str
    moves: tuple[Affected, ...] = ()
    placed: tuple[Affected, ...] = ()
    without_place: tuple[Affected, ...] = ()
    waits_for_person: tuple[Affected, ...] = ()
    held: tuple[Affected, ...] = ()
    stays: tuple[Affected, ...] = ()
    removed: tuple[Affected, ...] = ()
    overridden: tuple[Affected, ...] = ()
    overpacked: tuple[Overpacked, ...] = ()
    namespaces: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    queued_before: int = 0
    cancelled: int = 0
    tier: str = ""
    tier_because: str = ""
    rate: float = 0.0
    eta_seconds: float | None = None
    hidden: dict[str, int] = {}


LISTS: Final = {
    one.name: one.encode_name
    for one in fields(Effects)
    if one.name in ("moves", "placed", "without_place", "waits_for_person", "held", "stays", "removed", "overridden")
}
"""The fields of Effects that name bindings, each with its name in documents."""


def readable(effects: Effects, may_read: Callable[[Ref], bool]) -> Effects:
    """Return the effects without the bindings and namespaces that a reader may not see [names-of-others].

    All numbers, and so the sentence, stay those of the whole fleet. `may_read` is asked for each binding.
    """
    found: dict[str, tuple[Affected, ...]] = {name: getattr(effects, name) for name in LISTS}
    refs = {one.binding: Ref.parse(one.binding) for some in found.values() for one in some}
    seen = {text for text, ref in refs.items() if may_read(ref)}
    if len(seen) == len(refs):
        return effects
    kept = {name: tuple(one for one in some if one.binding in seen) for name, some in found.items()}
    hidden = {LISTS[name]: len(some) - len(kept[name]) for name, some in found.items() if len(some) > len(kept[name])}
    namespaces = {refs[text].namespace for text in seen}
    shown = tuple(name for name in effects.namespaces if name in namespaces)
    return replace(effects, **kept, hidden=hidden, namespaces=shown)


def sentence_of(
    *,
    moves: int = 0,
    placed: int = 0,
    without_place: int = 0,
    waiting: int = 0,
    held: int = 0,
    removed: int = 0,
    overridden: int = 0,
    cancelled: int = 0,
    overpacked: int = 0,
    namespaces: int = 0,
    refused: Sequence[str] = (),
) -> str:
    """Return the effects in one line, for example "moves 43, 2 without a place, 5 namespaces"."""
    parts = [f"moves {moves}"] if moves else []
    parts += [f"places {placed}"] if placed else []
    parts += [f"removes the copies of {removed}"] if removed else []
    parts += [f"cancels {_counted(cancelled, 'eviction', 'evictions')}"] if cancelled else []
    parts += [f"changes {_counted(overridden, 'copy', 'copies')}"] if overridden else []
    parts = parts or ["moves nothing"]
    parts += [f"{without_place} without a place"] if without_place else []
    parts += [f"{held} held"] if held else []
    parts += [f"{waiting} {'waits' if waiting == 1 else 'wait'} for a person"] if waiting else []
    parts += [_counted(overpacked, "cluster over-packed", "clusters over-packed")] if overpacked else []
    parts += [_counted(namespaces, "namespace", "namespaces")] if namespaces else []
    return "; ".join([f"refused: {why}" for why in refused] + [", ".join(parts)])


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"

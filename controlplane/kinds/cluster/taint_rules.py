"""What has to hold of taints wherever they are written: on a cluster, or in a policy that adds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from controlplane.apimachinery.causes import duplicate, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import label_key_errors, label_value_errors
from controlplane.kinds.cluster import EFFECTS


class Written(Protocol):
    """A taint as somebody wrote it."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def effect(self) -> str: ...


def taint_causes(taints: Sequence[Written], path: str) -> Iterator[Cause]:
    """Yield what is wrong with each taint of a list. Of two with one (key, effect) the later one is too many."""
    seen = set[tuple[str, str]]()
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        for rule in label_key_errors(taint.key):
            yield invalid(f"{place}.key", taint.key, rule)
        for rule in label_value_errors(taint.value):
            yield invalid(f"{place}.value", taint.value, rule)
        if not taint.effect:
            yield required(f"{place}.effect", f"one of {', '.join(EFFECTS)}")
        elif taint.effect not in EFFECTS:
            yield unsupported(f"{place}.effect", taint.effect, EFFECTS)
        if (taint.key, taint.effect) in seen:
            pair = {"key": taint.key, "effect": taint.effect}
            yield duplicate(place, pair, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))

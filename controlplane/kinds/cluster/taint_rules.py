"""Validation of taints, for taints on clusters and taints that policies add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from controlplane.apimachinery.causes import duplicate, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import label_key_errors, label_value_errors
from controlplane.kinds.cluster import EFFECTS


class TaintFields(Protocol):
    """The fields that the taints of clusters and of policies share."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def effect(self) -> str: ...


def taint_causes(taints: Sequence[TaintFields], path: str) -> Iterator[Cause]:
    """Yield the causes to refuse a list of taints; `path` is its path. Each key and effect may occur only once."""
    seen = set[tuple[str, str]]()
    for index, taint in enumerate(taints):
        taint_path = f"{path}[{index}]"
        for rule in label_key_errors(taint.key):
            yield invalid(f"{taint_path}.key", taint.key, rule)
        for rule in label_value_errors(taint.value):
            yield invalid(f"{taint_path}.value", taint.value, rule)
        if not taint.effect:
            yield required(f"{taint_path}.effect", f"one of {', '.join(EFFECTS)}")
        elif taint.effect not in EFFECTS:
            yield unsupported(f"{taint_path}.effect", taint.effect, EFFECTS)
        if (taint.key, taint.effect) in seen:
            pair = {"key": taint.key, "effect": taint.effect}
            yield duplicate(taint_path, pair, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))

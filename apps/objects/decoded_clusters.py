"""Clusters as they were decoded last, because they are large and many batches read all of them.

A process keeps those of the last complete list. A cluster is decoded again when its JSON has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.objects.tables import read
from controlplane.kinds import CLUSTER

_known: dict[str, tuple[str, Any]] = {}  # by name: the JSON and the object decoded from it


def listed(documents: Iterable[tuple[str, str]]) -> list[Any]:
    """Return all clusters, from their names and JSON."""
    global _known
    before, current = _known, {}
    for name, text in documents:
        pair = before.get(name)
        current[name] = pair if pair is not None and pair[0] == text else (text, read(CLUSTER, text))
    _known = current
    return [cluster for _, cluster in current.values()]


def single(name: str, text: str) -> Any:
    """Return one cluster. It is not kept, so that the memory is bounded by the last list."""
    pair = _known.get(name)
    return pair[1] if pair is not None and pair[0] == text else read(CLUSTER, text)

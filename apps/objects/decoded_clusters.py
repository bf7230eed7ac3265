"""Clusters as they were decoded last, because they are large and many batches read all of them.

A process keeps those of the last complete list. A cluster is decoded again when its JSON has changed. Of a Cluster that
cannot be decoded, who looks at several gets what can be read, so that it stops nothing that is about others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from apps.objects.tables import read
from controlplane.engine.state import Unreadable
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster.damaged import readable_part

log = logging.getLogger(__name__)

_known: dict[str, tuple[str, Any]] = {}  # by name: the JSON and the object decoded from it


def listed(documents: Iterable[tuple[str, str]]) -> list[Any]:
    """Return all clusters, from their names and JSON."""
    global _known
    before, current = _known, {}
    for name, text in documents:
        pair = before.get(name)
        current[name] = pair if pair is not None and pair[0] == text else (text, as_far_as_readable(name, text))
    _known = current
    return [cluster for _, cluster in current.values()]


def single(name: str, text: str) -> Any:
    """Return one cluster. It is not kept, so that the memory is bounded by the last list. Raises Unreadable."""
    known = _as_known(name, text)
    return read(CLUSTER, text) if known is None or known.unreadable else known


def as_far_as_readable(name: str, text: str) -> Any:
    """Return one cluster, or what can be read of it."""
    known = _as_known(name, text)
    if known is not None:
        return known
    try:
        return read(CLUSTER, text)
    except Unreadable as error:
        log.error("%s: it counts as a cluster to which access is lost until a person has repaired it", error)
        try:
            document = msgspec.json.decode(text)
        except msgspec.DecodeError:
            document = None
        return readable_part(document, name=name, why=str(error))


def _as_known(name: str, text: str) -> Any:
    """Return a cluster as the last list had it; None: it was not there, or had another JSON."""
    pair = _known.get(name)
    return pair[1] if pair is not None and pair[0] == text else None

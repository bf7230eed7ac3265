"""Cases of the controllers that ask members."""

from __future__ import annotations

from collections.abc import Callable

from tests.apps.batches.propagation import to_interpreted
from tests.apps.batches.stored import Case, bound, clusters, many, refs, work_of


def members(size: int) -> Case:
    found = clusters(*many(size))
    return Case(found, refs(found), size)


def execution(size: int) -> Case:
    found = [work_of(one, "spare") for one in bound(size, spare=2)]
    return Case([*clusters("spare"), *found], refs(found), size)


def work_status(size: int) -> Case:
    found = [work_of(one, "spare", applied=True) for one in bound(size, spare=2)]
    return Case(found, refs(found), size)


def to_works(size: int) -> Case:
    return Case([*clusters("spare"), *(work_of(one, "spare") for one in bound(size))], refs(clusters("spare")), size)


BATCHES: dict[str, Callable[[int], Case]] = {
    "probes": members,
    "collection": members,
    "execution": execution,
    "work_status": work_status,
}

FAN_OUTS: dict[str, Callable[[int], Case]] = {
    "work_status": to_interpreted,
    "execution": to_works,
}

"""Node pools: what the nodes of a member have free, by their labels and taints [node-estimate]."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from controlplane.apimachinery.quantities import Quantity, parse
from controlplane.estimate.request import CPU, scaled
from controlplane.kinds.cluster import MAX_POOLS, MAX_ROOMS, NO_EXECUTE, NO_SCHEDULE, NodePool, NodeRoom, NodeTaint

HOSTNAME: Final = "kubernetes.io/hostname"
_DIGITS: Final = 8  # the significant binary digits with which rounding begins

Document = Mapping[str, Any]
Amounts = Mapping[str, Quantity]
_Kind = tuple[tuple[tuple[str, str], ...], tuple[NodeTaint, ...]]  # labels and taints
_Free = tuple[tuple[str, int], ...]


class PoolRoom(msgspec.Struct, frozen=True):
    """A node pool as numbers: for each kind of node how many there are, and what each has free, by resource name."""

    labels: tuple[tuple[str, str], ...]
    taints: tuple[NodeTaint, ...]
    counts: tuple[int, ...]
    free: dict[str, tuple[int, ...]]


def pools_of(nodes: Iterable[tuple[Document, Amounts]]) -> tuple[tuple[NodePool, ...], tuple[str, ...]]:
    """Return the pools of nodes with what each node has free, and the names of the labels that were left out.

    The label with the name of the node is always left out. If there are more than MAX_POOLS pools, so is the label with
    the most values, and so on; if taints alone make more, the pools with the fewest nodes. If there are more than
    MAX_ROOMS free amounts, they are rounded down; if that is not enough, those of the fewest nodes are left out.
    """
    listed = [(_kind(node), _numbers(free)) for node, free in nodes]
    unlisted = _unlisted([labels for (labels, _), _ in listed], [taints for (_, taints), _ in listed])
    pools: dict[_Kind, Counter[_Free]] = defaultdict(Counter)
    for (labels, taints), free in listed:
        pools[tuple(pair for pair in labels if pair[0] not in unlisted), taints][free] += 1
    digits = _DIGITS
    while sum(map(len, pools.values())) > MAX_ROOMS and digits:
        pools = defaultdict(Counter, {kind: _rounded(rooms, digits) for kind, rooms in pools.items()})
        digits -= 1
    largest = _largest(pools)
    found = tuple(
        NodePool(dict(labels), taints, tuple(NodeRoom(rooms[free], _texts(free)) for free in sorted(rooms)))
        for (labels, taints), rooms in sorted(largest.items(), key=lambda item: (item[0][0], str(item[0][1])))
    )
    return found, tuple(sorted(unlisted))


def _largest(pools: Mapping[_Kind, Counter[_Free]]) -> Mapping[_Kind, Counter[_Free]]:
    """Return the MAX_POOLS pools with most nodes, and of these the MAX_ROOMS rooms with most nodes.

    The other nodes count as full. They are few: each has taints, or free amounts, that nearly no other node has.
    """
    kinds = sorted(pools, key=lambda kind: (-pools[kind].total(), str(kind)))[:MAX_POOLS]
    rooms = sorted(
        ((kind, free) for kind in kinds for free in pools[kind]), key=lambda room: (-pools[room[0]][room[1]], str(room))
    )
    found: dict[_Kind, Counter[_Free]] = {kind: Counter() for kind in kinds}
    for kind, free in rooms[:MAX_ROOMS]:
        found[kind][free] = pools[kind][free]
    return found


def _kind(node: Document) -> _Kind:
    """Return the labels and taints of a node that decide which pods it takes."""
    labels = node.get("metadata", {}).get("labels") or {}
    taints = (
        NodeTaint(taint.get("key", ""), taint.get("effect", ""), taint.get("value") or "")
        for taint in node.get("spec", {}).get("taints") or ()
        if taint.get("effect") in (NO_SCHEDULE, NO_EXECUTE)
    )
    return (
        tuple(sorted((key, value) for key, value in labels.items() if key != HOSTNAME)),
        tuple(sorted(taints, key=lambda taint: (taint.key, taint.effect, taint.value))),
    )


def _unlisted(labels: list[tuple[tuple[str, str], ...]], taints: list[tuple[NodeTaint, ...]]) -> frozenset[str]:
    """Return the labels to leave out, so that there are at most MAX_POOLS pools."""
    values: dict[str, set[str]] = defaultdict(set)
    for pairs in labels:
        for key, value in pairs:
            values[key].add(value)
    most = sorted(values, key=lambda key: (-len(values[key]), key))
    unlisted: set[str] = set()
    while True:
        kinds = {
            (tuple(pair for pair in pairs if pair[0] not in unlisted), marks)
            for pairs, marks in zip(labels, taints, strict=True)
        }
        if len(kinds) <= MAX_POOLS or not most:
            return frozenset(unlisted)
        unlisted.add(most.pop(0))


def _numbers(free: Amounts) -> _Free:
    """Return the positive amounts in the units of requests, sorted by resource."""
    numbers = ((name, scaled(name, free[name])) for name in sorted(free) if free[name].sign() > 0)
    return tuple((name, number) for name, number in numbers if number > 0)


def _rounded(rooms: Mapping[_Free, int], digits: int) -> Counter[_Free]:
    """Return rooms with each amount rounded down to its first binary digits, so that more rooms are equal."""
    found: Counter[_Free] = Counter()
    for free, count in rooms.items():
        found[tuple((name, _first_digits(number, digits)) for name, number in free)] += count
    return found


def _first_digits(number: int, digits: int) -> int:
    dropped = max(0, number.bit_length() - digits)
    return number >> dropped << dropped


def _texts(free: _Free) -> dict[str, str]:
    return {name: f"{number}m" if name == CPU else str(number) for name, number in free}


def read(pools: Iterable[NodePool]) -> tuple[PoolRoom, ...]:
    """Return reported pools as numbers. Raises QuantityError if an amount is not a quantity."""
    found = []
    for pool in pools:
        names = sorted({name for room in pool.nodes for name in room.free})
        free = {
            name: tuple(scaled(name, parse(room.free[name])) if name in room.free else 0 for room in pool.nodes)
            for name in names
        }
        counts = tuple(room.count for room in pool.nodes)
        found.append(PoolRoom(tuple(sorted(pool.labels.items())), pool.taints, counts, free))
    return tuple(found)

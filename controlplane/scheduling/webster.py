"""Divides replicas in proportion to weights by the Webster (Sainte-Laguë) method [replica-division].

One replica at a time goes to the target with the largest quotient weight / (2 · seats + 1), in 64-bit floating point.
A tie goes to the target with fewer seats, then by name. `_head_start` computes the first replicas in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heapreplace
from typing import Final

from controlplane.apimachinery.names import FNV_OFFSET

_HEAD_START_FROM: Final = 4
"""Replicas per target from which a head start is cheaper than giving out every replica separately."""


def descending(uid: str) -> bool:
    """Return whether ties go to the larger name. The hash of the template's uid decides; an empty uid: no.

    Only the last bit of the FNV-1a hash is asked for. Its factor is odd, so this bit is that of the sum of its start
    and all bytes.
    """
    return uid != "" and (FNV_OFFSET + sum(uid.encode())) % 2 == 1


def dispense(
    replicas: int,
    weights: Mapping[str, int],
    *,
    initial: Mapping[str, int] | None = None,
    uid: str = "",
) -> dict[str, int]:
    """Return the seats of every target after `replicas` were given out in addition to `initial`.

    A target without weight gets nothing. If no target has a weight, nothing is given out. `uid`: of the template. It
    decides ties (`descending`), so that the last replica does not always go to the first cluster.
    """
    held = dict(initial or {})
    total_weight = sum(weights.values())
    if replicas <= 0 or total_weight == 0:
        return held or dict.fromkeys(weights, 0)
    seats = {**dict.fromkeys(weights, 0), **held}
    weighted = {name: weight for name, weight in weights.items() if weight > 0}
    left = replicas
    if replicas > _HEAD_START_FROM * len(weighted):
        left -= _head_start(replicas, weighted, seats)
    _hand_out(left, weighted, seats, reverse=descending(uid))
    return seats


def _hand_out(replicas: int, weights: Mapping[str, int], seats: dict[str, int], *, reverse: bool) -> None:
    """Add `replicas` to `seats` one by one."""
    names = sorted(weights, reverse=reverse)
    votes = [float(weights[name]) for name in names]
    queue = [(-votes[rank] / (2 * seats[name] + 1), seats[name], rank) for rank, name in enumerate(names)]
    heapify(queue)
    for _ in range(replicas):
        _, taken, rank = queue[0]
        taken += 1
        seats[names[rank]] = taken
        heapreplace(queue, (-votes[rank] / (2 * taken + 1), taken, rank))


def _head_start(replicas: int, weights: Mapping[str, int], seats: dict[str, int]) -> int:
    """Raise `seats` to a number that every target reaches in any case. Return how many replicas that used.

    W: the sum of weights of the targets that still compete. k: their number. N: the seats they end with. A target has
    at most w·(2N-k)/2W + 1/2 quotients above the level W/(2N-k), and these bounds add up to N. So every quotient
    clearly above that level is among the first N. A target that already holds more than its bound stops competing,
    which only raises the level for the others.
    """
    racing = list(weights)
    while True:
        total_weight = sum(weights[name] for name in racing)
        doubled = 2 * (replicas + sum(seats[name] for name in racing)) - len(racing)
        # seats < w·doubled/2W + 1/2, in integers
        still = [name for name in racing if (2 * seats[name] - 1) * total_weight < weights[name] * doubled]
        if len(still) == len(racing):
            break
        racing = still
    given = 0
    for name in racing:
        sure = (weights[name] * doubled - total_weight) // (2 * total_weight)
        if sure > seats[name]:
            given += sure - seats[name]
            seats[name] = sure
    return given

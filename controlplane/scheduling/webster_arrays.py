"""The division of `webster.dispense` over arrays: the same result, at a cost that hardly depends on the replicas."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduling.webster import dispense

Counts = NDArray[np.int64]

_MOST_SEATS: Final = 2**48
"""Up to so many seats, rounding in float64 changes a share by less than a seat. More are divided by `dispense`."""


def divide(replicas: int, weights: Counts, held: Counts | None = None, *, larger_name_first: bool = False) -> Counts:
    """Return the seats of every cluster after `replicas` were given out by weight in addition to `held`.

    Clusters are in the order of their names. `larger_name_first`: ties go to the later clusters. If no cluster has a
    weight, nothing is given out.
    """
    seats = np.zeros(len(weights), dtype=np.int64) if held is None else held.astype(np.int64, copy=True)
    racing = (weights > 0).nonzero()[0]
    if replicas <= 0 or not len(racing):
        return seats
    votes = weights[racing].astype(np.float64)
    taken = seats[racing]
    if replicas + int(taken.sum()) > _MOST_SEATS:
        return _plainly(replicas, weights, seats, larger_name_first=larger_name_first)
    left = replicas
    if replicas > 2 * len(racing):
        sure = _sure_seats(replicas, votes, taken)
        left -= int((sure - taken).sum())
        taken = sure
    if left > 0:
        taken = taken + _best(left, votes, taken, larger_name_first=larger_name_first)
    seats[racing] = taken
    return seats


def _sure_seats(replicas: int, votes: NDArray[np.float64], taken: Counts) -> Counts:
    """Return how many seats each cluster ends with at least.

    W: the sum of weights of the clusters that still compete. k: their number. N: all seats. As in `webster`, every seat
    below w·(2N-k)/2W - 1/2 is among the first N. One seat is subtracted because floating point may round.
    """
    racing = np.ones(len(votes), dtype=np.bool_)
    while True:
        total = float(votes[racing].sum())
        doubled = 2.0 * (replicas + float(taken[racing].sum())) - float(racing.sum())
        share = votes * (doubled / (2.0 * total))
        still = racing & (taken - 0.5 < share)
        if still.sum() == racing.sum():
            break
        racing = still
    sure = np.floor(share - 0.5).astype(np.int64) - 1
    found: Counts = np.where(racing, np.maximum(sure, taken), taken)
    return found


def _best(replicas: int, votes: NDArray[np.float64], taken: Counts, *, larger_name_first: bool) -> Counts:
    """Return how many of the next `replicas` seats each cluster wins. The seats with the largest quotients win.

    The quotients of a cluster fall with every seat, so only the next `depth` seats of each cluster are compared. If a
    cluster wins all of these, it might win more, and the depth is increased.
    """
    size = len(votes)
    depth = min(replicas, 2 + 2 * replicas // size)
    order = np.arange(size)
    if size > 4 * replicas:
        # Only clusters with one of the `replicas` best first quotients can win a seat.
        order = _first(votes / (2 * taken + 1), taken, np.arange(size), replicas, larger_name_first=larger_name_first)
    while True:
        steps = np.arange(depth)
        seats = taken[order][:, None] + steps
        quotients = votes[order][:, None] / (2 * seats + 1)
        places = np.broadcast_to(order[:, None], seats.shape)
        chosen = _first(quotients.ravel(), seats.ravel(), places.ravel(), replicas, larger_name_first=larger_name_first)
        won: Counts = np.bincount(places.ravel()[chosen], minlength=size).astype(np.int64)
        if depth >= replicas or int(won.max()) < depth:
            return won
        depth = min(replicas, depth * 4)


def _first(
    quotients: NDArray[np.float64], seats: Counts, places: NDArray[np.intp], count: int, *, larger_name_first: bool
) -> NDArray[np.intp]:
    """Return the positions of the best `count` seats: by larger quotient, then fewer seats, then name."""
    size = len(quotients)
    if size <= count:
        return np.arange(size)
    level = np.partition(quotients, size - count)[size - count]
    above = (quotients > level).nonzero()[0]
    level_ones = (quotients == level).nonzero()[0]
    wanted = count - len(above)
    if wanted < len(level_ones):
        names = -places[level_ones] if larger_name_first else places[level_ones]
        level_ones = level_ones[np.lexsort((names, seats[level_ones]))[:wanted]]
    return np.concatenate((above, level_ones))


_ODD_UID: Final = "b"  # any text with an odd hash


def _plainly(replicas: int, weights: Counts, seats: Counts, *, larger_name_first: bool) -> Counts:
    """Divide with `webster.dispense`, for more seats than float64 can count."""
    width = len(str(len(weights)))
    names = [f"{place:0{width}d}" for place in range(len(weights))]
    result = dispense(
        replicas,
        dict(zip(names, map(int, weights), strict=True)),
        initial={name: int(count) for name, count in zip(names, seats, strict=True) if count},
        uid=_ODD_UID if larger_name_first else "",
    )
    return np.array([result.get(name, 0) for name in names], dtype=np.int64)

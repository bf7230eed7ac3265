"""The division of `webster.dispense` over arrays: the same result, at a cost that hardly depends on the replicas."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def divide(replicas: int, weights: Counts, *, larger_name_first: bool) -> Counts:
    """Return the seats of every cluster after `replicas` were given out by weight.

    Clusters are in the order of their names. `larger_name_first`: ties go to the later clusters. If no cluster has a
    weight, nothing is given out.
    """
    seats = np.zeros(len(weights), dtype=np.int64)
    racing = (weights > 0).nonzero()[0]
    if replicas <= 0 or not len(racing):
        return seats
    votes = weights[racing].astype(np.float64)
    sure = _sure_seats(replicas, votes)
    won = _best(replicas - int(sure.sum()), votes, sure, larger_name_first=larger_name_first)
    seats[racing] = sure + won
    return seats


def _sure_seats(replicas: int, votes: NDArray[np.float64]) -> Counts:
    """Return how many seats each cluster ends with at least.

    W: the sum of weights. k: the number of clusters. N: all seats. As in `webster`, every seat below w·(2N-k)/2W - 1/2
    is among the first N. One seat is subtracted because floating point may round.
    """
    share = votes * ((2.0 * replicas - len(votes)) / (2.0 * float(votes.sum())))
    found: Counts = np.maximum(np.floor(share - 0.5).astype(np.int64) - 1, 0)
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
        # No more clusters can win a seat than there are seats, and a cluster with a larger weight wins one first.
        order = _first(votes, taken, order, replicas, larger_name_first=larger_name_first)
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

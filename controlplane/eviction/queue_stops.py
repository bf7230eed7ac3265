"""The stops of the eviction queue: times in which evictions waited for tokens or for observations, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from controlplane.clusters.eviction_tier import NO_TOKENS, NOT_OBSERVED
from controlplane.kinds.rows import Stop


def stops_after(
    stops: tuple[Stop, ...], *, problem: str, may_move: bool, unobserved: Sequence[str], now: datetime
) -> tuple[Stop, ...]:
    """Return the stops after a look at the queue.

    `problem`: why the token buckets cannot be reached; "": they can, or nothing is queued. `may_move`: an eviction
    lacks nothing but a token. `unobserved`: clusters of which it is not known whether they have recovered, if all
    evictions wait for them. The last stop is ended if its reason does not hold any more, or nothing waits. One that
    goes on names the clusters that are not observed now.
    """
    last = stops[-1] if stops and stops[-1].until is None else None
    if last is not None and problem and last.why.startswith(NO_TOKENS):
        return stops
    why = f"{NOT_OBSERVED}: {', '.join(unobserved)} may have recovered while no process observed it"
    if last is not None and unobserved and last.why.startswith(NOT_OBSERVED):
        return (*stops[:-1], replace(last, why=why))
    ended = stops if last is None else (*stops[:-1], replace(last, until=now))
    if problem and may_move:
        return (*ended, Stop(now, f"{NO_TOKENS}: {problem}"))
    return (*ended, Stop(now, why)) if unobserved else ended

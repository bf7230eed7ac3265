"""Which token buckets a look at the eviction queue asks, and which moves get the tokens [bounded-rate]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from controlplane.clusters import eviction_tier
from controlplane.eviction import rate
from controlplane.eviction.eviction_plan import Move
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Eviction
from controlplane.settings import Settings


def buckets_to_ask(
    heads: Iterable[Eviction], clusters: Iterable[Cluster], rate_: float, settings: Settings
) -> Iterable[str]:
    """Yield the token buckets that are asked at this look, at this rate. `heads`: the first queued rows.

    The bucket of the fleet is asked at each look. So it is there, and holds tokens, before the first eviction is
    queued, and it learns a lower rate at once. The bucket of a cluster is asked while the cluster has queued evictions,
    or is faulty and the rate is lowered.
    """
    if (scope := settings.eviction.bucket_scope) == "Fleet":
        yield rate.FLEET_BUCKET
        return
    yield from (rate.bucket_of(row.cluster, scope) for row in heads)
    if rate_ < settings.resource_eviction_rate:
        faulty = (cluster.metadata.name for cluster in clusters if eviction_tier.faulty(cluster))
        yield from (rate.bucket_of(name, scope) for name in faulty)


def question(moves: Sequence[Move], buckets: Iterable[str], rate_: float, settings: Settings) -> rate.TakeTokens | None:
    """Return the request for the tokens of these moves, and for none from other buckets. None: no bucket is asked."""
    wanted = Counter(dict.fromkeys(buckets, 0))
    wanted.update(rate.bucket_of(move.row.cluster, settings.eviction.bucket_scope) for move in moves)
    return rate.TakeTokens(dict(wanted), rate_) if wanted else None


def granted(moves: Sequence[Move], answer: rate.Tokens | None, settings: Settings) -> tuple[list[Move], bool]:
    """Return the moves that get a token, in order, and whether any move got none."""
    left = Counter({} if answer is None else answer.granted)
    found = []
    for move in moves:
        bucket = rate.bucket_of(move.row.cluster, settings.eviction.bucket_scope)
        if left[bucket] > 0:
            left[bucket] -= 1
            found.append(move)
    return found, len(found) < len(moves)

"""How long after an eviction the next one may follow."""

from __future__ import annotations

import math
from typing import Any

from controlplane.eviction.rate import Bucket, take_tokens

Document = dict[str, Any]
NANOSECONDS = 1e9
SINGLE_PRECISION = 1e-6  # relative: the original computes with 24 bits


def run(given: Document) -> Document:
    rate = given["resourceEvictionRate"]
    taken = take_tokens(Bucket(1.0, rate, 0.0), 1, rate=rate, at=0.0)
    return {"delaySeconds": taken.next_in}


def agree(expect: Document, result: Document) -> bool:
    wanted, nanoseconds = expect["delaySeconds"], expect["delayNanoseconds"]
    return math.isclose(result["delaySeconds"], wanted, rel_tol=SINGLE_PRECISION) and math.isclose(
        result["delaySeconds"] * NANOSECONDS, nanoseconds, rel_tol=SINGLE_PRECISION, abs_tol=1
    )


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """At rate 0 the original lets an eviction go every half hour."""
    if given["resourceEvictionRate"] == 0 and result["delaySeconds"] == -1:
        return "at rate 0 nothing is evicted [bounded-rate]"
    return None

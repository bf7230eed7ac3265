"""The rate of orders that move many workloads: Drain, Failback and Drill."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.settings import MAX_RATE


def rate_causes(rate: float, before: float | None, *, advice: str = "") -> Iterator[Cause]:
    """Yield the cause to refuse a rate. The bounds are those of the eviction rates.

    `before`: the stored rate; None: the order is new. One that does not change is accepted, so that an order from
    before there was an upper bound can be stopped.
    """
    if rate != before and not 0 < rate <= MAX_RATE:
        yield invalid("spec.rate", rate, f"must be greater than 0 and at most {MAX_RATE}{advice}")

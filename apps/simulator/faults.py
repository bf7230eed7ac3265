"""What can be wrong with a member, as ordered by whoever tests against it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Fault(StrEnum):
    """One trouble at a time."""

    NONE = "none"
    DOWN = "down"  # connections are refused, open ones are cut
    BLACKHOLE = "blackhole"  # connections are taken, nothing is ever answered, watches fall silent
    SLOW = "slow"  # every request is answered some seconds late
    UNAUTHORIZED = "unauthorized"  # every request is answered with 401
    EXPIRED = "expired"  # serves with a certificate whose time is over
    UNHEALTHY = "unhealthy"  # /readyz, /healthz and /livez answer 503, all else works
    NOT_READY = "notready"  # the API works, but pods never become ready


class Trouble(msgspec.Struct, frozen=True):
    """A fault with how slow SLOW is."""

    fault: Fault = Fault.NONE
    seconds: float = 5.0

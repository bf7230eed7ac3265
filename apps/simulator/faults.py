"""The faults of a member that tests can start."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Fault(StrEnum):
    """A fault. A member has at most one at a time."""

    NONE = "none"
    DOWN = "down"  # connections are refused, open connections are closed
    BLACKHOLE = "blackhole"  # connections are accepted, requests get no answer, watches get no events
    SLOW = "slow"  # every request is answered after a delay
    UNAUTHORIZED = "unauthorized"  # every request is answered with 401
    EXPIRED = "expired"  # the server certificate has expired
    UNHEALTHY = "unhealthy"  # /readyz, /healthz and /livez answer 503, everything else works
    NOT_READY = "notready"  # the API works, but pods never become ready


class Trouble(msgspec.Struct, frozen=True):
    """The fault of a member. `seconds` is the delay of SLOW."""

    fault: Fault = Fault.NONE
    seconds: float = 5.0

"""The conditions of an object, for pages: those that need attention first."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.eviction.graceful import EVICTION_STUCK
from controlplane.eviction.pending import EVICTION_PENDING
from controlplane.kinds.binding import FULLY_APPLIED, SCHEDULED
from controlplane.kinds.cluster import ACCESS_LOST, COMPLETE_APIS, ESTABLISHED, FENCED, FLAPPING, READY
from controlplane.kinds.work import APPLIED

GOOD_IF_TRUE: Final = frozenset((SCHEDULED, FULLY_APPLIED, APPLIED, READY, COMPLETE_APIS, ESTABLISHED, "Available"))
BAD_IF_TRUE: Final = frozenset(
    (EVICTION_PENDING, EVICTION_STUCK, DIRECTLY_WAITING, ACCESS_LOST, FLAPPING, FENCED, "Failed", "ReplicaFailure")
)


class ShownCondition(NamedTuple):
    """A condition. `attention`: its status is not the one that it should have. `since`: as the API writes it."""

    type: str
    status: str
    reason: str
    message: str
    since: str
    attention: bool


def conditions_of(document: dict[str, Any]) -> list[ShownCondition]:
    """Return the conditions in the status of a document, those that need attention first."""
    found = (document.get("status") or {}).get("conditions")
    if not isinstance(found, list):
        return []
    shown = [_shown(condition) for condition in found if isinstance(condition, dict)]
    return sorted(shown, key=lambda condition: (not condition.attention, condition.type))


def _shown(condition: dict[str, Any]) -> ShownCondition:
    type_, status = str(condition.get("type", "")), str(condition.get("status", ""))
    attention = (type_ in GOOD_IF_TRUE and status != "True") or (type_ in BAD_IF_TRUE and status == "True")
    reason, message, since = (str(condition.get(name) or "") for name in ("reason", "message", "lastTransitionTime"))
    return ShownCondition(type_, status, reason, message, since, attention)

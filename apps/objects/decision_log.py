"""One log line for each decision that changed something, and one for each write that was refused.

The lines name objects, versions and rules. They never contain the contents of an object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from apps.objects.batch import refs_of
from apps.objects.instruments import REFUSED
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import ROW_CHANGES, Decision, Put, Save
from controlplane.engine.state import Actor, Claim, Outcome
from controlplane.kinds.rows import Eviction

P = ParamSpec("P")
T = TypeVar("T")
Line = dict[str, Any]

stored_log: Final = logging.getLogger("lifeboat.decisions")
refused_log: Final = logging.getLogger("lifeboat.refused")

LONGEST_LIST: Final = 20  # objects and Events that one line names; `more` counts the others
# Their messages repeat values of the document, which may be secret: the line has only the fields.
_WITH_VALUES: Final = frozenset({400, 422})


def log_outcomes(
    decisions: Sequence[tuple[Claim | None, Decision]], outcomes: Sequence[Outcome], *, by: Actor, seconds: float
) -> None:
    """Log the decisions that were stored or lost. `seconds`: how long it took to complete and write all of them.

    A decision that stored nothing has no line. A decision that stored only row-native values has a line only if one of
    them is an item of the eviction queue: probes, reservations and notes are stored too often.
    """
    if not stored_log.isEnabledFor(logging.INFO):
        return
    whose = {"controller" if by.controller else "actor": by.name, "ms": round(seconds * 1000, 1)}
    stored: list[Line] = []
    lost: list[Line] = []
    for (claim, decision), outcome in zip(decisions, outcomes, strict=False):  # an error ends `outcomes` early
        if outcome.lost:
            about = str(_about(claim, refs_of(decision), decision))
            text = f"{by.name}: {about} was not stored, because it has changed"
            lost.append({"message": text, **whose, "ref": about, "reason": decision.reason, "why": outcome.lost})
        elif (line := _stored(claim, decision, outcome, whose)) is not None:
            line["message"] = f"{by.name}: {line['ref']} {line['reason']}"
            stored.append(line)
    # One record has the lines of a batch, because records cost more than lines (`config.logging`).
    if stored:
        stored_log.info("%s: %d decisions were stored", by.name, len(stored), extra={"lines": stored})
    if lost:
        refused_log.info("%s: %d decisions were not stored", by.name, len(lost), extra={"lines": lost})


def _stored(claim: Claim | None, decision: Decision, outcome: Outcome, whose: Line) -> Line | None:
    """Return the fields of the line about a stored decision; None: it has no line."""
    changed, queued = list[Ref](), dict[str, int]()
    for change, version in zip(decision.changes, outcome.versions, strict=True):
        if isinstance(change, ROW_CHANGES):
            if isinstance(change.row, Eviction):
                state = change.row.state if isinstance(change, Save) else "Removed"
                queued[state] = queued.get(state, 0) + 1
        elif version:
            changed.append((change.new if isinstance(change, Put) else change.old).ref)
    if not (changed or queued or decision.events):
        return None
    about = _about(claim, changed, decision)
    events = [event.reason for event in decision.events]
    line = {"message": "", **whose, "ref": str(about), "reason": decision.reason or next(iter(events), "")}
    _add(line, "changed", [str(ref) for ref in changed if ref != about])
    _add(line, "versions", [version for version in outcome.versions if version])
    _add(line, "events", events)
    if queued:
        line["queue"] = queued
    if decision.cause:
        line["cause"] = decision.cause
    return line


def log_refusal(error: StatusError, *, actor: str, way: str, ref: str = "") -> None:
    """Log a write that was refused. `way`: the way in, for example "PUT /api/v1/…" or "Admin"."""
    details = error.details
    REFUSED.labels(error.code).inc()
    line: Line = {"actor": actor, "way": way, "code": error.code, "reason": error.reason}
    line["ref"] = ref or f"{details.kind}/{details.name}".strip("/")
    if error.code in _WITH_VALUES:
        _add(line, "fields", [f"{one.field}: {one.reason}" for one in details.causes])
    else:
        line["why"] = error.message
    refused_log.warning("%s: %s was refused: %s", actor or "a caller without a login", way, error.reason, extra=line)


def refusals_logged(way: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for functions that write on behalf of a user: it logs their StatusErrors.

    The user is that of the argument that has one (`edits.By`).
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def logging_refusals(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except StatusError as error:
                ref = str(args[0]) if args and isinstance(args[0], Ref) else ""
                users = [one.user for one in (*args, *kwargs.values()) if hasattr(one, "user")]
                log_refusal(error, actor=str(users[0]) if users else "", way=way, ref=ref)
                raise

        return logging_refusals

    return decorated


def _about(claim: Claim | None, refs: Sequence[Ref | None], decision: Decision) -> Ref | str:
    """Return the object that a decision is about: the claimed one, or the first one that it changes (`refs`).

    Without both it is the binding of its first item of the eviction queue, or the object of its first Event.
    """
    if claim is not None:
        return claim.ref
    for ref in refs:
        if ref is not None:
            return ref
    for change in decision.changes:
        if isinstance(change, ROW_CHANGES) and isinstance(change.row, Eviction):
            return change.row.binding
    return decision.events[0].about.ref if decision.events else ""


def _add(line: Line, name: str, values: Sequence[Any]) -> None:
    """Add a list to a line, cut to LONGEST_LIST; nothing for an empty list."""
    if values:
        line[name] = values[:LONGEST_LIST]
    if len(values) > LONGEST_LIST:
        line[f"{name}_more"] = len(values) - LONGEST_LIST

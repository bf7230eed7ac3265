"""The report of a Drill: which criteria were met, in how many workloads, and the result in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Struct, to_seconds, with_condition
from controlplane.insight.effects import Affected, Effects
from controlplane.kinds.drill import (
    COMPLETE,
    DURATION,
    FAILED,
    FINISHED,
    HEALTHY_COPIES,
    PASSED,
    RETURNING,
    SIMULATED,
    STOPPED,
    WITHOUT_PLACE,
    Drill,
    DrillSpec,
    DrillStatus,
    Finding,
    Verdict,
)

NOT_EVICTED: Final = "no rule evicts it when its cluster fails: lifeboat readiness shows why"
SHOWN: Final = 20  # findings and remarks that a report keeps


class Measured(Struct, frozen=True):
    """What was measured. `duration` None: unknown, for the reason `unknown`.

    `least_healthy` None: no copies were counted. `unplaced` are the workloads that stayed, with the reason.
    """

    duration: float | None
    unplaced: tuple[Finding, ...] = ()
    without_place: int = 0
    least_healthy: int | None = None
    unknown: str = ""


def verdicts(spec: DrillSpec, measured: Measured) -> tuple[Verdict, ...]:
    """Return each criterion that applies, with what was measured."""
    criteria, found = spec.criteria, list[Verdict]()
    limit, took = criteria.max_duration_seconds, measured.duration
    passed = took is not None and took <= limit
    kind = "estimated at" if spec.mode == SIMULATED else "took"
    message = f"{kind} {took:.0f} s, at most {limit} s" if took is not None else f"unknown: {measured.unknown}"
    found.append(Verdict(DURATION, limit, took, passed, message))
    count, most = measured.without_place, criteria.max_without_place
    message = f"{count} {'workload' if count == 1 else 'workloads'} without a place, at most {most}"
    found.append(Verdict(WITHOUT_PLACE, most, count, count <= most, message))
    if spec.mode != SIMULATED and criteria.min_healthy_copies:
        least, fewest = criteria.min_healthy_copies, measured.least_healthy
        message = "no workload was checked" if fewest is None else f"{_copies(fewest)} at the lowest, needed {least}"
        found.append(Verdict(HEALTHY_COPIES, least, fewest, fewest is None or fewest >= least, message))
    return tuple(found)


def report(drill: Drill, measured: Measured, *, now: datetime) -> DrillStatus:
    """Return the status of a drill that is over, with its result."""
    found = verdicts(drill.spec, measured)
    failed = [one for one in found if not one.passed]
    result = FAILED if failed else PASSED
    status = replace(
        drill.status,
        phase=FINISHED,
        result=result,
        duration_seconds=None if measured.duration is None else round(measured.duration, 1),
        without_place=measured.without_place,
        least_healthy_copies=measured.least_healthy,
        verdicts=found,
        findings=_first(drill.status.findings, measured.unplaced),
        finish_time=to_seconds(now),
    )
    message = _sentence(drill.spec, status, failed)
    complete = Condition(COMPLETE, "True", result, message)
    return replace(status, message=message, conditions=with_condition(drill.status.conditions, complete, now=now))


def returning(drill: Drill, measured: Measured, *, now: datetime) -> DrillStatus:
    """Return the status of a drill whose clusters are empty, and whose workloads return now."""
    found = report(drill, measured, now=now)
    incomplete = Condition(COMPLETE, "False", RETURNING, found.message)
    return replace(
        found,
        phase=RETURNING,
        result="",
        message=f"{found.message}; the workloads return",
        finish_time=None,
        conditions=with_condition(drill.status.conditions, incomplete, now=now),
    )


def returned(drill: Drill, count: int, away: Sequence[Finding], *, now: datetime) -> DrillStatus:
    """Return the report of a drill whose workloads have returned, as far as they could.

    `count`: how many have returned. `away`: those that have not, and why.
    """
    failed = [one for one in drill.status.verdicts if not one.passed]
    status = replace(
        drill.status,
        phase=FINISHED,
        result=FAILED if failed or away else PASSED,
        returned=count,
        findings=_first(drill.status.findings, away),
        finish_time=to_seconds(now),
    )
    what = f"{count} returned" + (f", {len(away)} did not" if away else "")
    message = f"{_sentence(drill.spec, status, failed)}; {what}"
    complete = Condition(COMPLETE, "True", status.result, message)
    return replace(status, message=message, conditions=with_condition(drill.status.conditions, complete, now=now))


def stopped(drill: Drill, why: str, *, now: datetime) -> DrillStatus:
    """Return the status of a drill that ended before it had a result."""
    complete = Condition(COMPLETE, "True", STOPPED, why)
    return replace(
        drill.status,
        phase=STOPPED,
        message=why,
        finish_time=to_seconds(now),
        conditions=with_condition(drill.status.conditions, complete, now=now),
    )


def _first(*parts: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(one for part in parts for one in part))[:SHOWN]


def _sentence(spec: DrillSpec, status: DrillStatus, failed: Sequence[Verdict]) -> str:
    """Return the result: "Failed: 41 of 43 workloads left member1 in 90 s; 2 workloads without a place, at most 0"."""
    would = "would leave" if spec.mode == SIMULATED else "left"
    took = "" if status.duration_seconds is None else f" in {status.duration_seconds:.0f} s"
    what = f"{status.moved} of {status.workloads} workloads {would} {', '.join(spec.clusters)}{took}"
    return f"{status.result}: {'; '.join([what, *(one.message for one in failed)])}"


def simulated(drill: Drill, effects: Effects, watched: frozenset[str], *, now: datetime) -> DrillStatus:
    """Return the report of a simulated loss. `watched`: the bindings that the criteria count, as text."""
    moves = _of(effects.moves, watched)
    left = {one.binding for one in moves}
    unplaced = [*_of(effects.without_place, watched), *_of(effects.held, watched)]
    waits, stays = _of(effects.waits_for_person, watched), _of(effects.stays, watched)
    moments = [one.at for one in moves if one.at is not None]
    duration = max(((at - now).total_seconds() for at in moments), default=0.0)
    unknown = ""
    if any(one.at is None for one in moves):
        unknown = (
            f"the eviction tier is {effects.tier}: {effects.tier_because}" if effects.tier_because else "no estimate"
        )
    remarks = [
        *effects.refused,
        *effects.remarks,
        *(
            f"{one.cluster} has room for {one.room} {one.resource}, and would need {one.needed}"
            for one in effects.overpacked
        ),
    ]
    begun = replace(
        drill,
        status=replace(
            drill.status,
            start_time=to_seconds(now),
            workloads=len(watched),
            moved=len(left),
            staying=len({one.binding for one in stays} - left),
            waiting_for_person=len(waits),
            findings=(),
            remarks=tuple(remarks)[:SHOWN],
        ),
    )
    findings = [Finding(one.binding, one.message or one.reason or "no place") for one in unplaced]
    answered = left | {one.binding for one in (*unplaced, *stays)}
    findings += [Finding(name, NOT_EVICTED) for name in sorted(watched - answered)]
    measured = Measured(
        None if unknown else duration,
        tuple(findings),
        len({one.binding for one in findings}),
        unknown=unknown,
    )
    return report(begun, measured, now=now)


def _of(affected: Iterable[Affected], watched: frozenset[str]) -> list[Affected]:
    return [one for one in affected if one.binding in watched]


def _copies(number: int) -> str:
    return "1 healthy copy" if number == 1 else f"{number} healthy copies"

"""Troubles: what of Lifeboat itself does not work now, each with what helps: a command, or a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from apps.api.health import LATE, UNKNOWN, HealthReport, Line

_CHECKS: Final = "/readyz?verbose"  # reached as the page itself, whatever the address of this process is
_HELP: Final = {
    "database": _CHECKS,
    "migrations": "python manage.py prepare",
    "writes": _CHECKS,
    "redis": 'redis-cli -u "$REDIS_URL" ping',
    "workers": "celery -A config worker",
    "worker": "celery -A config worker",
    "beat": "celery -A config beat",
    "members": "python manage.py members",
    "restore": "python manage.py restored --status",
}
_MEANING: Final = {
    "redis": "Redis does not answer: nothing is evicted",
    "workers": "No worker runs: nothing is decided",
    "worker": "The main process of a worker does not run",
    "beat": "Beat does not run: missed notifications are found late",
    "members": "No members process runs: clusters are neither probed nor written to",
    "database": "The database does not answer",
    "migrations": "The database is not migrated",
    "writes": "The database accepts no writes",
    "restore": "Nothing is written to members after a restore",
}
_LATE: Final = {
    "workers": "Workers run and do not keep up: what they decide is late",
    "members": "The members process runs and does not keep up: clusters are probed and written to late",
}
_LATE_HELP: Final = "lifeboat doctor"


class Trouble(NamedTuple):
    """One red line: what does not work, the detail of the check, and what helps: a command, or the URL of a page."""

    meaning: str
    detail: str
    command: str


def troubles(report: HealthReport) -> tuple[Trouble, ...]:
    """Return a line for each part of Lifeboat whose check fails. Groups of workers share a line.

    What could not be checked has a line only if the database answers: otherwise its line is the reason.
    """
    lines, found = report.lines, dict[tuple[str, str], list[Line]]()
    has_database = not any(line.name == "database" and line.problem for line in lines)
    for line in lines:
        if line.problem and (line.why != UNKNOWN or has_database):
            found.setdefault((_part(line), line.why), []).append(line)
    groups = sum(_part(line) == "workers" for line in lines)
    return tuple(_trouble(part, why, failed, groups=groups) for (part, why), failed in found.items())


def _part(line: Line) -> str:
    return line.name.partition(" ")[0]


def _trouble(part: str, why: str, failed: Sequence[Line], *, groups: int) -> Trouble:
    """Return the line about a part of Lifeboat. `groups`: the number of groups of workers."""
    details = [one.problem if part != "workers" else f"{_group(one)}: {one.problem}" for one in failed]
    if why == UNKNOWN:
        return Trouble(f"It is not known whether the check {part} would pass", failed[0].problem, _CHECKS)
    if why == LATE:
        return Trouble(_LATE.get(part, f"The check {part} fails"), "; ".join(details), _LATE_HELP)
    if part == "workers" and len(failed) < groups:
        names = ", ".join(map(_group, failed))
        return Trouble(f"No worker runs {names}: what is decided there waits", "; ".join(details), _HELP[part])
    return Trouble(_MEANING.get(part, f"The check {part} fails"), details[0], _HELP.get(part, ""))


def _group(line: Line) -> str:
    return line.name.partition(" ")[2]

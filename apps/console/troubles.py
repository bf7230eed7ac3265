"""Troubles: what of Lifeboat itself does not work now, each with a command that helps."""

from __future__ import annotations

from typing import Final, NamedTuple

from apps.api.health import HealthReport

_HELP: Final = {
    "database": "curl http://127.0.0.1:8080/readyz?verbose",
    "migrations": "python manage.py prepare",
    "writes": "curl http://127.0.0.1:8080/readyz?verbose",
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


class Trouble(NamedTuple):
    """One red line: what does not work, the detail of the check, and the command that helps."""

    meaning: str
    detail: str
    command: str


def troubles(report: HealthReport) -> tuple[Trouble, ...]:
    """Return a line for each part of Lifeboat whose check fails. Groups of workers share a line."""
    found: dict[str, Trouble] = {}
    for line in report.lines:
        part = line.name.partition(" ")[0]
        if line.problem and part not in found:
            detail = line.problem if part != "workers" else f"{line.name.partition(' ')[2]}: {line.problem}"
            found[part] = Trouble(_MEANING.get(part, f"The check {part} fails"), detail, _HELP.get(part, ""))
    return tuple(found.values())

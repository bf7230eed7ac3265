"""Durations and times as users write and read them: 90s, 10m, 1h30m, 2d."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from apps.command.errors import usage

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_SECONDS: Final = 3650 * 86400  # times that far away can still be written
_SHAPE: Final = re.compile(r"(?:\d+[smhd])+")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def seconds(text: str, *, option: str) -> int:
    """Return the seconds of a duration such as 90s, 10m or 1h30m. Raises CommandError that names the option."""
    if not _SHAPE.fullmatch(text) or (total := _sum(text)) <= 0:
        raise usage(f'{option}: "{text}" is not a duration; write for example 90s, 10m, 1h30m or 2d')
    if total > LONGEST_SECONDS:
        raise usage(f'{option}: "{text}" is longer than {LONGEST_SECONDS // 86400}d')
    return total


def _sum(text: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


def brief(amount: float) -> str:
    """Return a number of seconds for people: 45s, 12m, 3h5m, 2d."""
    total = round(abs(amount))
    if total < 120:
        return f"{total}s"
    if total < 7200:
        return f"{total // 60}m"
    if total < 172800:
        hours, minutes = total // 3600, total % 3600 // 60
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{total // 86400}d"


def moment(text: str) -> datetime | None:
    """Return the time of an RFC 3339 text in UTC. None: the text is not such a time."""
    if not _MOMENT.fullmatch(text):
        return None
    return datetime.fromisoformat(text).astimezone(UTC)


def relative(text: str, *, now: datetime) -> str:
    """Return a time in UTC and its distance from now: "21:05:03Z (in 3m)". Other texts are returned as they are."""
    at = moment(text)
    if at is None:
        return text
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S}Z ({distance(text, now=now)})"


def distance(text: str, *, now: datetime) -> str:
    """Return the distance of a time from now: "in 3m", "12s ago". Other texts are returned as they are."""
    at = moment(text)
    if at is None:
        return text
    seconds_ahead = (at - now).total_seconds()
    return f"in {brief(seconds_ahead)}" if seconds_ahead > 0 else f"{brief(seconds_ahead)} ago"


def later(amount: int, *, now: datetime) -> str:
    """Return the time a number of seconds after now, as the API reads it."""
    return (now + timedelta(seconds=amount)).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Schedules of CronJobs, and their time zones."""

from __future__ import annotations

import re
import zoneinfo
from typing import Any

from controlplane.apimachinery import causes
from controlplane.kube.rules import Causes

_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 6, _DAYS),
)
_CRON_PART = re.compile(r"(\*|\?|\w+)(-\w+)?(/\d+)?")


def check_schedule(value: Any, at: str, out: Causes) -> None:
    """Report what is wrong with the schedule of a CronJob."""
    if value == "":
        return
    if "TZ" in value:
        out.append(causes.invalid(at, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif wrong := cron_error(value):
        out.append(causes.invalid(at, value, wrong))


def cron_error(schedule: str) -> str:
    """Return what is wrong with a schedule of a CronJob; "": nothing."""
    if schedule in _MACROS:
        return ""
    if schedule.startswith("@every "):
        return "" if re.fullmatch(r"([\d.]+(ns|us|µs|ms|s|m|h))+", schedule[7:]) else "failed to parse duration"
    if schedule.startswith("@"):
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (_, least, most, names) in zip(fields, _CRON, strict=True):
        for part in field.split(","):
            if not _is_cron_part(part, least, most, names):
                return f"failed to parse: {part}"
    return ""


def _is_cron_part(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    found = _CRON_PART.fullmatch(part)
    if found is None:
        return False
    numbers = []
    for text in (found[1], (found[2] or "")[1:]):
        if text in ("*", "?", ""):
            continue
        if text.lower() in names:
            numbers.append(names.index(text.lower()) + least)
        elif text.isdigit():
            numbers.append(int(text))
        else:
            return False
    return all(least <= number <= most for number in numbers) and numbers == sorted(numbers) and found[3] != "/0"


def check_zone(value: Any, at: str, out: Causes) -> None:
    """Report what is wrong with the timeZone of a CronJob."""
    if not value:
        out.append(causes.invalid(at, value, "timeZone must be nil or non-empty string"))
    elif value.lower() == "local":
        out.append(
            causes.invalid(
                at, value, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            )
        )
    elif value not in _zones():
        out.append(causes.invalid(at, value, f"unknown time zone {value}"))


def _zones() -> set[str]:
    if not _ZONES:
        _ZONES.update(zoneinfo.available_timezones())
    return _ZONES


_ZONES: set[str] = set()

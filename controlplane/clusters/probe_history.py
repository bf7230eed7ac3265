"""Probe history: what the probes of a cluster found within the last day, as spells of equal results.

It is part of the Observation of a cluster. A spell is added only when the result changes, so that the history of a
calm cluster has one spell.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from controlplane.kinds.rows import ProbeSpell

KEPT: Final = timedelta(hours=24)
MOST: Final = 200  # spells of one cluster: the latest ones
ACCESS_LOST, UNOBSERVED = "AccessLost", "Unobserved"  # results besides True, False and Unknown


class Section(NamedTuple):
    """A spell as a part of a time line. `until`: when it ended, or now."""

    status: str
    since: datetime
    until: datetime


def noted(history: tuple[ProbeSpell, ...], status: str, *, now: datetime) -> tuple[ProbeSpell, ...]:
    """Return the history with the result of a probe at `now`; the same history if the result is as before."""
    if history and (history[-1].status == status or now < history[-1].since):
        return history
    begun = [spell for spell in history if spell.since > now - KEPT]
    before = history[len(history) - len(begun) - 1 : len(history) - len(begun)]  # it covers the beginning of the day
    return (*before, *begun, ProbeSpell(status, now))[-MOST:]


def sections(history: tuple[ProbeSpell, ...], *, heard_until: datetime | None, now: datetime) -> list[Section]:
    """Return the last day as sections without gaps between them.

    `heard_until`: until when the last result is valid. From then on, and before the first spell, nothing was observed.
    """
    start = now - KEPT
    spells = [(spell.status, spell.since) for spell in history]
    if heard_until is not None and heard_until < now:
        spells.append((UNOBSERVED, heard_until))
    found = [Section(UNOBSERVED, start, spells[0][1])] if spells and spells[0][1] > start else []
    for (status, since), (_, following) in pairwise([*spells, (UNOBSERVED, now)]):
        if following > start and following > since:
            found.append(Section(status, max(since, start), following))
    return found or [Section(UNOBSERVED, start, now)]

"""Whether the database was restored from a backup, judged from what it says and from what is remembered outside of it.

A restored database counts on from an old resourceVersion: versions that clients have seen are given out a second time,
for other changes. The counter is therefore raised beyond them, and members are left alone until a person confirms.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.settings import Settings

GAP = 100_000_000_000
"""Versions left out by a raise: what 10,000 writes a second need in 115 days. The counter has room for 90 million."""
STEP = 1_000_000  # a raised version is a multiple: the change log goes on in a partition of its own
MARK_IS_FRESH = timedelta(seconds=60)  # a mark older than the newest write by more does not say what came later

# What may run before a person confirms: controllers that look at members and tell what they see, and change nothing.
OBSERVING = frozenset(
    {
        "cluster_status",
        "fleet",
        "fleet_names",
        "definitions",
        "binding_status",
        "template_status",
        "eviction_records",
        "probes",
        "collection",
        "work_status",
    }
)

Verdict = Literal["Same", "Moved", "Restored"]


class Origin(msgspec.Struct, frozen=True):
    """What tells one PostgreSQL database from another; "" or 0: the server does not say."""

    system: str = ""  # system identifier of the server's data, kept by physical copies
    timeline: int = 0  # rises when a standby or a base backup is promoted
    database: int = 0  # OID: another one after the database was created anew

    def is_other_than(self, before: Origin) -> bool:
        """Return whether a field that both know differs."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(before), strict=True)
        return any(new and old and new != old for new, old in pairs)


class VersionMark(msgspec.Struct, frozen=True):
    """The newest resourceVersion that somebody outside of the database remembers, and the database's time then."""

    version: int
    at: datetime


class RestoreHold(msgspec.Struct, frozen=True):
    """Members are left alone since this moment, for this reason, until a person confirms."""

    since: datetime
    why: str

    @property
    def message(self) -> str:
        """Return the sentence for people."""
        return (
            f"members are left alone since {self.since:%Y-%m-%d %H:%M:%S} UTC: {self.why}; nothing is written to a "
            "member until a person runs: manage.py restored --confirm"
        )


class Finding(msgspec.Struct, frozen=True):
    """What a look at the database showed.

    Same: nothing happened. Moved: another server or database, but no version that anybody saw is missing; the counter
    is raised, members are served. Restored: the counter is raised and members are left alone; `why` says the reason.
    """

    verdict: Verdict
    why: str = ""


def detect_restore(
    kept: Origin | None, found: Origin, *, version: int, written_at: datetime | None, seen: VersionMark | None
) -> Finding:
    """Return whether a database was restored.

    kept: the origin that was noted in the database; None: none yet, it is new. version, written_at: the newest
    resourceVersion in it and when it was written, None for an empty change log. seen: what is remembered outside.
    """
    if seen is not None and seen.version > version:
        told = f"{seen.at:%Y-%m-%d %H:%M:%S} UTC"
        return Finding("Restored", f"the database is at resourceVersion {version}, but was at {seen.version} on {told}")
    if kept is None or not found.is_other_than(kept):
        return Finding("Same")
    if seen is None:
        why = "the database was created anew or copied, and nothing outside of it remembers its newest resourceVersion"
        return Finding("Restored", why)
    if written_at is not None and written_at - seen.at > MARK_IS_FRESH:
        why = (
            "the database was created anew or copied, and what Redis remembers of it is too old: "
            f"resourceVersion {seen.version} on {seen.at:%Y-%m-%d %H:%M:%S} UTC"
        )
        return Finding("Restored", why)
    return Finding("Moved")


def raised_version(version: int) -> int:
    """Return the version to go on from: beyond everything that anybody can have seen after `version`."""
    return -(-(version + GAP) // STEP) * STEP


def observing_settings(settings: Settings) -> Settings:
    """Return the settings while members are left alone: only controllers that observe run."""
    return msgspec.structs.replace(
        settings, controllers=tuple(name for name in sorted(OBSERVING) if settings.runs(name))
    )

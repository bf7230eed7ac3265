"""Whether the database was restored from a backup, from its own rows and from the version that Redis remembers.

A restored database continues from an old resourceVersion. It would give out versions that clients have already seen a
second time, for other changes. The version counter is therefore raised beyond them. Members are only observed until a
person confirms the restore. Then Works are first made from everything that changed meanwhile, and only then written to
members. Otherwise a member would get the state of the backup, and the correction of it a moment later.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.settings import Settings

GAP = 100_000_000_000
"""How many versions a raise skips: as many as 10,000 writes a second use in 115 days. The counter allows 90 million
raises."""
STEP = 1_000_000  # a raised version is a multiple of this, so that the change log continues in a new partition
MARK_IS_FRESH = timedelta(seconds=60)  # a mark that is older than the newest write by more than this is stale

# Controllers that run before a person confirms: they read members and report what they read, and write to no member.
OBSERVING = frozenset(
    {
        "cluster_status",
        "fleet",
        "fleet_names",
        "definitions",
        "binding_status",
        "template_status",
        "readiness",
        "eviction_records",
        "probes",
        "collection",
        "work_status",
    }
)

# Controllers that run as well between the confirmation and the first write to a member. They lead from a template to
# its Works.
PREPARING = frozenset(
    {"policies", "policy_release", "dependencies", "scheduler", "namespaces", "federated_quotas", "works"}
)

Verdict = Literal["Same", "Moved", "Restored", "Unknown"]


class Origin(msgspec.Struct, frozen=True):
    """What identifies a PostgreSQL database; "" or 0: the server does not report the value."""

    system: str = ""  # system identifier of the server's data, kept by physical copies
    timeline: int = 0  # rises when a standby or a base backup is promoted
    database: int = 0  # OID; changes when the database is dropped and created again

    def is_other_than(self, before: Origin) -> bool:
        """Return whether a field differs that both servers reported."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(before), strict=True)
        return any(new and old and new != old for new, old in pairs)


class VersionMark(msgspec.Struct, frozen=True):
    """The newest resourceVersion that was noted outside of the database, and the database's time at that moment."""

    version: int
    at: datetime


class RestoreHold(msgspec.Struct, frozen=True):
    """A restore was detected at `since`, for the reason `why`. Nothing is written to members.

    `confirmed`: a person confirmed it, and Works are made from what changed since the backup.
    """

    since: datetime
    why: str
    confirmed: bool = False

    @property
    def message(self) -> str:
        """Return the message for logs, Events, /readyz and answers to agents."""
        until = "an administrator runs: manage.py restored --confirm"
        if self.confirmed:
            until = "all Works are current. If that does not end, run again: manage.py restored --confirm"
        return (
            f"nothing has been written to members since {self.since:%Y-%m-%d %H:%M:%S} UTC: {self.why}. "
            f"This lasts until {until}"
        )


class Finding(msgspec.Struct, frozen=True):
    """The result of comparing the database with what was noted about it.

    Same: it is the same database. Moved: it is on another server or was copied, but has every version that was ever
    given out; the counter is raised and members are written to as before. Restored: the counter is raised and members
    are only observed; `why` has the reason. Unknown: it is Moved or Restored, and Redis, which knows, does not answer.
    """

    verdict: Verdict
    why: str = ""


def detect_restore(
    kept: Origin | None,
    found: Origin,
    *,
    version: int,
    written_at: datetime | None,
    seen: VersionMark | None,
    redis_away: bool = False,
) -> Finding:
    """Return whether the database was restored, moved, or is the same as before.

    kept: the origin that was noted in the database at its first start; None: the database is new.
    found: the origin that the server reports now.
    version, written_at: the newest resourceVersion in the database and when it was written; None: the change log is
    empty.
    seen: the newest version that Redis or this process remembers; None: none.
    redis_away: Redis did not answer, so it may remember a newer one.
    """
    if seen is not None and seen.version > version:
        at = f"{seen.at:%Y-%m-%d %H:%M:%S} UTC"
        return Finding("Restored", f"the database is at resourceVersion {version}, but was at {seen.version} on {at}")
    if kept is None or not found.is_other_than(kept):
        return Finding("Same")
    is_stale = seen is not None and written_at is not None and written_at - seen.at > MARK_IS_FRESH
    if redis_away and (seen is None or is_stale):
        return Finding("Unknown")
    if seen is None:
        why = "the database was created again or copied, and Redis has no record of its newest resourceVersion"
        return Finding("Restored", why)
    if is_stale:
        why = (
            "the database was created again or copied, and the record of it in Redis is too old: "
            f"resourceVersion {seen.version} on {seen.at:%Y-%m-%d %H:%M:%S} UTC"
        )
        return Finding("Restored", why)
    return Finding("Moved")


def raised_version(version: int) -> int:
    """Return the version to continue from. It exceeds all versions that can have been given out already."""
    return -(-(version + GAP) // STEP) * STEP


def settings_during(hold: RestoreHold, settings: Settings) -> Settings:
    """Return the settings to use while nothing is written to members.

    Before the confirmation only observing controllers are enabled, and after it those that make Works as well.
    """
    names = OBSERVING | PREPARING if hold.confirmed else OBSERVING
    return msgspec.structs.replace(settings, controllers=tuple(name for name in sorted(names) if settings.runs(name)))

"""Taints: which ones the system itself wants on a cluster, who owns which, and how wants become taints (D1, D3, D22).

Ownership is kept on the cluster in the annotation `failover.lifeboat.io/taint-owners`, compact JSON, so that taint and
owner are written together and everybody can read it: {"key:effect": {"by": {"Ready": ""}, "ending": true}}. A taint
without an entry, or with one that is waived, belongs to a person or another program; no controller of ours touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import condition, to_seconds
from controlplane.apimachinery.names import TERMINATING_TAINT
from controlplane.kinds.cluster import (
    ACCESS_LOST,
    ACCESS_LOST_KEY,
    EVICTING_EFFECTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY_KEY,
    READY,
    UNREACHABLE_KEY,
    Cluster,
    Taint,
)
from controlplane.settings import Settings

OWNERS_ANNOTATION = "failover.lifeboat.io/taint-owners"

Identity = tuple[str, str]  # key, effect
BY_READY, BY_ACCESS, BY_DELETION = "Ready", "AccessLost", "Deletion"
"""Owners of the taints that the system wants by itself."""


class Want(msgspec.Struct, frozen=True):
    """A taint somebody wants on a cluster now. `owner`: "Ready", "policy/name"…; `rule`: the owner's digest.

    `ending`: the reason for it has passed and only a removal window keeps it (D12: evictions wait meanwhile).
    `flapping`: that the cluster flaps is the reason, so what it moves does not wait until the cluster is calm.
    """

    key: str
    effect: str
    value: str
    owner: str
    rule: str = ""
    ending: bool = False
    flapping: bool = False

    @property
    def identity(self) -> Identity:
        return self.key, self.effect

    @property
    def stays(self) -> bool:
        """Test whether nobody can remove the taint while it is wanted: the cluster is not Ready, or not accessible."""
        return self.effect == NO_SCHEDULE and self.owner in (BY_READY, BY_ACCESS)


class Ownership(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who put a taint on: owner -> rule. `waived`: a person took it off, and it stays off while wanted; the same one
    that is there all the same is a person's. `flapping`: somebody wants it because the cluster flaps."""

    by: dict[str, str] = {}
    ending: bool = False
    waived: bool = False
    flapping: bool = False


Owners = Mapping[Identity, Ownership]
_ownerships: Final = msgspec.json.Decoder(dict[str, Ownership])


def owners(cluster: Cluster) -> dict[Identity, Ownership]:
    """Return who owns which taints of a cluster; what cannot be read owns nothing."""
    text = cluster.metadata.annotations.get(OWNERS_ANNOTATION, "")
    if not text:
        return {}
    try:
        stored = _ownerships.decode(text)
    except msgspec.DecodeError:
        return {}
    return {_split(name): ownership for name, ownership in stored.items()}


def _split(name: str) -> Identity:
    key, _, effect = name.rpartition(":")
    return key, effect


def written(known: Owners) -> str:
    """Return the annotation's text, "" where nothing is owned; equal owners give equal text."""
    named = {f"{key}:{effect}": one for (key, effect), one in sorted(known.items())}
    return msgspec.json.encode(named, order="sorted").decode() if named else ""


def owned(cluster: Cluster) -> dict[Identity, Ownership]:
    """Return who owns which taints of a cluster, without those a person has taken over."""
    return {identity: one for identity, one in owners(cluster).items() if not one.waived}


def ending(cluster: Cluster) -> frozenset[Identity]:
    """Return the taints whose match no longer holds and whose removal window still runs."""
    return frozenset(identity for identity, one in owned(cluster).items() if one.ending)


def for_flapping(cluster: Cluster) -> frozenset[Identity]:
    """Return the taints that are on a cluster because it flaps."""
    return frozenset(identity for identity, one in owned(cluster).items() if one.flapping)


def settled(
    taints: Sequence[Taint], known: Owners, wants: Iterable[Want], *, now: datetime
) -> tuple[tuple[Taint, ...], dict[Identity, Ownership]]:
    """Return the taints and owners after all wants are heard.

    A taint stays as it is, value and time, while one owner wants it; one that nobody owns is a person's and stays. An
    owned taint that is gone was removed by a person: it stays away until nobody wants it any more, and put on again
    meanwhile it is a person's. Only a taint that keeps new workloads from a cluster we cannot use comes back at once
    (`Want.stays`). A taint that is only wanted otherwise than it was put on makes room for a new one. New taints carry
    `now`; taints that move workloads get a missing timeAdded.
    """
    moment = to_seconds(now)
    wanted: dict[Identity, list[Want]] = {}
    for want in wants:
        wanted.setdefault(want.identity, []).append(want)
    taints, known = _withdrawn(taints, known, wanted)
    present = {(taint.key, taint.effect) for taint in taints}
    kept: list[Taint] = []
    after: dict[Identity, Ownership] = {}
    for taint in taints:
        identity = (taint.key, taint.effect)
        if identity in known and not known[identity].waived:
            if identity not in wanted:
                continue
            after[identity] = _owned_by(wanted[identity])
        timeless = taint.time_added is None and taint.effect in EVICTING_EFFECTS
        kept.append(replace(taint, time_added=moment) if timeless else taint)
    for identity, asking in wanted.items():
        if identity in after:
            continue
        if identity in known and (identity in present or not any(want.stays for want in asking)):
            after[identity] = replace(_owned_by(asking), waived=True)
        elif identity not in present:
            first = asking[0]
            kept.append(Taint(first.key, first.effect, first.value, moment))
            after[identity] = _owned_by(asking)
    return tuple(kept), after


def _withdrawn(
    taints: Sequence[Taint], known: Owners, wanted: Mapping[Identity, list[Want]]
) -> tuple[list[Taint], Owners]:
    """Return taints and owners without those whose owners still want them, but none as it was put on (D3)."""
    edited = {
        identity
        for identity in ((taint.key, taint.effect) for taint in taints)
        if (how := known.get(identity)) is not None and not how.waived and _edited(how, wanted.get(identity, ()))
    }
    left = [taint for taint in taints if (taint.key, taint.effect) not in edited]
    return left, {identity: how for identity, how in known.items() if identity not in edited}


def _edited(how: Ownership, asking: Iterable[Want]) -> bool:
    rules = [(how.by[one.owner], one.rule) for one in asking if one.owner in how.by]
    return bool(rules) and all(before != rule for before, rule in rules)


def _owned_by(asking: list[Want]) -> Ownership:
    return Ownership(
        {one.owner: one.rule for one in asking},
        ending=all(one.ending for one in asking),
        flapping=any(one.flapping for one in asking),
    )


class Wanted(msgspec.Struct, frozen=True):
    """What somebody wants, and when the clock alone may change it."""

    wants: tuple[Want, ...] = ()
    wake_at: datetime | None = None


def automatic(cluster: Cluster, settings: Settings, *, moving_since: datetime | None, now: datetime) -> Wanted:
    """Return the taints the system wants by itself (D1, D20, D22).

    `moving_since`: from when clocks of taints that move workloads count; None while there must be none (gate off,
    blind; D9, D17).
    """
    wants: list[Want] = []
    if cluster.access_lost:
        wants.append(Want(ACCESS_LOST_KEY, NO_SCHEDULE, "", BY_ACCESS))
    ready = condition(cluster.status.conditions, READY)
    status = "" if ready is None else ready.status
    key = UNREACHABLE_KEY if status == "Unknown" else NOT_READY_KEY
    if status != "True" and settings.auto_no_schedule_taints:
        wants.append(Want(key, NO_SCHEDULE, "", BY_READY))
    wake_at = None
    if moving_since is not None:
        seen_since = when_seen(cluster, moving_since)
        if cluster.terminating and settings.compat.terminating_taint:
            wants.append(Want(TERMINATING_TAINT, NO_EXECUTE, "", BY_DELETION))
        if status in ("False", "Unknown") and settings.compat.auto_no_execute_taints:
            turned = now if ready is None else ready.last_transition_time or now
            due = (
                None
                if seen_since is None
                else max(turned, seen_since) + timedelta(seconds=settings.failover_eviction_timeout)
            )
            evicting = _evicting(cluster)
            if evicting or (due is not None and now >= due):
                off = next((one for one, how in evicting.items() if how.waived), key)
                wants.append(Want(off, NO_EXECUTE, "", BY_READY))
            else:
                wake_at = due
    return Wanted(tuple(wants), wake_at)


def kept(old: Cluster, new: Cluster, settings: Settings, *, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that a write removes although they stay: our own, while the cluster cannot take new workloads.

    What the next decision would put on again is better never away: the scheduler may look in between.
    """
    wants = automatic(old, settings, moving_since=None, now=now).wants
    stay = {want.identity: want.owner for want in wants if want.stays}
    if not stay:
        return ()
    known, left = owned(old), {(taint.key, taint.effect) for taint in new.spec.taints}
    return tuple(
        taint
        for taint in old.spec.taints
        if (identity := (taint.key, taint.effect)) not in left
        and stay.get(identity, "") in known.get(identity, Ownership()).by
    )


def stays_because(taint: Taint) -> str:
    """Return why a taint of ours is not removed, and what to do."""
    said = f"{taint.key}:{taint.effect} stays, as nothing new can be placed on this cluster: "
    if taint.key == ACCESS_LOST_KEY:
        return f"{said}it does not let us in (condition AccessLost). The taint goes when it does"
    return (
        f"{said}it is not Ready. The taint goes by itself once the cluster is Ready; to have none of this kind, set "
        "auto_no_schedule_taints to false"
    )


def when_seen(cluster: Cluster, since: datetime | None) -> datetime | None:
    """Return from when clocks count that run by Ready: `since`, but not before the end of the last lost access.

    None: none runs, as while access is lost Ready says nothing new (D22: it never evicts).
    """
    told = condition(cluster.status.conditions, ACCESS_LOST)
    if since is None or cluster.access_lost:
        return None
    if told is None or told.last_transition_time is None:
        return since
    return max(since, told.last_transition_time)


def _evicting(cluster: Cluster) -> dict[str, Ownership]:
    """Return Ready's NoExecute taints by key. One that is on is swapped at once when the status changes (D1); one that
    a person took off stays off, under whichever key."""
    known = owners(cluster)
    found = {key: known.get((key, NO_EXECUTE), Ownership()) for key in (NOT_READY_KEY, UNREACHABLE_KEY)}
    return {key: one for key, one in found.items() if BY_READY in one.by}

"""Computes the taints of a cluster from the wants of their owners: the system and ClusterTaintPolicies.

Rules: [automatic-taints], [taint-ownership], [lost-access]. The owners are stored on the cluster in the annotation
`failover.lifeboat.io/taint-owners`, so that a taint and its owners are written together and users can read them.
Example: {"example.com/key:NoExecute": {"by": {"policy/reboot": "1f3a"}, "ending": true}}. A taint without an entry, or
with a waived one, belongs to a user or to another program. No controller here changes it.
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
"""Owners of the taints that the system wants without a policy."""


class Want(msgspec.Struct, frozen=True):
    """A taint that an owner wants on a cluster now.

    `owner`: "Ready", "policy/<name>" and so on. `rule`: a digest of what the owner wants it for. `ending`: its reason
    no longer holds, and only a removal window keeps it; evictions wait meanwhile [recovered-clusters-cancel].
    `flapping`: the reason is that the cluster flaps, so its evictions do not wait until the cluster is calm
    [flapping-cluster].
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
        """Test whether users cannot remove the taint while it is wanted: the cluster is not Ready, or refuses
        access."""
        return self.effect == NO_SCHEDULE and self.owner in (BY_READY, BY_ACCESS)


class Ownership(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owners of a taint.

    `by`: the rule (see `Want.rule`) of each owner. `waived`: a user has removed the taint. It is not added again while
    an owner wants it, and if it is on the cluster again, it belongs to the user. `ending`, `flapping`: see `Want`.
    """

    by: dict[str, str] = {}
    ending: bool = False
    waived: bool = False
    flapping: bool = False


Owners = Mapping[Identity, Ownership]
_ownerships: Final = msgspec.json.Decoder(dict[str, Ownership])


def owners(cluster: Cluster) -> dict[Identity, Ownership]:
    """Return the owners of the taints of a cluster. An unreadable annotation means that no taint has an owner."""
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
    """Return the text of the annotation. "": no taint has an owner. Equal owners give equal text."""
    named = {f"{key}:{effect}": ownership for (key, effect), ownership in sorted(known.items())}
    return msgspec.json.encode(named, order="sorted").decode() if named else ""


def with_owned(cluster: Cluster, after: tuple[Taint, ...], known: Owners) -> Cluster:
    """Return the cluster with these taints, and with the annotation that names their owners [taint-ownership]."""
    annotations = {k: v for k, v in cluster.metadata.annotations.items() if k != OWNERS_ANNOTATION}
    if text := written(known):
        annotations[OWNERS_ANNOTATION] = text
    return cluster.with_spec(taints=after).with_meta(annotations=annotations)


def owned(cluster: Cluster) -> dict[Identity, Ownership]:
    """Return the owners of the taints of a cluster, without the taints that a user has removed or taken over."""
    return {identity: ownership for identity, ownership in owners(cluster).items() if not ownership.waived}


def ending(cluster: Cluster) -> frozenset[Identity]:
    """Return the taints whose conditions no longer hold and whose removal window still runs."""
    return frozenset(identity for identity, ownership in owned(cluster).items() if ownership.ending)


def for_flapping(cluster: Cluster) -> frozenset[Identity]:
    """Return the taints that are on a cluster because it flaps."""
    return frozenset(identity for identity, ownership in owned(cluster).items() if ownership.flapping)


def settled(
    taints: Sequence[Taint], known: Owners, wants: Iterable[Want], *, now: datetime
) -> tuple[tuple[Taint, ...], dict[Identity, Ownership]]:
    """Return the taints and their owners that follow from all wants.

    - A taint keeps its value and timeAdded while at least one owner wants it. A taint without owners stays.
    - An owned taint that is missing was removed by a user. It is not added again until no owner wants it any more. If
      it is on the cluster again meanwhile, it belongs to the user. A taint with `Want.stays` is added again at once.
    - If all owners want a taint under another rule than before, it is replaced by a new taint.
    - New taints get `now` as timeAdded, and so do taints that evict and have none.
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
        without_time = taint.time_added is None and taint.effect in EVICTING_EFFECTS
        kept.append(replace(taint, time_added=moment) if without_time else taint)
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
    """Return taints and owners without the taints whose policies were edited [taint-ownership].

    A taint stays if it is waived, or if an owner that asks for it still wants it under the stored rule.
    """
    edited = {
        identity
        for identity in ((taint.key, taint.effect) for taint in taints)
        if (how := known.get(identity)) is not None and not how.waived and _edited(how, wanted.get(identity, ()))
    }
    left = [taint for taint in taints if (taint.key, taint.effect) not in edited]
    return left, {identity: how for identity, how in known.items() if identity not in edited}


def _edited(how: Ownership, asking: Iterable[Want]) -> bool:
    """Test whether every owner that still asks for a taint asks under another rule. False: no owner asks for it."""
    rules = [(how.by[want.owner], want.rule) for want in asking if want.owner in how.by]
    return bool(rules) and all(before != rule for before, rule in rules)


def _owned_by(asking: list[Want]) -> Ownership:
    return Ownership(
        {want.owner: want.rule for want in asking},
        ending=all(want.ending for want in asking),
        flapping=any(want.flapping for want in asking),
    )


class Wanted(msgspec.Struct, frozen=True):
    """The wants of owners, and when the passage of time alone may change them; None: never."""

    wants: tuple[Want, ...] = ()
    wake_at: datetime | None = None


def automatic(cluster: Cluster, settings: Settings, *, moving_since: datetime | None, now: datetime) -> Wanted:
    """Return the taints that the system wants without a policy [automatic-taints] [unjoin-and-drain] [lost-access].

    `moving_since`: from when the clocks of taints that evict count. None: such taints must not be added, because the
    gate Failover is off or the fleet is blind [failover-gate] [blind-fleet].
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
                waived_key = next((other for other, ownership in evicting.items() if ownership.waived), key)
                wants.append(Want(waived_key, NO_EXECUTE, "", BY_READY))
            else:
                wake_at = due
    return Wanted(tuple(wants), wake_at)


def kept(old: Cluster, new: Cluster, settings: Settings, *, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that a write removes and that have to stay, because the cluster cannot take new workloads.

    The next decision would add them again. Until then the scheduler might place copies on the cluster.
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


def staying(cluster: Cluster, settings: Settings, *, now: datetime) -> frozenset[Identity]:
    """Return the taints that users cannot remove now, because the cluster cannot take new workloads."""
    return frozenset((one.key, one.effect) for one in kept(cluster, cluster.with_spec(taints=()), settings, now=now))


def stays_because(taint: Taint) -> str:
    """Return the warning for a user who removes a taint of the system: why it stays, and what to do."""
    stays = f"{taint.key}:{taint.effect} stays, because no new copies can be placed on this cluster: "
    if taint.key == ACCESS_LOST_KEY:
        return f"{stays}it refuses access (condition AccessLost). The taint is removed once access is granted"
    return (
        f"{stays}it is not Ready. The taint is removed once the cluster is Ready; to have no such taints, set "
        "auto_no_schedule_taints to false"
    )


def when_seen(cluster: Cluster, since: datetime | None) -> datetime | None:
    """Return from when clocks that depend on Ready count: from `since`, but not before the end of the last lost access.

    None: no such clock runs, because `since` is None or access is lost and Ready is outdated [lost-access].
    """
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    if since is None or cluster.access_lost:
        return None
    if lost is None or lost.last_transition_time is None:
        return since
    return max(since, lost.last_transition_time)


def _evicting(cluster: Cluster) -> dict[str, Ownership]:
    """Return the owners of the automatic NoExecute taints of a cluster, by key.

    If the status of Ready changes, such a taint gets the other key at once. A taint that a user has removed stays
    removed under both keys [automatic-taints].
    """
    known = owners(cluster)
    by_key = {key: known.get((key, NO_EXECUTE), Ownership()) for key in (NOT_READY_KEY, UNREACHABLE_KEY)}
    return {key: ownership for key, ownership in by_key.items() if BY_READY in ownership.by}

"""Parts of one application end on one cluster: each sees where the others are, and what all of them need (S002).

Who is first goes where all of them have room, the others follow. Nobody follows where it has no room: it is placed as
if it were alone. What is placed stays, but for what has no pods and was placed before any part with pods was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.estimate.request import NOTHING_ASKED, Bundle, Request, request_of
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.template.pods import KINDS_WITH_PODS
from controlplane.settings import Settings

YOUNG: Final = timedelta(seconds=300)
"""So long after it was made, what has no pods still goes after parts with pods that come later."""
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=1), timedelta(seconds=60)


class Together(msgspec.Struct, frozen=True):
    """The application a binding is a part of, as its question sees it.

    `near`: clusters where other parts are, those with most parts that run pods first. `whole`: what all parts ask for,
    its own included. `kinds`: (apiVersion, kind) of all. `moves`: it goes after the others although it has a place.
    """

    near: tuple[str, ...] = ()
    whole: Bundle = Bundle()
    kinds: tuple[tuple[str, str], ...] = ()
    moves: bool = False


APART: Final = Together()


class Part(msgspec.Struct, frozen=True):
    """One part. `clusters`: its targets; `kept`: those and the clusters it has not left yet; `asks`: replicas and what
    each asks for."""

    clusters: tuple[str, ...]
    kept: frozenset[str]
    kind: tuple[str, str]
    pods: bool
    asks: tuple[tuple[int, Request], ...] = ()


Parts = Mapping[str, Mapping[str, Part]]
"""By application and name of the binding."""


def parts_of(found: Mapping[str, Iterable[Binding]], settings: Settings) -> dict[str, dict[str, Part]]:
    """Return the parts of applications from their bindings."""
    return {key: {one.metadata.name: part_of(one, settings) for one in ones} for key, ones in found.items()}


def part_of(binding: Binding, settings: Settings) -> Part:
    """Return a binding as a part."""
    spec = binding.spec
    return Part(
        tuple(one.name for one in spec.clusters),
        frozenset(binding.clusters_kept()),
        (spec.resource.api_version, spec.resource.kind),
        runs_pods(binding),
        _asks(binding, settings),
    )


def runs_pods(binding: Binding) -> bool:
    """Test whether a binding is of something that runs pods."""
    return binding.workload or binding.spec.resource.kind in KINDS_WITH_PODS


def _asks(binding: Binding, settings: Settings) -> tuple[tuple[int, Request], ...]:
    spec = binding.spec
    try:
        if spec.components and settings.gate("MultiplePodTemplatesScheduling"):
            return tuple((one.replicas, request_of(one.replica_requirements)) for one in spec.components)
        return ((spec.replicas, request_of(spec.replica_requirements)),) if spec.replicas else ()
    except ValueError:
        return ((spec.replicas, NOTHING_ASKED),)  # it asks for no quantity: its own question says so


class Applications:
    """The applications of one batch of decisions; whoever is placed is seen by the next. The one mutable value here."""

    def __init__(self, found: Mapping[str, Iterable[Binding]], settings: Settings) -> None:
        self._parts = parts_of(found, settings)
        self._settings = settings

    def seen_by(self, binding: Binding, *, now: datetime | None = None) -> Together:
        """Return the application of a binding as it is now; APART where it stands alone. `now` None: it goes after
        nobody although it has a place, as who asks where else it may go wants it."""
        others = self._others(binding)
        if not others:
            return APART
        own = part_of(binding, self._settings)
        everyone = (own, *others)
        moves = _moves(binding, own, others, now=now)
        return Together(
            _near([part for part in others if part.pods] if moves else others),
            _whole(everyone),
            tuple(sorted({part.kind for part in everyone})),
            moves,
        )

    def look_again_at(self, binding: Binding, *, now: datetime) -> datetime | None:
        """Return when to look whether parts with pods have come; None where they have, or it is too late for that."""
        made = binding.metadata.creation_timestamp
        if not application(binding) or runs_pods(binding) or made is None or now - made >= YOUNG:
            return None
        if any(part.pods and part.clusters for part in self._others(binding)):
            return None
        return now + min(max(now - made, FIRST_LOOK), LONGEST_LOOK)

    def placed(self, binding: Binding, clusters: Iterable[TargetCluster]) -> None:
        """Let the others know where a part goes."""
        key = application(binding)
        if key:
            part = part_of(binding, self._settings)
            names = tuple(one.name for one in clusters)
            known = self._parts.setdefault(key, {})
            known[binding.metadata.name] = replace(part, clusters=names, kept=part.kept | set(names))

    def _others(self, binding: Binding) -> list[Part]:
        key = application(binding)
        known = self._parts.get(key, {}) if key else {}
        return [part for name, part in known.items() if name != binding.metadata.name]


def _whole(parts: Iterable[Part]) -> Bundle:
    """Return what parts ask for together."""
    asked: Counter[Request] = Counter()
    for part in parts:
        for replicas, request in part.asks:
            asked[request] += replicas
    return Bundle(tuple((asked[request], request) for request in sorted(asked, key=lambda one: one.amounts)))


def _near(others: Iterable[Part]) -> tuple[str, ...]:
    parts: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for part in others:
        parts.update(part.clusters)
        pods.update(part.clusters if part.pods else ())
    return tuple(sorted(parts, key=lambda name: (-pods[name], -parts[name], name)))


def _moves(binding: Binding, own: Part, others: Iterable[Part], *, now: datetime | None) -> bool:
    """Test whether what has no pods goes after the parts with pods: it is new, and none of them is where it is."""
    made = binding.metadata.creation_timestamp
    if own.pods or made is None or now is None or now - made >= YOUNG or not own.clusters:
        return False
    with_pods = [part for part in others if part.pods]
    alone = not any(part.kept & own.kept for part in with_pods)
    return alone and any(part.clusters for part in with_pods)

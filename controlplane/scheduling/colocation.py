"""Places the parts of one application on the same cluster: its bindings in a namespace under one policy.

The first part goes to a cluster with capacity for all parts, and the others follow. A part that does not fit there is
placed as if it were alone. A placed part stays, with one exception: a part without pods that was placed before any part
with pods follows these for YOUNG.
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
"""How long after its creation a placed binding without pods still follows parts with pods."""
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=1), timedelta(seconds=60)


class Application(msgspec.Struct, frozen=True):
    """The application of a binding, as far as scheduling depends on it.

    `near`: the clusters of other parts; clusters with most parts that run pods come first. `whole`: the requests of all
    parts, including the binding's own. `kinds`: (apiVersion, kind) of all parts. `moves`: the binding follows the other
    parts although it already has targets.
    """

    near: tuple[str, ...] = ()
    whole: Bundle = Bundle()
    kinds: tuple[tuple[str, str], ...] = ()
    moves: bool = False


NO_APPLICATION: Final = Application()


class Part(msgspec.Struct, frozen=True):
    """One part of an application: a binding.

    `clusters`: its targets. `kept`: its targets and the clusters that its copies have not left yet. `asks`: pairs of
    replicas and the request of each replica.
    """

    clusters: tuple[str, ...]
    kept: frozenset[str]
    kind: tuple[str, str]
    pods: bool
    asks: tuple[tuple[int, Request], ...] = ()


Parts = Mapping[str, Mapping[str, Part]]
"""By application and binding name."""


def parts_of(found: Mapping[str, Iterable[Binding]], settings: Settings) -> dict[str, dict[str, Part]]:
    """Return the parts of applications, given the bindings of each application."""
    return {
        key: {binding.metadata.name: part_of(binding, settings) for binding in bindings}
        for key, bindings in found.items()
    }


def part_of(binding: Binding, settings: Settings) -> Part:
    """Return a binding as a part of its application."""
    spec = binding.spec
    return Part(
        tuple(target.name for target in spec.clusters),
        frozenset(binding.clusters_kept()),
        (spec.resource.api_version, spec.resource.kind),
        runs_pods(binding),
        _asks(binding, settings),
    )


def runs_pods(binding: Binding) -> bool:
    """Test whether the resource of a binding runs pods."""
    return binding.workload or binding.spec.resource.kind in KINDS_WITH_PODS


def _asks(binding: Binding, settings: Settings) -> tuple[tuple[int, Request], ...]:
    spec = binding.spec
    try:
        if spec.components and settings.gate("MultiplePodTemplatesScheduling"):
            return tuple((part.replicas, request_of(part.replica_requirements)) for part in spec.components)
        return ((spec.replicas, request_of(spec.replica_requirements)),) if spec.replicas else ()
    except ValueError:
        return (
            (spec.replicas, NOTHING_ASKED),
        )  # its request is not a quantity; scheduling of that binding reports the error


class Applications:
    """The applications of one batch of decisions. It is mutable: each placement is visible to the next binding."""

    def __init__(self, found: Mapping[str, Iterable[Binding]], settings: Settings) -> None:
        self._parts = parts_of(found, settings)
        self._settings = settings

    def seen_by(self, binding: Binding, *, now: datetime | None = None) -> Application:
        """Return the application of a binding as it is now. NO_APPLICATION: the binding is its only part.

        `now` None: a dry run. A binding that already has targets is then not moved to join other parts.
        """
        others = self._others(binding)
        if not others:
            return NO_APPLICATION
        own = part_of(binding, self._settings)
        everyone = (own, *others)
        moves = _moves(binding, own, others, now=now)
        return Application(
            _near([part for part in others if part.pods] if moves else others),
            _whole(everyone),
            tuple(sorted({part.kind for part in everyone})),
            moves,
        )

    def look_again_at(self, binding: Binding, *, now: datetime) -> datetime | None:
        """Return when to check again whether a part with pods was placed, which this part without pods follows.

        None: no check is needed. The binding has no application, has pods itself, or is older than YOUNG, or a part
        with pods is placed already.
        """
        made = binding.metadata.creation_timestamp
        if not application(binding) or runs_pods(binding) or made is None or now - made >= YOUNG:
            return None
        if any(part.pods and part.clusters for part in self._others(binding)):
            return None
        return now + min(max(now - made, FIRST_LOOK), LONGEST_LOOK)

    def placed(self, binding: Binding, clusters: Iterable[TargetCluster]) -> None:
        """Record the placement of a binding, so that the other parts of its application see it."""
        key = application(binding)
        if key:
            part = part_of(binding, self._settings)
            names = tuple(target.name for target in clusters)
            known = self._parts.setdefault(key, {})
            known[binding.metadata.name] = replace(part, clusters=names, kept=part.kept | set(names))

    def _others(self, binding: Binding) -> list[Part]:
        key = application(binding)
        known = self._parts.get(key, {}) if key else {}
        return [part for name, part in known.items() if name != binding.metadata.name]


def _whole(parts: Iterable[Part]) -> Bundle:
    """Return the requests of all parts as one set."""
    asked: Counter[Request] = Counter()
    for part in parts:
        for replicas, request in part.asks:
            asked[request] += replicas
    return Bundle(tuple((asked[request], request) for request in sorted(asked, key=lambda request: request.amounts)))


def _near(others: Iterable[Part]) -> tuple[str, ...]:
    parts: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for part in others:
        parts.update(part.clusters)
        pods.update(part.clusters if part.pods else ())
    return tuple(sorted(parts, key=lambda name: (-pods[name], -parts[name], name)))


def _moves(binding: Binding, own: Part, others: Iterable[Part], *, now: datetime | None) -> bool:
    """Test whether a binding without pods follows the parts with pods: it is young, and none of them shares a cluster
    with it."""
    made = binding.metadata.creation_timestamp
    if own.pods or made is None or now is None or now - made >= YOUNG or not own.clusters:
        return False
    with_pods = [part for part in others if part.pods]
    alone = not any(part.kept & own.kept for part in with_pods)
    return alone and any(part.clusters for part in with_pods)

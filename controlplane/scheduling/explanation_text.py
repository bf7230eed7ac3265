"""The words of a note: a PlacementExplanation document, and the same as sentences."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from controlplane.apimachinery.meta import ObjectMeta, Ref, Struct
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.candidates import RESERVED_SCORE, TARGET_SCORE
from controlplane.scheduling.filters import CLUSTER_AFFINITY
from controlplane.scheduling.note import MESSAGE_KEPT, PLACED, Detail, Summary, Term
from controlplane.scheduling.placement_plan import AGGREGATED, DUPLICATED, STATIC
from controlplane.scheduling.schedule import FOLLOWED, FOR_ALL
from controlplane.wire.resource import human_duration

API_VERSION: Final = "failover.lifeboat.io/v1alpha1"
KIND: Final = "PlacementExplanation"
CHOSEN, REFUSED, NOT_CHOSEN = "Chosen", "Refused", "NotChosen"


class ClusterAccount(Struct, frozen=True):
    """What became of one cluster, and why."""

    name: str
    verdict: str  # Chosen, Refused, NotChosen
    filter: str = ""  # the first filter that said no
    value: str = ""  # on which value
    score: int | None = None
    target_before: bool = False
    replicas_before: int = 0
    capacity: int | None = None  # replicas there was room for, beyond those it has; None: not looked at, or not kept
    capacity_reported_at: datetime | None = None  # the newest report; None: unknown
    capacity_age_seconds: int | None = None  # of the report when it was decided; None: unknown, or a newer report came
    weight: int | None = None
    replicas: int | None = None
    sentence: str = ""


class TermTried(Struct, frozen=True):
    """One affinity term and why it gave no result; "" it gave it."""

    affinity_name: str = ""
    failure: str = ""


class PlacementExplanation(Struct, frozen=True):
    """Why a binding is where it is."""

    api_version: str  # always said, so without defaults
    kind: str
    metadata: ObjectMeta = ObjectMeta()
    decision: Summary = Summary()
    division: str = ""  # how the replicas were divided, in one sentence
    together: str = ""  # what the other parts of its application meant for it, in one sentence; "" nothing
    terms: tuple[TermTried, ...] = ()
    clusters: tuple[ClusterAccount, ...] = ()
    previous: Summary | None = None


class Part(Struct, frozen=True):
    """What dry runs and stored notes both have: a decision in short and in full, on a fleet."""

    decision: Summary
    detail: Detail
    names: tuple[str, ...]


def explained(
    ref: Ref, note: PlacementNote, fleet: FleetNames | None, reported_at: Mapping[str, datetime]
) -> PlacementExplanation:
    """Return the document of a stored note. `reported_at`: by cluster, when its capacity was last read."""
    names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
    part = Part(msgspec.json.decode(note.decision, type=Summary), msgspec.json.decode(note.detail, type=Detail), names)
    previous = msgspec.json.decode(note.previous, type=Summary) if note.previous else None
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace)
    return document(part, metadata=metadata, reported_at=reported_at, previous=previous)


def document(
    part: Part, *, metadata: ObjectMeta, reported_at: Mapping[str, datetime], previous: Summary | None = None
) -> PlacementExplanation:
    """Return the document of a decision."""
    return PlacementExplanation(
        api_version=API_VERSION,
        kind=KIND,
        metadata=metadata,
        decision=part.decision,
        division=division(part),
        together=together(part),
        terms=tried(part),
        clusters=tuple(clusters(part, reported_at)),
        previous=previous,
    )


def tried(part: Part) -> tuple[TermTried, ...]:
    """Return the affinity terms in the order they were tried."""
    return tuple(TermTried(term.affinity_name, term.failure) for term in part.detail.terms)


def clusters(part: Part, reported_at: Mapping[str, datetime]) -> Iterator[ClusterAccount]:
    """Yield what became of every cluster under the last affinity term that was tried, with a sentence about it."""
    detail, term = part.detail, part.detail.terms[-1]
    for one in accounts(part, reported_at):
        yield msgspec.structs.replace(one, sentence=_sentence(one, detail, term))


def accounts(part: Part, reported_at: Mapping[str, datetime]) -> Iterator[ClusterAccount]:
    """Yield what became of every cluster under the last affinity term that was tried, without a sentence."""
    detail, term = part.detail, part.detail.terms[-1]
    held, reserved = dict(detail.held), frozenset(detail.reserved)
    refused = {name: (filter_, value) for filter_, value, mask in term.refused for name in _named(mask, part.names)}
    chosen = list(_named(term.chosen, part.names)) if term.chosen else []
    shares, weights = _by_name(chosen, term.shares), _by_name(chosen, term.weights)
    taken = frozenset(chosen)
    room = {part.names[place]: room for place, room in zip(term.seen, term.room, strict=True) if part.names}
    for name in part.names:
        reported = reported_at.get(name)
        filter_, value = refused.get(name, ("", ""))
        if filter_:
            yield ClusterAccount(
                name,
                REFUSED,
                filter=filter_,
                value=value,
                target_before=name in held,
                replicas_before=held.get(name, 0),
            )
        else:
            yield ClusterAccount(
                name,
                CHOSEN if name in taken else NOT_CHOSEN,
                target_before=name in held,
                replicas_before=held.get(name, 0),
                score=TARGET_SCORE if name in held else RESERVED_SCORE if name in reserved else 0,
                capacity=room.get(name),
                capacity_reported_at=reported if name in room else None,
                capacity_age_seconds=_age(part.decision.at, reported) if name in room else None,
                weight=weights.get(name),
                replicas=shares.get(name) if detail.workload else None,
            )


def division(part: Part) -> str:
    """Return in one sentence how the replicas were divided."""
    detail = part.detail
    if not detail.workload:
        return "It has no replicas to divide: every chosen cluster gets it."
    count = f"{detail.replicas} replica{'' if detail.replicas == 1 else 's'}"
    kept = sum(replicas for _, replicas in detail.held)
    if detail.division == DUPLICATED:
        return f"Every chosen cluster gets all {count}."
    if detail.division == STATIC:
        return f"{count} divided by static weights, one at a time to the largest weight per seat."
    how = "onto as few clusters as have room" if detail.division == AGGREGATED else "by free room"
    if detail.fresh:
        return f"{count} divided anew {how}, as a reschedule was asked for."
    if not kept:
        return f"{count} divided {how}."
    return f"{count}, of which the targets had {kept}; these stay where they can and the difference goes {how}."


def together(part: Part) -> str:
    """Return in one sentence what the other parts of its application meant; "" where it has none, or stays."""
    detail = part.detail
    others = ", ".join(detail.near)
    if detail.joined == FOLLOWED:
        named = ", ".join(one.name for one in part.decision.clusters)
        return f"It goes where other parts of its application are: {named}."
    if detail.joined == FOR_ALL:
        return f"It is the first of its application to go where all parts, {detail.pods} pods together, have room."
    if detail.held or not (detail.near or detail.pods) or part.decision.outcome != PLACED:
        return ""
    if detail.near:
        return f"Other parts of its application are on {others}, where it has no place: it goes as if it were alone."
    return f"No cluster has room for all {detail.pods} pods of its application: it goes as if it were alone."


def message(headline: str, accounts: Iterable[ClusterAccount], *, limit: int = MESSAGE_KEPT) -> str:
    """Return a refusal for conditions and Events: what is missing, then a sentence per cluster as far as `limit` goes,
    clusters that could have been chosen first and those nobody asked for last."""
    accounts = sorted(accounts, key=_interest)
    told, room = [headline], limit - len(headline) - len(_MORE % len(accounts))
    for count, one in enumerate(accounts):
        sentence = f"{one.name}: {_brief(one)}"
        room -= len(sentence) + 2
        if room < 0:
            return "; ".join(told) + _MORE % (len(accounts) - count)
        told.append(sentence)
    return "; ".join(told)


_MORE: Final = "; and %d more clusters"


def _interest(one: ClusterAccount) -> tuple[bool, bool, str]:
    return one.verdict == REFUSED, one.filter == CLUSTER_AFFINITY, one.name


def _brief(one: ClusterAccount) -> str:
    if one.verdict == REFUSED:
        return one.value
    return "it is feasible" if one.capacity is None else f"room for {one.capacity} more"


def text(explanation: PlacementExplanation) -> str:
    """Return a document as sentences, one a line."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: PlacementExplanation) -> Iterator[str]:
    place = explanation.metadata
    name = f"{place.namespace}/{place.name}" if place.namespace else place.name
    yield f"{name}: {_told(explanation.decision)}"
    for term in explanation.terms:
        if term.affinity_name and term.failure:
            yield f"Affinity {term.affinity_name} gave no result: {term.failure}"
    if explanation.division and explanation.decision.outcome == PLACED:
        yield explanation.division
    if explanation.together:
        yield explanation.together
    for cluster in explanation.clusters:
        yield f"  {cluster.name}: {cluster.sentence}"
    if explanation.previous is not None:
        yield f"Before that: {_told(explanation.previous)}"


def _told(summary: Summary) -> str:
    when = "" if summary.at is None else f" at {summary.at:%Y-%m-%dT%H:%M:%SZ}"
    why = f" because {summary.trigger}" if summary.trigger else ""
    if summary.outcome == PLACED:
        more = f" and {summary.more_clusters} more" if summary.more_clusters else ""
        return f"placed on {_targets(summary.clusters)}{more}{when}{why}"
    return f"{summary.outcome}{when}{why}: {summary.message}"


def _targets(targets: Sequence[TargetCluster]) -> str:
    named = (f"{one.name} ({one.replicas})" if one.replicas else one.name for one in targets)
    return ", ".join(named) or "no cluster"


def _sentence(one: ClusterAccount, detail: Detail, term: Term) -> str:
    if one.verdict == REFUSED:
        return f"{one.filter} refuses it: {one.value}"
    facts = []
    if one.target_before:
        facts.append(f"was a target with {one.replicas_before}" if one.replicas_before else "was a target")
    if one.name in detail.reserved:
        facts.append("an eviction had reserved it")
    if one.capacity is not None:
        aged = (
            "" if one.capacity_age_seconds is None else f", reported {human_duration(one.capacity_age_seconds)} before"
        )
        facts.append(f"room for {one.capacity} more{aged}")
    if one.weight is not None:
        facts.append(f"weight {one.weight}")
    seen = f" ({'; '.join(facts)})" if facts else ""
    if one.verdict == CHOSEN:
        return f"chosen{seen}" + (f", gets {one.replicas} of {detail.replicas}" if detail.workload else "")
    return f"feasible{seen}, not chosen: {term.failure or 'others are preferred'}"


def _age(decided: datetime | None, reported: datetime | None) -> int | None:
    """Return how many seconds old a report was at the decision, None where a newer one took its place."""
    if decided is None or reported is None or reported > decided:
        return None
    return int((decided - reported).total_seconds())


def _named(mask: str, names: Sequence[str]) -> Iterator[str]:
    bits = np.unpackbits(np.frombuffer(b64decode(mask), dtype=np.uint8), count=len(names))
    return (names[place] for place in np.flatnonzero(bits).tolist())


def _by_name(chosen: Sequence[str], numbers: Sequence[int]) -> dict[str, int]:
    """Return numbers of the chosen clusters by name; a single number stands for all of them."""
    if len(numbers) == len(chosen):
        return dict(zip(chosen, numbers, strict=True))
    return dict.fromkeys(chosen, numbers[0]) if numbers else {}

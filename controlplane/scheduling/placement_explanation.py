"""PlacementExplanation: the stored note of a scheduling decision in words, as a document and as lines of text."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref, Struct, condition
from controlplane.kinds.binding import OVERRIDES_APPLIED, Binding, TargetCluster
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.kinds.work import Work
from controlplane.kinds.work.applied_overrides import applied_overrides, shown
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
    """What the decision made of one cluster, and why."""

    name: str
    verdict: str  # Chosen, Refused, NotChosen
    filter: str = ""  # the first filter that refused it
    value: str = ""  # the reason of that filter
    score: int | None = None
    target_before: bool = False
    replicas_before: int = 0
    capacity: int | None = None  # additional replicas that fit; None: not computed, or not stored
    quota: str = ""  # the ResourceQuota of the member that limits it, as namespace/name; "": none does
    nodeless: bool = False  # node selector, node affinity and tolerations select none of its nodes [node-estimate]
    capacity_reported_at: datetime | None = None  # the newest report; None: unknown
    capacity_age_seconds: int | None = None  # of the report at the decision; None: unknown, or a newer report came
    weight: int | None = None
    replicas: int | None = None
    sentence: str = ""


class TermTried(Struct, frozen=True):
    """One affinity term, and why it gave no result. "": it gave the result."""

    affinity_name: str = ""
    failure: str = ""


class ClusterOverrides(Struct, frozen=True):
    """The override policies that change the copy on one cluster."""

    cluster: str
    policies: tuple[str, ...] = ()


class PlacementExplanation(Struct, frozen=True):
    """Why a binding is placed where it is."""

    api_version: str  # without a default, so that it is always written
    kind: str
    metadata: ObjectMeta = ObjectMeta()
    decision: Summary = Summary()
    division: str = ""  # how the replicas were divided, as a sentence
    together: str = ""  # how the other parts of its application mattered, as a sentence; "": they did not
    terms: tuple[TermTried, ...] = ()
    clusters: tuple[ClusterAccount, ...] = ()
    previous: Summary | None = None
    overrides: tuple[ClusterOverrides, ...] = ()
    override_failures: str = ""  # which policies cannot be applied, and why; "": all can


class NotedDecision(Struct, frozen=True):
    """A decision on a fleet, in short and in full. Dry runs and stored notes both have one."""

    decision: Summary
    detail: Detail
    names: tuple[str, ...]


def explained(
    ref: Ref, note: PlacementNote, fleet: FleetNames | None, reported_at: Mapping[str, datetime]
) -> PlacementExplanation:
    """Return the document of a stored note. `reported_at`: by cluster, when its capacity was last reported."""
    names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
    part = NotedDecision(
        msgspec.json.decode(note.decision, type=Summary), msgspec.json.decode(note.detail, type=Detail), names
    )
    previous = msgspec.json.decode(note.previous, type=Summary) if note.previous else None
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace)
    return document(part, metadata=metadata, reported_at=reported_at, previous=previous)


def document(
    part: NotedDecision, *, metadata: ObjectMeta, reported_at: Mapping[str, datetime], previous: Summary | None = None
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


def with_overrides(explanation: PlacementExplanation, binding: Binding, works: Iterable[Work]) -> PlacementExplanation:
    """Return the document with the override policies that change the copies, and why others failed.

    The policies are those in the Works, the failures those in the condition OverridesApplied of the binding.
    """
    by_cluster = {work.cluster: applied_overrides(work.metadata.annotations) for work in works}
    named = tuple(
        ClusterOverrides(cluster, tuple(map(shown, policies)))
        for cluster, policies in sorted(by_cluster.items())
        if policies
    )
    failed = condition(binding.status.conditions, OVERRIDES_APPLIED)
    failures = failed.message if failed is not None and failed.status == "False" else ""
    return replace(explanation, overrides=named, override_failures=failures)


def tried(part: NotedDecision) -> tuple[TermTried, ...]:
    """Return the affinity terms in the order they were tried."""
    return tuple(TermTried(term.affinity_name, term.failure) for term in part.detail.terms)


def clusters(part: NotedDecision, reported_at: Mapping[str, datetime]) -> Iterator[ClusterAccount]:
    """Yield what the last affinity term that was tried made of every cluster, with a sentence about each."""
    detail, term = part.detail, part.detail.terms[-1]
    for account in accounts(part, reported_at):
        yield msgspec.structs.replace(account, sentence=_sentence(account, detail, term))


def accounts(part: NotedDecision, reported_at: Mapping[str, datetime]) -> Iterator[ClusterAccount]:
    """Yield an account of each cluster: refused, chosen or not chosen by the last affinity term that was tried."""
    detail, term = part.detail, part.detail.terms[-1]
    held, reserved = dict(detail.held), frozenset(detail.reserved)
    refused = {name: (filter_, value) for filter_, value, mask in term.refused for name in _named(mask, part.names)}
    chosen = list(_named(term.chosen, part.names)) if term.chosen else []
    shares, weights = _by_name(chosen, term.shares), _by_name(chosen, term.weights)
    taken = frozenset(chosen)
    capacities = {part.names[place]: room for place, room in zip(term.seen, term.room, strict=True) if part.names}
    quotas = {part.names[place]: quota for place, quota in term.quotas if part.names}
    nodeless = {part.names[place] for place in term.nodeless if part.names}
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
                capacity=capacities.get(name),
                quota=quotas.get(name, ""),
                nodeless=name in nodeless,
                capacity_reported_at=reported if name in capacities else None,
                capacity_age_seconds=_age(part.decision.at, reported) if name in capacities else None,
                weight=weights.get(name),
                replicas=shares.get(name) if detail.workload else None,
            )


def division(part: NotedDecision) -> str:
    """Return in one sentence how the replicas were divided."""
    detail = part.detail
    if not detail.workload:
        return "It has no replicas to divide: every chosen cluster gets a copy."
    count = f"{detail.replicas} replica{'' if detail.replicas == 1 else 's'}"
    kept = sum(replicas for _, replicas in detail.held)
    if detail.division == DUPLICATED:
        return f"Every chosen cluster gets {count}."
    if detail.division == STATIC:
        return f"{count} divided in proportion to static weights."
    how = "among as few clusters as possible" if detail.division == AGGREGATED else "by free capacity"
    if detail.fresh:
        return f"{count} divided again {how}, because a reschedule was requested."
    if not kept:
        return f"{count} divided {how}."
    return f"{count}, of which the targets had {kept}: these stay if possible, and the difference is divided {how}."


def together(part: NotedDecision) -> str:
    """Return as a sentence how the other parts of its application mattered. "": there are none, or it was placed
    before."""
    detail = part.detail
    others = ", ".join(detail.near)
    if detail.joined == FOLLOWED:
        named = ", ".join(target.name for target in part.decision.clusters)
        return f"It is placed where other parts of its application are: {named}."
    if detail.joined == FOR_ALL:
        return f"It is the first part of its application, placed where all parts ({detail.pods} pods together) fit."
    if detail.held or not (detail.near or detail.pods) or part.decision.outcome != PLACED:
        return ""
    if detail.near:
        return f"Other parts of its application are on {others}, where it does not fit: it is placed alone."
    return f"No cluster has room for all {detail.pods} pods of its application: it is placed alone."


def message(headline: str, accounts: Iterable[ClusterAccount], *, limit: int = MESSAGE_KEPT) -> str:
    """Return a refusal for conditions and Events: the headline, then a sentence per cluster, within `limit` characters.

    Feasible clusters come first. Clusters that the clusterAffinity does not select come last.
    """
    accounts = sorted(accounts, key=_interest)
    sentences, left = [headline], limit - len(headline) - len(_more(len(accounts)))
    for count, account in enumerate(accounts):
        sentence = f"{account.name}: {_brief(account)}"
        left -= len(sentence) + 2
        if left < 0:
            return "; ".join(sentences) + _more(len(accounts) - count)
        sentences.append(sentence)
    return "; ".join(sentences)


def _more(count: int) -> str:
    return f"; and {count} more cluster{'' if count == 1 else 's'}"


def _interest(account: ClusterAccount) -> tuple[bool, bool, str]:
    return account.verdict == REFUSED, account.filter == CLUSTER_AFFINITY, account.name


def _brief(account: ClusterAccount) -> str:
    if account.verdict == REFUSED:
        return account.value
    return "it is feasible" if account.capacity is None else f"room for {account.capacity} more"


def headline(explanation: PlacementExplanation) -> str:
    """Return the result of the decision, with its time and its cause, in one sentence."""
    return _decision(explanation.decision)


def text(explanation: PlacementExplanation) -> str:
    """Return an explanation as lines of text."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: PlacementExplanation) -> Iterator[str]:
    metadata = explanation.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    yield f"{name}: {headline(explanation)}"
    for term in explanation.terms:
        if term.affinity_name and term.failure:
            yield f"Affinity {term.affinity_name} gave no result: {term.failure}"
    if explanation.division and explanation.decision.outcome == PLACED:
        yield explanation.division
    if explanation.together:
        yield explanation.together
    for cluster in explanation.clusters:
        yield f"  {cluster.name}: {cluster.sentence}"
    for changed in explanation.overrides:
        yield f"The copy on {changed.cluster} is changed by {', '.join(changed.policies)}"
    if explanation.override_failures:
        yield f"Override policies fail: {explanation.override_failures}"
    if explanation.previous is not None:
        yield f"The decision before: {_decision(explanation.previous)}"


def _decision(summary: Summary) -> str:
    when = "" if summary.at is None else f" at {summary.at:%Y-%m-%dT%H:%M:%SZ}"
    why = f" because {summary.trigger}" if summary.trigger else ""
    if summary.outcome == PLACED:
        more = f" and {summary.more_clusters} more" if summary.more_clusters else ""
        return f"placed on {_targets(summary.clusters)}{more}{when}{why}"
    return f"{summary.outcome}{when}{why}: {summary.message}"


def _targets(targets: Sequence[TargetCluster]) -> str:
    named = (f"{target.name} ({target.replicas})" if target.replicas else target.name for target in targets)
    return ", ".join(named) or "no cluster"


def _sentence(account: ClusterAccount, detail: Detail, term: Term) -> str:
    if account.verdict == REFUSED:
        return f"{account.filter} refuses it: {account.value}"
    facts = []
    if account.target_before:
        facts.append(f"was a target with {account.replicas_before}" if account.replicas_before else "was a target")
    if account.name in detail.reserved:
        facts.append("an eviction had reserved it")
    if account.capacity is not None:
        age = account.capacity_age_seconds
        reported = "" if age is None else f", reported {human_duration(age)} before"
        limited = f" in its ResourceQuota {account.quota}" if account.quota else ""
        facts.append(f"room for {account.capacity} more{limited}{reported}")
    if account.nodeless:
        facts.append("the node selector, node affinity and tolerations of the workload select none of its nodes")
    if account.weight is not None:
        facts.append(f"weight {account.weight}")
    seen = f" ({'; '.join(facts)})" if facts else ""
    if account.verdict == CHOSEN:
        return f"chosen{seen}" + (f", gets {account.replicas} of {detail.replicas}" if detail.workload else "")
    return f"feasible{seen}, not chosen: {term.failure or 'other clusters are preferred'}"


def _age(decided: datetime | None, reported: datetime | None) -> int | None:
    """Return the age in seconds of a report at the decision. None: unknown, or a newer report has replaced it."""
    if decided is None or reported is None or reported > decided:
        return None
    return int((decided - reported).total_seconds())


def _named(mask: str, names: Sequence[str]) -> Iterator[str]:
    bits = np.unpackbits(np.frombuffer(b64decode(mask), dtype=np.uint8), count=len(names))
    return (names[place] for place in np.flatnonzero(bits).tolist())


def _by_name(chosen: Sequence[str], numbers: Sequence[int]) -> dict[str, int]:
    """Return the numbers of the chosen clusters by name. A single number applies to all of them."""
    if len(numbers) == len(chosen):
        return dict(zip(chosen, numbers, strict=True))
    return dict.fromkeys(chosen, numbers[0]) if numbers else {}

"""Why a binding went where it went: one sentence per cluster, made only when somebody asks."""

from __future__ import annotations

from collections import Counter

import msgspec

from controlplane.clusters.tolerations import spelled
from controlplane.kinds.cluster import PREFER_NO_EXECUTE
from controlplane.scheduling.cluster_arrays import Counts, Places
from controlplane.scheduling.placement_plan import REFUSING, Plan
from controlplane.scheduling.question import Question


class Attempt(msgspec.Struct, frozen=True):
    """What was seen under one affinity term; arrays are over the fleet, `shares` over `chosen`."""

    plan: Plan
    affinity_name: str
    feasible: Places | None
    chosen: Places | None
    room: Counts | None
    shares: Counts | None
    failure: str
    joined: str = ""  # how it came to its application: Followed, ForAll; "" as if it were alone
    reserved: tuple[str, ...] = ()  # clusters that were preferred because an eviction had reserved them


class Explanation(msgspec.Struct, frozen=True):
    question: Question
    attempts: tuple[Attempt, ...]


class Refusal(msgspec.Struct, frozen=True):
    """The first filter that refused a cluster, and the value it refused."""

    filter: str
    value: str


def refusal(attempt: Attempt, question: Question, place: int) -> Refusal | None:
    """Return why a cluster is not feasible, None where it is."""
    plan, fleet = attempt.plan, attempt.plan.fleet
    name = fleet.names[place]
    there = any(target == name for target, _ in question.targets)
    if fleet.absent[place]:
        return Refusal("Leaving", "it is being left")
    if not fleet.present[place]:
        return Refusal("Terminating", "it is being deleted")
    if not plan.affinity[place]:
        return Refusal("ClusterAffinity", f"clusterAffinity {attempt.affinity_name}".rstrip() + " does not choose it")
    for field in plan.spread_fields():
        if fleet.lacking(field)[place]:
            return Refusal("SpreadConstraint", f"it does not say its {field}")
    if name in question.leaving:
        return Refusal("ClusterEviction", "an eviction task leaves it")
    if there:
        return None
    if not fleet.open[place]:
        return Refusal("Terminating", "it is being deleted")
    taint = fleet.refused_by(place, plan.placement.cluster_tolerations, REFUSING)
    if taint is not None:
        return Refusal("TaintToleration", f"taint {spelled(taint)} is not tolerated")
    if not fleet.enables(question.api_version, question.kind)[place]:
        return Refusal("APIEnablement", f"it does not serve {question.kind} of {question.api_version}")
    if name in question.evicted and fleet.moving()[place]:
        return Refusal("ClusterEviction", "it was left because of a taint, and still carries one that moves workloads")
    if question.fails_over and fleet.leaving_soon()[place]:
        return Refusal("Failover", f"a {PREFER_NO_EXECUTE} taint would drive it away again")
    near = question.neighbours
    if near.together is not None and name not in near.together:
        shared = ", ".join(sorted(near.together))
        return Refusal("WorkloadAffinity", f"its affinity group is on {shared or 'clusters that have none in common'}")
    if near.apart is not None and name in near.apart:
        return Refusal("WorkloadAntiAffinity", "its anti-affinity group is there")
    return None


def refusals(explanation: Explanation, term: int = 0) -> dict[str, Refusal]:
    """Return the refusal of every cluster that is not feasible under the term tried at that place, by cluster name."""
    attempt = explanation.attempts[term]
    found = {}
    for place, name in enumerate(attempt.plan.fleet.names):
        why = refusal(attempt, explanation.question, place)
        if why is not None:
            found[name] = why
    return found


def sentence(explanation: Explanation) -> str:
    """Return in one sentence why no cluster is feasible: how many clusters each filter refused."""
    attempt = explanation.attempts[0]
    size = attempt.plan.fleet.size
    if not size:
        return "0/0 clusters are available: no cluster exists"
    counts = Counter(f"{why.filter}: {why.value}" for why in refusals(explanation).values())
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"0/{size} clusters are available: {parts}"


def sentences(explanation: Explanation) -> dict[str, str]:
    """Return one sentence per cluster of the fleet: the filter that refused it and the value it refused, or what it
    scored and got. The last term tried is the one told about."""
    attempt, question = explanation.attempts[-1], explanation.question
    fleet = attempt.plan.fleet
    refused = refusals(explanation, -1)
    shares = _shares(attempt)
    there = {name for name, _ in question.targets}
    told = {}
    for place, name in enumerate(fleet.names):
        if name in refused:
            told[name] = f"{refused[name].filter} refuses it: {refused[name].value}"
            continue
        seen = ", it is a target already" if name in there else ""
        if attempt.room is not None and question.workload:
            seen += f", room for {int(attempt.room[place])} more"
        if place in shares:
            got = f", gets {shares[place]} of {question.replicas} replicas" if question.replicas else ""
            told[name] = f"chosen{seen}{got}"
        elif attempt.failure:
            told[name] = f"feasible{seen}, not chosen: {attempt.failure}"
        else:
            told[name] = f"feasible{seen}, not chosen: others are preferred"
    return told


def _shares(attempt: Attempt) -> dict[int, int]:
    if attempt.failure or attempt.chosen is None:
        return {}
    if attempt.shares is None:
        return dict.fromkeys(attempt.chosen.tolist(), 0)
    return dict(zip(attempt.chosen.tolist(), attempt.shares.tolist(), strict=True))

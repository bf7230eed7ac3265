"""Scheduling: the algorithm alone, and what becomes of the binding."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.names import binding_name
from controlplane.kinds.binding import ResourceBindingSpec, ResourceBindingStatus, TargetCluster
from controlplane.kinds.cluster import PREFER_NO_EXECUTE, PREFER_NO_SCHEDULE, Cluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.question import Neighbours, neighbours_of, on_one_cluster
from controlplane.scheduling.schedule import NO_CLUSTER_FIT, UNSCHEDULABLE, Placed, Refused, schedule
from controlplane.settings import GATES, Compat, EstimatorSettings, Settings
from tests.conformance.documents import typed
from tests.conformance.mixed_units import MIXED_UNITS, as_the_original_mixes_units

Document = dict[str, Any]


def settings_of(given: Document) -> Settings:
    """Return settings under which we do what the original does, where a switch decides it [recovered-clusters-cancel]
    [resource-models]."""
    gates = {name: on for name, on in given.get("featureGates", {}).items() if name in GATES}
    return Settings(
        feature_gates={**GATES, **gates},
        compat=Compat(cluster_eviction_filter=True),
        estimator=EstimatorSettings(model_formula="Simulate"),
        enable_empty_workload_propagation=given.get("enableEmptyWorkloadPropagation", False),
    )


def run(given: Document) -> Document:
    settings = settings_of(given)
    clusters = [typed(one, Cluster) for one in given["clusters"]]
    spec = typed(given["bindingSpec"], ResourceBindingSpec)
    status = typed(given["bindingStatus"], ResourceBindingStatus)
    near = _neighbours(given, spec)
    fleet = Fleet.of(clusters, settings=settings)
    whole = schedule(spec, status, fleet, settings=settings, neighbours=near).outcome
    result: Document = {"binding": _binding(whole, spec, status), "algorithm": None}
    assert spec.placement is not None
    terms = spec.placement.cluster_affinities
    observed = status.scheduler_observed_affinity_name
    if not terms or observed:
        # An observed name that no term has makes the bare algorithm, never the scheduler, look at all clusters.
        chosen = tuple(term for term in terms if term.affinity_name == observed)
        alone = replace(spec, placement=replace(spec.placement, cluster_affinities=chosen)) if terms else spec
        result["algorithm"] = _algorithm(schedule(alone, status, fleet, settings=settings, neighbours=near).outcome)
    return result


def _neighbours(given: Document, spec: ResourceBindingSpec) -> Neighbours:
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for other in given.get("otherBindings") or ():
        theirs = typed(other["spec"], ResourceBindingSpec)
        mine = theirs.workload_affinity_groups
        if mine is None:
            continue
        namespace = other["metadata"].get("namespace", "")
        for way, group in (("affinity", mine.affinity_group), ("antiAffinity", mine.anti_affinity_group)):
            if group:
                found = groups.setdefault((namespace, way, group), {})
                found[other["metadata"]["name"]] = [one.name for one in theirs.clusters]
    return neighbours_of(spec, groups, own=binding_name(spec.resource.kind, spec.resource.name))


def _algorithm(outcome: Placed | Refused) -> Document:
    if isinstance(outcome, Placed):
        return {"clusters": _targets(outcome.clusters), "error": None}
    kinds = {NO_CLUSTER_FIT: "FitError", "Unschedulable": "UnschedulableError"}
    return {"clusters": {}, "error": kinds.get(outcome.reason, "Other"), "message": outcome.message}


def _binding(outcome: Placed | Refused, spec: ResourceBindingSpec, status: ResourceBindingStatus) -> Document:
    placed = isinstance(outcome, Placed)
    return {
        "clusters": _targets(outcome.clusters if isinstance(outcome, Placed) else spec.clusters),
        "status": "True" if placed else "False",
        "reason": "Success" if isinstance(outcome, Placed) else outcome.reason,
        "affinity": outcome.affinity_name if isinstance(outcome, Placed) else status.scheduler_observed_affinity_name,
        "retry": False if isinstance(outcome, Placed) else outcome.retry,
    }


def _targets(targets: tuple[TargetCluster, ...]) -> dict[str, Any]:
    return {one.name: (one.replicas, tuple((c.name, c.replicas) for c in one.components)) for one in targets}


def _expected(targets: list[Document] | None) -> dict[str, Any]:
    return {
        one["name"]: (
            one.get("replicas", 0),
            tuple((part["name"], part.get("replicas", 0)) for part in one.get("components") or ()),
        )
        for one in targets or ()
    }


def agree(expect: Document, result: Document) -> bool:
    return _algorithm_agrees(expect["algorithm"], result["algorithm"]) and _binding_agrees(
        expect["binding"], result["binding"]
    )


def _algorithm_agrees(expect: Document | None, result: Document | None) -> bool:
    if expect is None or result is None:
        return expect is result
    error = None if expect["error"] is None else expect["error"]["type"]
    return bool(error == result["error"] and _expected(expect["clusters"]) == result["clusters"])


def _binding_agrees(expect: Document, result: Document) -> bool:
    return bool(
        _expected(expect["clusters"]) == result["clusters"]
        and expect["scheduledConditionStatus"] == result["status"]
        and expect["scheduledConditionReason"] == result["reason"]
        and expect["schedulerObservedAffinityName"] == result["affinity"]
        and expect["reconcileReturnsError"] == result["retry"]
    )


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Return the decisions that explain a difference: what we do without what they are about must agree."""
    if _agrees_but_for_clearing(expect, result):
        return CLEARING
    if _overflows(given, expect, result):
        return "the original adds room beyond 32 bits for a workload of 0 replicas"
    reported = [reason for reason, without in OURS.items() if without(given) != given]
    for count in range(1, len(reported) + 1):
        for reasons in itertools.combinations(reported, count):
            other = run(functools.reduce(lambda document, reason: OURS[reason](document), reasons, given))
            if agree(expect, other) or _agrees_but_for_clearing(expect, other):
                return "; ".join(reasons)
    return None


CLEARING = "[placement-is-kept] copies stay where nothing fits any more"


def _overflows(given: Document, expect: Document, result: Document) -> bool:
    """Test whether the original found less than no room: of a group of affinities only the result tells."""
    spec = given["bindingSpec"]
    if spec.get("replicas") or not spec.get("rescheduleTriggeredAt"):
        return False
    error = (expect["algorithm"] or {}).get("error") or {}
    if "available replicas -" in error.get("message", "") or not spec["placement"].get("clusterAffinities"):
        return "available replicas -" in error.get("message", "")
    theirs, ours = expect["binding"], result["binding"]
    moved_on = theirs["schedulerObservedAffinityName"] != ours["affinity"]
    return ours["status"] == "True" and (theirs["scheduledConditionReason"] == UNSCHEDULABLE or moved_on)


def _without_soft_taints(given: Document) -> Document:
    return {**given, "clusters": [_without(one, (PREFER_NO_EXECUTE, PREFER_NO_SCHEDULE)) for one in given["clusters"]]}


def _with_mixed_units(given: Document) -> Document:
    components = given["bindingSpec"].get("components")
    if not components:
        return given
    clusters = [typed(one, Cluster) for one in given["clusters"]]
    mixed = [msgspec.to_builtins(one) for one in as_the_original_mixes_units(clusters, components)]
    return given if mixed == [msgspec.to_builtins(one) for one in clusters] else {**given, "clusters": mixed}


def _with_bare_pods(given: Document) -> Document:
    """Return the same with one pod that asks for nothing as its components, unless they go to one cluster only."""
    spec = typed(given["bindingSpec"], ResourceBindingSpec)
    if not spec.components or spec.placement is None or on_one_cluster(spec.placement):
        return given
    return {**given, "bindingSpec": {**given["bindingSpec"], "components": [{"name": "pod", "replicas": 1}]}}


def _without_earlier_terms(given: Document) -> Document:
    placement = given["bindingSpec"]["placement"]
    observed = given["bindingStatus"].get("schedulerObservingAffinityName")
    terms = placement.get("clusterAffinities") or ()
    places = [place for place, term in enumerate(terms) if term["affinityName"] == observed]
    if not places or not places[0]:
        return given
    left = {**placement, "clusterAffinities": terms[places[0] :]}
    return {**given, "bindingSpec": {**given["bindingSpec"], "placement": left}}


OURS: dict[str, Callable[[Document], Document]] = {
    "[affinity-groups] the terms before the one in use are tried after the last one": _without_earlier_terms,
    MIXED_UNITS: _with_mixed_units,
    "[prefer-no-schedule] PreferNoSchedule ranks last": _without_soft_taints,
    "the original ranks clusters by free pods where sets of components may go to several": _with_bare_pods,
}


def _without(cluster: Document, effects: tuple[str, ...]) -> Document:
    taints = cluster["spec"].get("taints") or ()
    kept = [taint for taint in taints if taint["effect"] not in effects]
    return cluster if len(kept) == len(taints) else {**cluster, "spec": {**cluster["spec"], "taints": kept}}


def _agrees_but_for_clearing(expect: Document, result: Document) -> bool:
    """Test whether the only difference is that the original clears the targets when no cluster fits."""
    binding = expect["binding"]
    if binding["scheduledConditionReason"] != NO_CLUSTER_FIT or binding["clusters"]:
        return False
    kept = {**result["binding"], "clusters": {}}
    return _algorithm_agrees(expect["algorithm"], result["algorithm"]) and _binding_agrees(binding, kept)

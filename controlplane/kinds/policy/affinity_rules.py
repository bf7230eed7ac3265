"""Validation of cluster affinities and tolerations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.apimachinery.causes import invalid, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import label_key_errors, selector_errors
from controlplane.kinds.cluster import EFFECTS
from controlplane.kinds.policy import ClusterAffinity, ClusterAffinityTerm, Placement, Toleration

FIELD_KEYS = ("provider", "region", "zone")
FIELD_OPERATORS = ("In", "NotIn")
TOLERATION_OPERATORS = ("", "Exists", "Equal")
MAX_AFFINITY_NAME = 32


def affinity(choice: ClusterAffinity, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse a cluster affinity; `path` is its path."""
    if choice.label_selector is not None:
        for field, rule in selector_errors(choice.label_selector):
            yield invalid(f"{path}.labelSelector.{field}", choice.label_selector, rule)
    if choice.field_selector is None:
        return
    for requirement in choice.field_selector.match_expressions:
        if requirement.key not in FIELD_KEYS:
            rule = f'unsupported key "{requirement.key}", must be provider, region, or zone'
            yield invalid(f"{path}.fieldSelector", choice.field_selector, rule)
        if requirement.operator not in FIELD_OPERATORS:
            rule = f'unsupported operator "{requirement.operator}", must be In or NotIn'
            yield invalid(f"{path}.fieldSelector", choice.field_selector, rule)


def affinities(placement: Placement, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse the affinities of a placement."""
    if placement.cluster_affinity is not None:
        yield from affinity(placement.cluster_affinity, f"{path}.clusterAffinity")
        if placement.cluster_affinities:
            yield invalid(path, "clusterAffinities", "clusterAffinities cannot co-exist with clusterAffinity: keep one")
    names: set[str] = set()
    for index, term in enumerate(placement.cluster_affinities):
        term_path = f"{path}.clusterAffinities[{index}]"
        for rule in _name_errors(term.affinity_name):
            yield invalid(term_path, term.affinity_name, rule)
        if term.affinity_name in names:
            rule = "each affinity term in a policy must have a unique name"
            yield invalid(f"{path}.clusterAffinities", term.affinity_name, rule)
        names.add(term.affinity_name)
        yield from affinity(term, term_path)
        yield from _overflow(term, placement, term_path)


def _overflow(term: ClusterAffinityTerm, placement: Placement, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse the overflow affinities of a term."""
    if not term.overflow_affinities:
        return
    field = f"{path}.overflowAffinities"
    if not _counts_capacity(placement):
        rule = "overflowAffinities can only be used together with dynamic weight or aggregated scheduling"
        yield invalid(field, len(term.overflow_affinities), rule)
    if not (term.cluster_names or term.label_selector or term.field_selector or term.exclude):
        yield invalid(field, len(term.overflow_affinities), "the term itself must choose clusters to overflow from")
    names = {term.affinity_name}
    for index, overflow in enumerate(term.overflow_affinities):
        overflow_path = f"{field}[{index}]"
        for rule in _name_errors(overflow.affinity_name):
            yield invalid(overflow_path, overflow.affinity_name, rule)
        if overflow.affinity_name in names:
            yield invalid(
                field,
                overflow.affinity_name,
                "must differ from the names of the term and of its other overflow affinities",
            )
        names.add(overflow.affinity_name)
        yield from affinity(overflow, overflow_path)


def _counts_capacity(placement: Placement) -> bool:
    strategy = placement.replica_scheduling
    if strategy is None or not placement.divided:
        return False
    weights = strategy.weight_preference
    return strategy.replica_division_preference == "Aggregated" or (
        weights is not None and bool(weights.dynamic_weight)
    )


def _name_errors(name: str) -> list[str]:
    errors = label_key_errors(name)
    if len(name) > MAX_AFFINITY_NAME:
        errors.append(f"must be no more than {MAX_AFFINITY_NAME} characters")
    return errors


def tolerations(listed: Sequence[Toleration], path: str) -> Iterator[Cause]:
    """Yield the causes to refuse tolerations. The operators Lt and Gt of newer Kubernetes are not supported."""
    for index, toleration in enumerate(listed):
        field = f"{path}[{index}]"
        if toleration.operator not in TOLERATION_OPERATORS:
            yield unsupported(f"{field}.operator", toleration.operator, TOLERATION_OPERATORS)
        if toleration.effect and toleration.effect not in EFFECTS:
            yield unsupported(f"{field}.effect", toleration.effect, EFFECTS)
        if toleration.key:
            for rule in label_key_errors(toleration.key):
                yield invalid(f"{field}.key", toleration.key, rule)
        elif toleration.operator != "Exists":
            yield invalid(
                f"{field}.operator",
                toleration.operator,
                "must be Exists if key is empty: such a toleration tolerates every taint",
            )

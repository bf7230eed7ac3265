"""Validation of spread constraints [spread-constraints].

A constraint that can never be met is refused, as far as the placement alone shows it: because the placement names fewer
clusters or regions than the constraint requires. Only the scheduler knows which clusters exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controlplane.apimachinery.causes import invalid, repeated, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.policy import ClusterAffinity, ClusterAffinityTerm, Placement, SpreadConstraint

CLUSTER, REGION = "cluster", "region"
FIELDS = (CLUSTER, REGION, "zone", "provider")


def spreads(placement: Placement, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse the spread constraints of a placement; `path` is their path.

    Whether they can be met together is checked only if each of them is valid.
    """
    causes = list(_malformed(placement, path))
    yield from causes
    if not causes and not placement.ignores_spread:
        yield from _never_met(placement, path)


def _malformed(placement: Placement, path: str) -> Iterator[Cause]:
    for index, constraint in enumerate(placement.spread_constraints):
        yield from _alone(constraint, f"{path}[{index}]")
    fields = [constraint.spread_by_field for constraint in placement.spread_constraints if constraint.spread_by_field]
    for name in sorted({fields[place] for place in repeated(fields)}):
        yield invalid(path, fields, f"multiple {name} spread constraints are not allowed")
    if fields and CLUSTER not in fields:
        yield invalid(path, fields, "one of the constraints must spread by cluster where any spreads by a field")


def _alone(constraint: SpreadConstraint, path: str) -> Iterator[Cause]:
    if constraint.spread_by_field and constraint.spread_by_label:
        yield invalid(path, constraint, "spreadByLabel should not co-exist with spreadByField")
    if constraint.spread_by_field and constraint.spread_by_field not in FIELDS:
        yield unsupported(f"{path}.spreadByField", constraint.spread_by_field, FIELDS)
    if constraint.spread_by_label and not constraint.spread_by_field:
        rule = "the scheduler cannot spread by labels: use spreadByField, with cluster or region"
        yield invalid(f"{path}.spreadByLabel", constraint.spread_by_label, rule)
    if constraint.min_groups < 0:
        yield invalid(path, constraint, "minGroups lower than 0 is not allowed")
    if constraint.max_groups < 0:
        yield invalid(path, constraint, "maxGroups lower than 0 is not allowed")
    elif 0 < constraint.max_groups < constraint.min_groups:
        yield invalid(path, constraint, "maxGroups lower than minGroups is not allowed")


def _never_met(placement: Placement, path: str) -> Iterator[Cause]:
    """Yield the numbers no fleet can satisfy. Zones and providers do not choose clusters: theirs do not matter."""
    places = {
        constraint.spread_by_field: f"{path}[{index}]" for index, constraint in enumerate(placement.spread_constraints)
    }
    by_field = {constraint.spread_by_field: constraint for constraint in placement.spread_constraints}
    by_cluster, by_region = by_field.get(CLUSTER), by_field.get(REGION)
    choosing = by_region or by_cluster
    if choosing is not None and choosing.max_groups == 0:
        field = f"{places[choosing.spread_by_field]}.maxGroups"
        yield required(field, f"without it no {choosing.spread_by_field} is chosen; set it to minGroups or more")
    clusters, regions = _most(placement, _named), _most(placement, _regions)
    if by_cluster is not None and clusters is not None and by_cluster.min_groups > clusters:
        rule = f"can never be met: the placement names {clusters} clusters; name more, or lower minGroups"
        yield invalid(f"{places[CLUSTER]}.minGroups", by_cluster.min_groups, rule)
    if by_region is None:
        return
    for most, what in ((clusters, "clusters"), (regions, "regions")):
        if most is not None and by_region.min_groups > most:
            rule = f"can never be met: the placement names {most} {what}; name more, or lower minGroups"
            yield invalid(f"{places[REGION]}.minGroups", by_region.min_groups, rule)


def exceeded(placement: Placement, path: str) -> Iterator[str]:
    """Yield a warning if the constraint on regions needs more clusters than the constraint on clusters allows.

    The scheduler chooses a cluster of every chosen region, as in Karmada, and so more clusters than maxGroups.
    """
    by_field = {
        constraint.spread_by_field: (index, constraint) for index, constraint in enumerate(placement.spread_constraints)
    }
    if placement.ignores_spread or CLUSTER not in by_field or REGION not in by_field:
        return
    (index, by_cluster), (_, by_region) = by_field[CLUSTER], by_field[REGION]
    if 0 < by_cluster.max_groups < by_region.min_groups:
        yield (
            f"{path}[{index}].maxGroups is {by_cluster.max_groups}, but {by_region.min_groups} regions are required: "
            "one cluster of each region is chosen, which is more than maxGroups; raise maxGroups"
        )


def _most(placement: Placement, names: Callable[[ClusterAffinity], frozenset[str] | None]) -> int | None:
    """Return the maximum number of clusters or regions that a placement can choose; None: it sets no limit.

    `names` returns the names that an affinity lists. The maximum is that of the term with the most names, including its
    overflow affinities.
    """
    terms = placement.cluster_affinities or ((placement.cluster_affinity or ClusterAffinity()),)
    most = 0
    for term in terms:
        further = term.overflow_affinities if isinstance(term, ClusterAffinityTerm) else ()
        name_sets = [names(affinity) for affinity in (term, *further)]
        bounded = [name_set for name_set in name_sets if name_set is not None]
        if len(bounded) < len(name_sets):
            return None
        most = max(most, len(frozenset().union(*bounded)))
    return most


def _named(affinity: ClusterAffinity) -> frozenset[str] | None:
    return frozenset(affinity.cluster_names) - frozenset(affinity.exclude) if affinity.cluster_names else None


def _regions(affinity: ClusterAffinity) -> frozenset[str] | None:
    regions: frozenset[str] | None = None
    for requirement in () if affinity.field_selector is None else affinity.field_selector.match_expressions:
        if requirement.key == REGION and requirement.operator == "In":
            regions = frozenset(requirement.values) if regions is None else regions & frozenset(requirement.values)
    return regions

"""The table of clusters and filters: what every filter says about every cluster for one binding, on a fleet as it is.

A stored note has only the first filter that refused a cluster. This table has all of them, so that a reader sees what
would still be in the way after the first obstacle is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from controlplane.kinds.policy import ClusterAffinityTerm
from controlplane.scheduling.cluster_arrays import Fleet, Mask
from controlplane.scheduling.filters import FILTERS, Filter
from controlplane.scheduling.placement_plan import Plan, plan_of
from controlplane.scheduling.question import Question

PASSES, REFUSES, KEEPS, UNASKED = "Passes", "Refuses", "Keeps", "Unasked"
"""What a filter says: the cluster passes; it is refused; it would be refused for a new copy, but the binding is on it
already; the filter does not concern this binding."""
COLUMNS: Final = tuple(dict.fromkeys(row.name for row in FILTERS))
"""The names of the filters in their order. Rows of FILTERS with the same name share a column."""


class Cell(NamedTuple):
    """What a filter says about a cluster. `why` "": it passes, or it was not asked."""

    says: str
    why: str = ""


_PASSES, _UNASKED = Cell(PASSES), Cell(UNASKED)  # most cells of a table of all clusters


class ClusterRow(NamedTuple):
    """What the filters say about one cluster; `cells` are in the order of COLUMNS.

    `feasible`: no filter refuses it. `replicas`: those of the binding on it; None: the binding is not on it.
    """

    name: str
    cells: tuple[Cell, ...]
    feasible: bool
    replicas: int | None = None


class FilterTable(NamedTuple):
    """The rows of all clusters under one affinity term. `affinity_name` "": the placement has no named terms."""

    affinity_name: str
    term_count: int
    rows: tuple[ClusterRow, ...]


def filter_table(fleet: Fleet, question: Question, *, term: int | None = None) -> FilterTable:
    """Return the table for a binding. `term`: position of the affinity term; None: the term that is tried first."""
    terms = question.placement.cluster_affinities
    place = question.first_term if term is None or not 0 <= term < len(terms) else term
    plan = plan_of(fleet, question.placement, place, workload=question.workload)
    masks = [(row, row.mask(plan, question)) for row in FILTERS]
    targets = dict(question.targets)
    rows = tuple(
        _cluster_row(plan, question, masks, position, targets.get(name)) for position, name in enumerate(fleet.names)
    )
    name = plan.term.affinity_name if isinstance(plan.term, ClusterAffinityTerm) else ""
    return FilterTable(name, max(1, len(terms)), rows)


def _cluster_row(
    plan: Plan, question: Question, masks: list[tuple[Filter, Mask | None]], position: int, replicas: int | None
) -> ClusterRow:
    cells: dict[str, Cell] = {}
    for name, cell in _cells(plan, question, masks, position, is_target=replicas is not None):
        if name not in cells or _ORDER.index(cell.says) < _ORDER.index(cells[name].says):
            cells[name] = cell
    feasible = all(cell.says != REFUSES for cell in cells.values())
    return ClusterRow(plan.fleet.names[position], tuple(cells[name] for name in COLUMNS), feasible, replicas)


_ORDER: Final = (REFUSES, KEEPS, PASSES, UNASKED)  # which of two filters with the same name is shown


def _cells(
    plan: Plan, question: Question, masks: list[tuple[Filter, Mask | None]], position: int, *, is_target: bool
) -> Iterator[tuple[str, Cell]]:
    for row, mask in masks:
        if mask is None:
            yield row.name, _UNASKED
        elif mask[position]:
            yield row.name, _PASSES
        else:
            says = KEEPS if is_target and row.keeps_targets else REFUSES
            yield row.name, Cell(says, row.why(plan, question, position))

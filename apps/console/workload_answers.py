"""What the page of a workload answers: why it is where it is, what each filter says, and what if a cluster failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.insight import readiness as insight
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.kinds.binding import Binding
from controlplane.kinds.obstacle import Obstacle
from controlplane.kinds.rows import Eviction
from controlplane.scheduling import placement_explanation
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.filter_table import COLUMNS, KEEPS, REFUSES, ClusterRow, FilterTable, filter_table
from controlplane.scheduling.placement_explanation import PlacementExplanation
from controlplane.scheduling.question import question_of
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import Settings


class Prospect(NamedTuple):
    """What would become of the copy on a cluster if the cluster failed now. `text` "": the obstacles say it."""

    cluster: str
    moves: bool
    text: str
    obstacles: tuple[Obstacle, ...]


class TableRow(NamedTuple):
    """A cluster of the table of filters: the cells of the shown filters, and the sentence of the last decision."""

    row: ClusterRow
    cells: tuple[Any, ...]
    sentence: str


def explained(
    explanation: PlacementExplanation | None,
    binding: Binding,
    situation: Situation,
    settings: Settings,
    *,
    fleet: Fleet,
    term: int | None,
) -> dict[str, Any]:
    """Return the variables about the last decision, and about what each filter says now."""
    sentences = {} if explanation is None else {one.name: one.sentence for one in explanation.clusters}
    shown: dict[str, Any] = {"explanation": explanation, "headline": "", "filters": (), "table": (), "terms": ()}
    if explanation is not None:
        shown["headline"] = placement_explanation.headline(explanation)
    if binding.spec.placement is None:
        return shown
    neighbours = WorkloadGroups(situation.groups).seen_by(binding)
    question = question_of(
        binding.spec,
        binding.status,
        settings=settings,
        neighbours=neighbours,
        left=left_for_taints(binding, fleet),
    )
    found = filter_table(fleet, question, term=term)
    places = [place for place, _ in enumerate(COLUMNS) if _is_relevant(found, place)]
    shown["filters"] = [COLUMNS[place] for place in places]
    shown["passed"] = [name for place, name in enumerate(COLUMNS) if place not in places]
    shown["table"] = [
        TableRow(row, tuple(row.cells[place] for place in places), sentences.get(row.name, ""))
        for row in sorted(found.rows, key=lambda row: (row.replicas is None, not row.feasible, row.name))
    ]
    shown["term"] = found.affinity_name
    shown["terms"] = [
        (place, each.affinity_name) for place, each in enumerate(binding.spec.placement.cluster_affinities)
    ]
    return shown


def _is_relevant(table: FilterTable, place: int) -> bool:
    """Test whether a filter refuses a cluster, or keeps a copy that it would refuse to start."""
    return any(row.cells[place].says in (REFUSES, KEEPS) for row in table.rows)


def prospects(
    binding: Binding,
    situation: Situation,
    settings: Settings,
    queued: Sequence[Eviction],
    *,
    fleet: Fleet,
    now: datetime,
) -> dict[str, Any]:
    """Return the variables about what would happen if each cluster of the binding failed."""
    outlook = FailureOutlook(situation, settings, fleet=fleet, now=now)
    answer = insight.readiness(binding, outlook, rows=queued)
    found = []
    for one in answer.prospects:
        here = tuple(obstacle for obstacle in answer.obstacles if obstacle.cluster == one.cluster)
        is_repeated = any(one.refuge in obstacle.message for obstacle in here) and not one.moves
        found.append(Prospect(one.cluster, one.moves, "" if is_repeated else _prospect_text(one), here))
    general = [obstacle for obstacle in answer.obstacles if not obstacle.cluster]
    return {"ready": answer.ready, "prospects": found, "obstacles": general}


def _prospect_text(found: insight.Prospect) -> str:
    after = "" if found.after_seconds is None else f"{found.after_seconds:g} s after the taint: "
    waits = f"; new copies wait for {found.waits_for}" if found.waits_for else ""
    return f"{after}{found.refuge}{waits}" if found.moves else found.refuge

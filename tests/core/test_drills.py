"""Drills as documents: what is admitted, and which verdicts follow from what was measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.admission.admit import admit_create, admit_update
from controlplane.admission.state_checks import check_write
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.drills import Drills, DrillSnapshot
from controlplane.engine.decision import Put
from controlplane.engine.memory import MemoryStore
from controlplane.insight.drill_report import Measured, report, verdicts
from controlplane.kind import KINDS
from controlplane.kinds.drill import DRAIN, DRILL, MOST_SIMULATED, SIMULATED, Drill, DrillCriteria, DrillSpec
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster
from tests.builders.placements import duplicated

NOW = datetime(2026, 3, 1, 2, 36, 26, tzinfo=UTC)


def document(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Drill", "metadata": {"name": "gameday"}}
    return {**head, "spec": {"clusters": ["member1"], **spec}}


def refused(**spec: Any) -> set[str]:
    """Return the fields for which a drill is refused."""
    with pytest.raises(Invalid) as error:
        admit_create(KINDS[DRILL], document(**spec), namespace="", settings=Settings(), now=NOW, uid="u")
    return {cause.field for cause in error.value.details.causes}


def test_a_drill_is_refused_for_everything_wrong_at_once() -> None:
    criteria = {"maxDurationSeconds": 0, "maxWithoutPlace": -1, "minHealthyCopies": -1}

    assert refused(mode="Burn", clusters=[], rate=0, namespaces=["no good"], criteria=criteria) == {
        *("spec.mode", "spec.clusters", "spec.rate", "spec.namespaces[0]", "spec.criteria.maxDurationSeconds"),
        *("spec.criteria.maxWithoutPlace", "spec.criteria.minHealthyCopies"),
    }
    assert refused(selector={"matchLabels": {"app": "not a value"}}) == {"spec.selector.matchLabels"}


def test_only_stop_of_a_drill_changes_and_only_once() -> None:
    old = admit_create(KINDS[DRILL], document(), namespace="", settings=Settings(), now=NOW, uid="u").object
    halted = admit_update(KINDS[DRILL], document(stop=True), old, settings=Settings(), now=NOW).object

    for spec, live in (({"clusters": ["member2"]}, old), ({"stop": False}, halted)):
        with pytest.raises(Invalid):
            admit_update(KINDS[DRILL], document(**spec), live, settings=Settings(), now=NOW)
    assert halted.spec.stop


@pytest.mark.parametrize(
    ("mode", "measured", "failed"),
    [
        (DRAIN, Measured(60, (), 0, 1), set()),
        (DRAIN, Measured(60.4, (), 0, 1), {"maxDurationSeconds"}),
        (DRAIN, Measured(10, (), 2, 0), {"maxWithoutPlace", "minHealthyCopies"}),
        (DRAIN, Measured(10, (), 1, None), set()),
        (SIMULATED, Measured(10, (), 1, 0), set()),
        (SIMULATED, Measured(None, (), 0, None, "the tier is Stopped"), {"maxDurationSeconds"}),
    ],
)
def test_a_criterion_is_met_or_not(mode: str, measured: Measured, failed: set[str]) -> None:
    spec = DrillSpec(mode, ("member1",), criteria=DrillCriteria(60, 1, 1))

    assert {one.criterion for one in verdicts(spec, measured) if not one.passed} == failed


def test_a_simulated_drill_of_too_many_workloads_ends_with_what_to_do_instead() -> None:
    drill = Drill("failover.lifeboat.io/v1alpha1", "Drill", ObjectMeta(name="all"), DrillSpec(SIMULATED, ("member1",)))

    decision = Drills().decide(DrillSnapshot(drill, too_many=True), Settings(), now=NOW)

    (put,) = decision.changes
    assert isinstance(put, Put)
    assert isinstance(put.new, Drill)
    assert (put.new.status.phase, put.new.status.result) == ("Stopped", "")
    assert "lifeboat whatif" in put.new.status.message


def test_a_simulated_drill_of_too_many_workloads_is_refused_when_it_is_created() -> None:
    store = MemoryStore()
    on = {"member1": 1}
    store.create(
        cluster("member1"), *(binding(f"web{number}", duplicated(), on=on) for number in range(MOST_SIMULATED))
    )
    drill = Drill("failover.lifeboat.io/v1alpha1", "Drill", ObjectMeta(name="all"), DrillSpec(SIMULATED, ("member1",)))
    check_write(store, KINDS[DRILL], drill, None, Settings(), now=NOW)

    store.create(binding("more", duplicated(), on=on))

    with pytest.raises(Invalid, match="at most 2000 workloads, and these clusters have more: choose fewer clusters"):
        check_write(store, KINDS[DRILL], drill, None, Settings(), now=NOW)


def test_a_report_says_in_a_sentence_what_was_not_met() -> None:
    spec = DrillSpec(DRAIN, ("member1", "member2"), criteria=DrillCriteria(60, 0, 0))
    drill = Drill("failover.lifeboat.io/v1alpha1", "Drill", ObjectMeta(name="gameday"), spec)
    drill = replace(drill, status=replace(drill.status, workloads=5, moved=4))

    found = report(drill, Measured(30, (), 1), now=NOW)

    wanted = "Failed: 4 of 5 workloads left member1, member2 in 30 s; 1 workload without a place, at most 0"
    assert (found.result, found.message) == ("Failed", wanted)
    assert found.finish_time == NOW

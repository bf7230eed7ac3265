"""The copies of a binding: their roles, their health, and what is only known from before an outage."""

from __future__ import annotations

from datetime import timedelta

from controlplane.apimachinery.meta import Condition
from controlplane.insight.copies import LEAVING, LEFT_BEHIND, NEEDED, TARGET, copies
from controlplane.kinds.binding import AggregatedStatusItem, BindingSnapshot, TargetCluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import APPLIED, Work
from tests.builders import objects
from tests.builders.objects import START, binding, leaving

LATER = START + timedelta(minutes=4)


def work(cluster: str, applied: str = "True", message: str = "") -> Work:
    return objects.work(on=cluster, conditions=(Condition(APPLIED, applied, "Test", message),))


def test_each_copy_says_why_it_is_where_it_is() -> None:
    needs = BindingSnapshot("default", "app", (TargetCluster("member4"),))
    made = binding("web", None, on={"member1": 2}).with_spec(
        graceful_eviction_tasks=(leaving("member2"),), required_by=(needs,)
    )

    found = {copy.cluster: copy for copy in copies(made, [work("member3")])}

    assert {name: copy.role for name, copy in found.items()} == {
        "member1": TARGET,
        "member2": LEAVING,
        "member3": LEFT_BEHIND,
        "member4": NEEDED,
    }
    assert found["member2"].task == leaving("member2")
    assert next(iter(found)) == "member1"


def test_a_copy_is_as_old_as_the_last_answer_of_its_cluster() -> None:
    item = AggregatedStatusItem("member1", {"readyReplicas": 2}, applied=True, health="Healthy")
    made = binding("web", None, on={"member1": 2}).with_status(aggregated_status=(item,))

    (found,) = copies(made, observations={"member1": Observation("member1", answered_at=LATER)})

    assert (found.health, found.ready, found.as_of, found.is_last_known) == ("Healthy", 2, LATER, False)
    assert found.applied == "True"


def test_a_copy_on_a_cluster_out_of_reach_is_last_known_since_then() -> None:
    lost = AggregatedStatusItem(
        "member1", {"readyReplicas": 2}, True, health="Unknown", last_known_health="Healthy", out_of_reach_since=LATER
    )
    made = binding("web", None, on={"member1": 2}).with_status(aggregated_status=(lost,))

    (found,) = copies(made, observations={"member1": Observation("member1", answered_at=START)})

    assert (found.is_last_known, found.as_of, found.health) == (True, LATER, "Healthy")


def test_a_copy_that_should_be_gone_is_last_known_as_well_while_its_cluster_is_out_of_reach() -> None:
    made = binding("web", None, on={"member1": 2})

    kept, gone = copies(
        made,
        [work("member1"), work("member2")],
        observations={"member2": Observation("member2", answered_at=START)},
        out_of_reach={"member2": LATER},
    )

    assert (kept.cluster, kept.is_last_known) == ("member1", False)
    assert (gone.role, gone.is_last_known, gone.as_of) == (LEFT_BEHIND, True, LATER)


def test_a_work_that_was_refused_says_why_and_a_copy_without_a_report_says_nothing() -> None:
    made = binding("web", None, on={"member1": 2, "member2": 2}, scheduled=False)

    first, second = copies(made, [work("member1", "False", "quota exceeded")])

    assert (first.applied, first.message, first.health) == ("False", "quota exceeded", "")
    assert (second.applied, second.health, second.ready, second.as_of) == ("", "", None, None)

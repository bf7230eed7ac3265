"""Where a waiting copy would go is what the eviction would find."""

from __future__ import annotations

from controlplane.eviction.refuge import Refuge
from controlplane.insight.destinations import destinations
from controlplane.insight.failure_outlook import Situation
from controlplane.kinds.binding import Binding
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster, eviction
from tests.builders.placements import duplicated

ONE = duplicated(least=1, most=1)


def asked(
    made: Binding, *leaving: str, names: tuple[str, ...] = ("member1", "member2", "member3")
) -> dict[str, Refuge]:
    rows = [eviction(made, name) for name in leaving]
    situation = Situation(tuple(cluster(name) for name in names))
    return destinations(rows[:1], {made.ref: made}, {str(made.ref): rows}, situation, Settings())


def test_a_copy_goes_where_the_scheduler_would_place_it() -> None:
    (found,) = asked(binding("web", ONE, on={"member1": 2}), "member1").values()

    assert found.found
    assert [target.name for target in found.clusters] == ["member2"]


def test_a_copy_that_nothing_else_takes_goes_nowhere_and_the_reason_is_given() -> None:
    (found,) = asked(binding("web", duplicated("member1", least=1, most=1), on={"member1": 2}), "member1").values()

    assert not found.found
    assert "clusterAffinity does not select it" in found.why


def test_a_cluster_that_the_binding_leaves_as_well_is_no_destination() -> None:
    made = binding("web", duplicated(least=1, most=2), on={"member1": 2, "member2": 2})

    (found,) = asked(made, "member1", "member2").values()

    assert [target.name for target in found.clusters] == ["member3"]


def test_a_copy_that_has_left_has_no_destination() -> None:
    made = binding("web", ONE, on={"member2": 2})

    assert asked(made, "member1") == {}

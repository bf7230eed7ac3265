"""What an eviction by a taint carries over to the new copy, and from which copy [state-preservation]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.eviction.state_preservation import PreservedState, preserved_state, read_state
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    ClusterFailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from controlplane.settings import GATES, Settings
from tests.builders.objects import binding
from tests.builders.placements import duplicated

RULES = (StatePreservationRule("job", "{.jobID}"),)
ON = Settings(feature_gates={**GATES, "StatefulFailoverInjection": True})
OFF = replace(ON, feature_gates={**GATES, "StatefulFailoverInjection": False})


def reporting(*clusters: str, mode: str = DIRECTLY, targets: int = 1) -> Binding:
    """A binding on this many clusters. Each copy reports its cluster as its job."""
    behaviour = ClusterFailoverBehavior(purge_mode=mode, state_preservation=StatePreservation(RULES))
    items = tuple(AggregatedStatusItem(name, status={"jobID": f"of-{name}"}) for name in clusters)
    one = binding("web", duplicated(), failover=behaviour).with_status(aggregated_status=items)
    return one.with_spec(clusters=tuple(TargetCluster(f"b{number or ''}", 1) for number in range(targets)))


@pytest.mark.parametrize(
    ("one", "settings", "carried"),
    [
        (reporting("b"), ON, True),
        (reporting("b"), OFF, False),
        (reporting("b", mode=GRACEFULLY), ON, False),  # both copies would have the state
        (reporting("b", targets=0), ON, False),
        (reporting("b", targets=2), ON, False),  # no copy has the state of all
    ],
)
def test_state_leaves_with_the_only_copy_that_is_removed_first(
    one: Binding, settings: Settings, *, carried: bool
) -> None:
    assert preserved_state(one, "b", settings).labels == ({"job": "of-b"} if carried else {})


@pytest.mark.parametrize("clusters", [("b",), ("a", "b", "c"), ("c", "b", "a")])
def test_the_status_of_another_copy_is_not_read(clusters: tuple[str, ...]) -> None:
    assert read_state(reporting(*clusters), "b", RULES) == PreservedState({"job": "of-b"})


def test_a_copy_without_a_status_has_no_state() -> None:
    found = read_state(reporting("a", "c"), "b", RULES)

    assert found == PreservedState({}, "job: no status was ever collected from the cluster")

"""Which statuses the operators of a ClusterTaintPolicy match [taint-policies]."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.clusters.taint_policies import holds
from controlplane.kinds.taint_policy import MatchCondition
from controlplane.kinds.taint_policy.rules import OPERATORS, STATUSES

# Operators: the values that users write beside them, and the statuses that then match
MATCHING = {
    "In": (("False", "Unknown"), {"False", "Unknown"}),
    "NotIn": (("False", "Unknown"), {"True"}),
    "Is": (("True",), set()),  # no operator: stored by an older or newer version
}


@pytest.mark.parametrize("operator", MATCHING)
def test_an_operator_matches_these_statuses_and_never_a_condition_that_is_absent(operator: str) -> None:
    values, matching = MATCHING[operator]
    rule = MatchCondition("Broken", operator, values)

    assert {status for status in STATUSES if holds(rule, (Condition("Broken", status),))} == matching
    assert not holds(rule, ())


def test_every_operator_has_a_row() -> None:
    assert set(OPERATORS) <= set(MATCHING), "add the statuses that the new operator matches to MATCHING above"

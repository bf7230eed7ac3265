"""A template is compared with the override policies of the fleet and of its namespace, not with those of all others."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from controlplane.controllers.reads.override_policies import policies_of
from controlplane.engine.memory import MemoryStore
from controlplane.propagation import overrides
from tests.builders.objects import START
from tests.builders.templates import deployment, namespace
from tests.core.test_overrides import label

COMPARED: CodeType = overrides.may_select.__code__


def compared(teams: int) -> int:
    """Return with how many policies the templates of a batch are compared: one of each team, which has two policies."""
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*(label(name, "x", namespace=f"team-{one}") for one in range(teams) for name in ("a", "b")))
    found = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_code is COMPARED

    before = sys.getprofile()
    sys.setprofile(count)
    policies_of(store, [deployment(namespace=f"team-{one}") for one in range(teams)])
    sys.setprofile(before)
    return found


def test_a_batch_costs_twice_as_much_for_twice_as_many_teams() -> None:
    assert [compared(teams) for teams in (20, 40)] == [40, 80]


def test_policies_of_the_fleet_come_before_those_of_the_namespace() -> None:
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*(label(name, "x", namespace=place) for name in ("a", "b") for place in ("", "shop", "other")))
    shop, whole = deployment(namespace="shop"), namespace("shop")

    found = policies_of(store, [shop, whole])

    listed = {ref: [(one.metadata.namespace, one.metadata.name) for one in ones] for ref, ones in found.items()}
    assert listed == {
        shop.ref: [("", "a"), ("", "b"), ("shop", "a"), ("shop", "b")],
        whole.ref: [("", "a"), ("", "b")],
    }

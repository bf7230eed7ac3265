"""A template is compared with the policies that may select it, and the policies of other namespaces are not read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.policies import Policies
from controlplane.controllers.reads import selecting_policies
from controlplane.controllers.reads.policy_edits import policy_edits
from controlplane.engine.memory import MemoryStore
from controlplane.kinds import POLICIES
from controlplane.kinds.policy import Policy
from tests.builders.objects import START, policy
from tests.builders.templates import config_map, deployment

TEAMS = 40


class Reading(MemoryStore):
    """A store that counts the policies that are read whole."""

    policies = 0

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        found = super().get(refs, unopened=unopened)
        self.policies += sum(ref.kind in POLICIES for ref in found)
        return found

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        found = super().by_index(kind, index, values, limit=limit)
        self.policies += sum(len(listed) for listed in found.values()) if kind in POLICIES else 0
        return found


def fleet(teams: int) -> Reading:
    """Return a store in which each team has two policies for all its Deployments, and the fleet has one."""
    store = Reading(controllers=[], clock=lambda: START)
    own = [policy(name, namespace=f"team-{number}") for number in range(teams) for name in ("all", "more")]
    store.create(*own, policy("fleet", namespace=""), deployment("web", namespace="team-0"))
    return store


def test_a_change_of_one_template_reads_as_many_policies_in_a_fleet_of_forty_teams_as_of_one() -> None:
    read = {}
    for teams in (1, TEAMS):
        store = fleet(teams)
        Policies().load(store, [deployment("web", namespace="team-0").ref])
        read[teams] = store.policies

    assert read == {1: 3, TEAMS: 3}


def test_what_if_about_a_policy_reads_no_policies_of_other_teams() -> None:
    store = fleet(TEAMS)
    edited = policy("all", namespace="team-0")

    found = policy_edits(store, {edited.ref: edited}, ())

    assert {ref.name for ref in found.policies} == {"all", "more", "fleet"}
    assert store.policies == 3


@pytest.mark.parametrize("page", [1, 7, 5000])
def test_all_policies_that_may_select_one_of_the_templates_are_found(
    monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(selecting_policies, "PAGE", page)
    store = fleet(TEAMS)
    templates = [deployment("web", namespace="team-3"), deployment("web", namespace="team-17"), config_map()]

    found = selecting_policies.selecting_policies(store, templates)

    assert {value: sorted(map(_place, listed)) for value, listed in found.items()} == {
        "apps/v1/Deployment": [("", "fleet"), *((f"team-{n}", name) for n in (17, 3) for name in ("all", "more"))],
        "v1/ConfigMap": [],
    }
    assert selecting_policies.selecting_policies(store, []) == {}


def _place(one: Policy) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name

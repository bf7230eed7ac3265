"""A changed rule for a kind reads what is of that kind, and not the whole fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.interpreted_bindings import bindings_of_kind
from controlplane.engine.memory import MemoryStore
from controlplane.kinds import INTERPRETER_CUSTOMIZATION
from controlplane.kinds.interpreter_webhook import ALL
from controlplane.kinds.policy import ResourceSelector
from controlplane.propagation.bindings import binding_ref
from tests.builders.objects import DEPLOYMENTS, START, policy
from tests.builders.templates import config_map, deployment
from tests.core.propagation_story import Story

WEBS, SETTINGS = 40, 3


class Reading(MemoryStore):
    """A store that counts the objects that are read."""

    read = 0

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        found = super().get(refs, unopened=unopened)
        self.read += len(found)
        return found

    def list(self, kind: str, **where: Any) -> Sequence[Any]:
        found = super().list(kind, **where)
        self.read += len(found)
        return found


@pytest.fixture(scope="module")
def objects() -> list[Any]:
    """A fleet with many Deployments, some ConfigMaps and their bindings, and a ConfigMap that nothing places."""
    webs = [deployment(f"web-{number}") for number in range(WEBS)]
    placed = [config_map(f"settings-{number}") for number in range(SETTINGS)]
    story = Story(policy("all", DEPLOYMENTS, ResourceSelector("v1", "ConfigMap")), *webs, *placed)
    story.add(config_map("alone", namespace="kube-public"))
    return list(story.store.objects.values())


def walked(store: MemoryStore, kind: str, *, limit: int, cursor: str = "") -> list[Ref]:
    """Return the bindings that a fan-out of changed rules for a kind reaches, page by page."""
    found: list[Ref] = []
    after: str | None = cursor
    while after is not None:
        page, after = bindings_of_kind(store, Ref(INTERPRETER_CUSTOMIZATION, "", kind), after=after, limit=limit)
        found += [binding.ref for binding in page]
    return found


def stored(objects: list[Any]) -> Reading:
    store = Reading(controllers=[], clock=lambda: START)
    store.create(*objects)
    return store


def test_a_rule_for_three_objects_does_not_read_the_bindings_of_the_fleet(objects: list[Any]) -> None:
    store = stored(objects)

    found = walked(store, "ConfigMap", limit=2000)

    assert found == [binding_ref(config_map(f"settings-{number}").ref) for number in range(SETTINGS)]
    assert store.read == 2 * SETTINGS + 1


@pytest.mark.parametrize("limit", [1, 2, 3, 2000])
@pytest.mark.parametrize("cursor", ["", "0|default/settings-1-configmap", "1|"], ids=["new", "earlier version", "late"])
def test_each_binding_of_the_kind_is_reached_once(objects: list[Any], limit: int, cursor: str) -> None:
    """A fan-out that an earlier version has begun starts again: it had read bindings, not templates."""
    found = walked(stored(objects), "apps/Deployment", limit=limit, cursor=cursor)

    assert sorted(found) == sorted(binding_ref(deployment(f"web-{number}").ref) for number in range(WEBS))


def test_a_rule_for_all_kinds_concerns_all_bindings(objects: list[Any]) -> None:
    assert len(walked(stored(objects), ALL, limit=7)) == WEBS + SETTINGS

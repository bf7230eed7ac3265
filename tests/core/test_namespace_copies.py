"""A cluster that joins gets all Namespaces, and the copies on the other clusters are not read for that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.namespaces import COPY, Namespaces
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_until_idle
from controlplane.kinds import WORK
from controlplane.kinds.work import Work
from controlplane.settings import Settings
from tests.builders.objects import START, cluster
from tests.builders.templates import namespace
from tests.core.test_overrides import from_spec

SPACES = 5
LABELLED = from_spec(
    {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace"}],
        "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"by": "fleet"}}]}}],
    },
    namespace="",
)


class Reading(MemoryStore):
    """A store that counts the Works that are read."""

    works = 0

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        found = super().get(refs, unopened=unopened)
        self.works += sum(ref.kind == WORK for ref in found)
        return found

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        found = super().by_index(kind, index, values, limit=limit)
        self.works += sum(len(listed) for listed in found.values()) if kind == WORK else 0
        return found


def fleet(members: int, *more: Any) -> Reading:
    store = Reading(controllers=[Namespaces()], clock=lambda: START)
    clusters = [cluster(f"member{number}") for number in range(members)]
    store.create(*clusters, *(namespace(f"team-{number}") for number in range(SPACES)), *more)
    settle(store)
    store.works = 0
    return store


def settle(store: MemoryStore) -> None:
    run_until_idle([Namespaces()], store, Settings(), world=World())


def copies(store: MemoryStore, member: str) -> dict[str, Work]:
    listed: list[Work] = [*store.list(WORK, namespace=f"karmada-es-{member}")]
    return {work.manifest["metadata"]["name"]: work for work in listed}


@pytest.mark.parametrize("members", [2, 40])
def test_a_cluster_that_joins_reads_no_copies_of_others(members: int) -> None:
    store = fleet(members)

    store.create(cluster("late"))
    settle(store)

    assert set(copies(store, "late")) == {f"team-{number}" for number in range(SPACES)}
    assert store.works == 0


def test_the_copies_of_a_cluster_that_joins_are_those_that_its_namespaces_would_make() -> None:
    store = fleet(1, LABELLED)
    store.create(cluster("late"))
    settle(store)
    version = store.version
    made = copies(store, "late")

    store.mark("namespaces", [namespace(f"team-{number}").ref for number in range(SPACES)])
    settle(store)

    assert {work.manifest["metadata"]["labels"]["by"] for work in made.values()} == {"fleet"}
    assert store.version == version


def test_a_copy_is_made_again_where_a_person_edited_it_and_not_on_a_cluster_that_is_gone() -> None:
    store = fleet(2)
    work = copies(store, "member1")["team-3"]
    store.objects[work.ref] = work.with_spec(suspend_dispatching=True)  # by a process that made nothing due

    store.mark(
        "namespaces", [Ref(COPY, "member1", "team-3"), Ref(COPY, "gone", "team-3"), Ref(COPY, "member1", "none")]
    )
    settle(store)

    assert copies(store, "member1")["team-3"].spec == work.spec
    assert copies(store, "gone") == {}

"""A deleted policy is released once nothing belongs to it, and a look at that reads few of the objects that do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_FINALIZER
from controlplane.controllers.policy_release import PAGE, PolicyRelease
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import matching
from controlplane.settings import Settings
from tests.builders.objects import START, policy
from tests.builders.templates import deployment

DELETED = policy("all").with_meta(deletion_timestamp=START, finalizers=(PROPAGATION_POLICY_FINALIZER,))
GOING = {"deletion_timestamp": START, "finalizers": ("example.io/hold",)}


class Reading(MemoryStore):
    """A store that counts the objects that are read by an index."""

    read = 0

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        found = super().by_index(kind, index, values, limit=limit)
        self.read += sum(len(listed) for listed in found.values())
        return found

    def page_by_index(
        self, kinds: Sequence[str], index: str, values: Collection[str], *, after: Ref | None = None, limit: int = 1000
    ) -> Sequence[Any]:
        found = super().page_by_index(kinds, index, values, after=after, limit=limit)
        self.read += len(found)
        return found


def claimed(name: str, **more: Any) -> Template:
    labels, annotations = matching.claim(DELETED)
    return deployment(name).with_meta(labels=labels, annotations=annotations, **more)


def looked_at(*objects: Template, settings: Settings | None = None) -> tuple[Reading, tuple[str, ...]]:
    """Return the store after a look at the deleted policy, and the finalizers that the policy has left."""
    store = Reading(controllers=[PolicyRelease()], clock=lambda: START)
    store.create(DELETED, *objects)
    store.mark("policy_release", [DELETED.ref])
    run_batch(PolicyRelease(), store, settings or Settings(), world=World())
    left = store.objects.get(DELETED.ref)
    return store, left.metadata.finalizers if isinstance(left, Policy) else ()


def test_a_look_reads_as_few_workloads_of_200_as_of_10() -> None:
    """All of them were read whole, twice a second, until the last one had lost its claim."""
    few, many = (looked_at(*(claimed(f"web-{n:03}") for n in range(count))) for count in (10, 200))

    assert few[1] == many[1] == (PROPAGATION_POLICY_FINALIZER,)
    assert 0 < few[0].read == many[0].read < 10


@pytest.mark.parametrize("going", [3, 10, PAGE + 9])
def test_what_is_behind_many_objects_that_keep_nothing_keeps_the_policy(going: int) -> None:
    objects = [claimed(f"a-{n:04}", **GOING) for n in range(going)]

    assert looked_at(*objects)[1] == ()
    assert looked_at(*objects, claimed("web"))[1] == (PROPAGATION_POLICY_FINALIZER,)


def test_namespaces_that_are_not_propagated_keep_nothing() -> None:
    objects = [claimed(f"web-{n}") for n in range(9)]

    assert looked_at(*objects, settings=Settings(skipped_propagating_namespaces=("default",)))[1] == ()

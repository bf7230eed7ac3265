"""A policy reaches every template it selects, once and in chunks of bounded size, however its selectors say them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.controllers.policies import Policies
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.policy import Policy, ResourceSelector
from controlplane.propagation import matching
from tests.builders.objects import START, policy
from tests.builders.templates import deployment

NAMES = tuple(f"web-{number}" for number in range(5))
KIND, KEY = ResourceSelector("apps/v1", "Deployment"), "apps/Deployment"


class Counted(MemoryStore):
    """A store that counts queries by reference, and the objects that are read otherwise."""

    reads = 0
    listed = 0

    def list(self, kind: str, **where: Any) -> Sequence[Any]:
        found = super().list(kind, **where)
        self.listed += len(found)
        return found

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        self.reads += 1
        return super().get(refs, unopened=unopened)


def stored(*selectors: ResourceSelector) -> tuple[Counted, Ref]:
    """Return a store with five Deployments in each of two namespaces, and a policy for all namespaces."""
    store = Counted(controllers=[], clock=lambda: START)
    everywhere = policy("all", namespace="")
    everywhere = replace(everywhere, spec=replace(everywhere.spec, resource_selectors=selectors))
    store.create(everywhere, *(deployment(name, namespace=place) for place in ("blue", "green") for name in NAMES))
    return store, everywhere.ref


def chunks(store: MemoryStore, origin: Ref, *, limit: int) -> list[list[Ref]]:
    found, cursor = [], ""
    for _ in range(100):
        refs, following = Policies().expand(store, origin, after=cursor, limit=limit)
        found.append(refs)
        if following is None:
            return found
        cursor = following
    raise AssertionError(f"the fan-out of {origin} does not end")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        pytest.param([KIND], {*NAMES}, id="a kind"),
        pytest.param([replace(KIND, namespace="green", name=name) for name in NAMES], {*NAMES}, id="names"),
        pytest.param([replace(KIND, name="web-4")], {"web-4"}, id="a name in every namespace"),
        pytest.param([replace(KIND, namespace="green", name="web-0"), KIND], {*NAMES}, id="a name, then the kind"),
        pytest.param([replace(KIND, namespace="green", name="gone")], set(), id="nothing there"),
        pytest.param(
            [ResourceSelector("example.io/v1", "Gadget", name="a"), KIND], {*NAMES}, id="a kind not defined yet"
        ),
    ],
)
def test_every_selected_template_is_reached_in_chunks_no_longer_than_the_limit(
    selectors: list[ResourceSelector], names: set[str], limit: int
) -> None:
    store, origin = stored(*selectors)

    found = chunks(store, origin, limit=limit)

    assert max(map(len, found)) <= limit
    reached = {ref for chunk in found for ref in chunk}
    assert names <= {ref.name for ref in reached if ref.namespace == "green"}
    if all(not one.namespace for one in selectors):
        assert names <= {ref.name for ref in reached if ref.namespace == "blue"}


def test_a_chunk_reads_as_often_for_five_names_as_for_one() -> None:
    reads = []
    for names in (NAMES[:1], NAMES):
        store, origin = stored(*(replace(KIND, namespace="green", name=name) for name in names))
        Policies().expand(store, origin, after="", limit=100)
        reads.append(store.reads)

    assert reads[0] == reads[1]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_policy_reaches_only_templates_that_it_selects_or_has_claimed(limit: int) -> None:
    blue = replace(KIND, label_selector=LabelSelector({"colour": "blue"}))
    store, origin = stored(blue)
    everywhere: Policy = store.objects[origin]
    labels, annotations = matching.claim(everywhere)
    claimed = deployment("claimed", namespace="green")
    selected = deployment("selected", namespace="green")
    store.create(
        replace(claimed, metadata=replace(claimed.metadata, labels=labels, annotations=annotations)),
        replace(selected, metadata=replace(selected.metadata, labels={"colour": "blue"})),
    )

    found = chunks(store, origin, limit=limit)

    assert max(map(len, found)) <= limit
    assert sorted(ref.name for chunk in found for ref in chunk) == ["claimed", "selected"]


def test_a_policy_that_selects_by_labels_does_not_read_what_it_does_not_select() -> None:
    """Each change of such a policy read every object of the kind in the fleet."""
    blue, red = (replace(KIND, label_selector=LabelSelector({"colour": colour})) for colour in ("blue", "red"))
    store, origin = stored(blue, red)
    store.create(*(deployment(colour).with_meta(labels={"colour": colour}) for colour in ("blue", "red", "green")))

    found = chunks(store, origin, limit=100)

    assert [ref.name for chunk in found for ref in chunk] == ["blue", "red"]
    assert store.listed == 0


def test_a_name_beats_the_labels_of_its_selector() -> None:
    store, origin = stored(replace(KIND, name="web-1", label_selector=LabelSelector({"colour": "blue"})))

    found = chunks(store, origin, limit=100)

    assert [str(ref) for chunk in found for ref in chunk] == [f"{KEY}:{place}/web-1" for place in ("blue", "green")]


def test_a_cursor_that_an_earlier_version_wrote_begins_the_fan_out_again() -> None:
    store, origin = stored(KIND)

    found, _ = Policies().expand(store, origin, after="0|green/web-3", limit=100)

    assert len(found) == 2 * len(NAMES)

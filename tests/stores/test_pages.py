"""Pages under an index value, in both stores."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from controlplane.engine.decision import Put
from controlplane.kinds import BINDINGS, RESOURCE_BINDING
from tests.builders.bare import binding, meta, template
from tests.builders.objects import START
from tests.stores.grounds import create, write


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_all_pages_together_are_what_has_the_value(store: Any, limit: int) -> None:
    """Near the last page and far from it, in two namespaces and in two kinds."""
    on = {*range(0, 9), 20, 21, 39}
    create(store, *(binding(f"b{n:02}", "member1" if n in on else "member2") for n in range(40)))
    create(store, replace(binding("z", "member1"), kind="ClusterResourceBinding", metadata=meta("z", "")))
    expected = ["/z", *(f"shop/b{n:02}" for n in sorted(on))]

    pages: list[list[str]] = []
    after: Ref | None = None
    while page := store.page_by_index(BINDINGS, "placed", ["member1"], after=after, limit=limit):
        after = page[-1].ref
        pages.append([f"{one.metadata.namespace}/{one.metadata.name}" for one in page])
    refs, place = list[Ref](), ("", "")
    while found := store.refs_by_index(RESOURCE_BINDING, "placed", "member1", after=place, limit=limit):
        place = found[-1][1:]
        refs += found

    assert [name for page in pages for name in page] == expected
    assert max(map(len, pages)) <= limit
    assert [f"{ref.namespace}/{ref.name}" for ref in refs] == expected[1:]


BLUE, RED = LabelSelector({"colour": "blue"}), LabelSelector({"colour": "red"})
BIG = LabelSelector({"colour": "blue"}, (LabelSelectorRequirement("size", "In", ("l", "xl")),))
UNSIZED = LabelSelector(match_expressions=(LabelSelectorRequirement("size", "DoesNotExist"),))


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({}, ["a/b-l", "a/b-s", "a/none", "z/b-l", "z/r"]),
        ({"namespace": "a"}, ["a/b-l", "a/b-s", "a/none"]),
        ({"name": "b-l"}, ["a/b-l", "z/b-l"]),
        ({"any_of": (BLUE,)}, ["a/b-l", "a/b-s", "z/b-l"]),
        ({"any_of": (BLUE, RED)}, ["a/b-l", "a/b-s", "z/b-l", "z/r"]),
        ({"any_of": (BIG, RED), "namespace": "z"}, ["z/b-l", "z/r"]),
        ({"any_of": (UNSIZED,)}, ["a/none", "z/r"]),
        ({"any_of": (BIG, LabelSelector())}, ["a/b-l", "a/b-s", "a/none", "z/b-l", "z/r"]),
        ({"any_of": (LabelSelector({"colour": "green"}),)}, []),
        ({"undeleted": True, "any_of": (BLUE,)}, ["a/b-s", "z/b-l"]),
    ],
)
def test_references_are_chosen_by_place_and_labels(
    store: Any, chosen: dict[str, Any], names: list[str], limit: int
) -> None:
    labels = {
        "a/b-l": {"colour": "blue", "size": "l"},
        "a/b-s": {"colour": "blue", "size": "s"},
        "a/none": {},
        "z/b-l": {"colour": "blue", "size": "l"},
        "z/r": {"colour": "red"},
    }
    places = {place: place.partition("/") for place in labels}
    create(
        store,
        *(
            template(name, uid=f"u-{place}", namespace=namespace, labels=labels[place])
            for place, (namespace, _, name) in places.items()
        ),
        template("b-l", uid="u-other", namespace="a", kind="Secret", labels={"colour": "blue"}),
    )
    kind = template("x", uid="u").ref.kind
    (going,) = store.list(kind, namespace="a", limit=1)
    write(store, Put(going.with_meta(deletion_timestamp=START, finalizers=("example.io/hold",)), going))

    found, after = list[Ref](), ("", "")
    while page := store.refs(kind, after=after, limit=limit, **chosen):
        after = page[-1][1:]
        found += page

    assert [f"{ref.namespace}/{ref.name}" for ref in found] == names

"""In which order both stores return what an owner owns."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import OwnerReference
from tests.builders.bare import template
from tests.stores.grounds import create
from tests.stores.test_reading import NOON, PROTECTED


def test_what_an_owner_keeps_comes_after_what_may_go_and_what_blocks_before_what_stays(store: Any) -> None:
    (owner,) = create(store, template("top"))
    earlier = OwnerReference(owner.api_version, owner.kind, "top", "uid-earlier")
    present = OwnerReference(owner.api_version, owner.kind, "top", owner.metadata.uid)
    blocking = OwnerReference(owner.api_version, owner.kind, "top", "uid-earlier", block_owner_deletion=True)
    going = {"deletion_timestamp": NOON, "finalizers": ("example.io/hold",)}
    create(
        store,
        template("a", uid="uid-a").with_meta(owner_references=(earlier,), **going),
        template("b", uid="uid-b").with_meta(owner_references=(blocking,), **going),
        template("c", uid="uid-c").with_meta(owner_references=(present,)),
        template("d", uid="uid-d").with_meta(owner_references=(earlier,)),
        template("e", uid="uid-e").with_meta(owner_references=(blocking,), labels=PROTECTED),
    )
    value = str(owner.ref)

    found = store.owned([value], keeping={value: owner.metadata.uid}, limit=10)[value]
    first = store.owned([value], keeping={value: owner.metadata.uid}, limit=1)[value]

    assert [one.metadata.name for one in found] == ["d", "c", "b", "e", "a"]
    assert [one.metadata.name for one in first] == ["d"]
    assert [one.metadata.name for one in store.owned([value], limit=2)[value]] == ["c", "d"]

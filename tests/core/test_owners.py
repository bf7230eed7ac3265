"""What an object owns goes with it, before it, or is let go, as the deletion asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Object, ObjectMeta, OwnerReference
from controlplane.controllers.owners import PAGE, Owners
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision, Put
from controlplane.engine.lifecycle import BACKGROUND, FOREGROUND, ORPHAN
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_until_idle
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings
from tests.builders import templates

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """A store in which time passes when a test says."""

    def __init__(self) -> None:
        self.now = NOW
        self.controllers = [Owners()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)

    def create(self, *objects: Object) -> None:
        for one in objects:
            self.change(Put(one, None))

    def change(self, change: Any) -> None:
        assert not self.store.apply([(None, Decision(changes=(change,)))], by=Actor("jane"))[0].lost

    def delete(self, obj: Object, policy: str = "") -> None:
        self.change(lifecycle.request_deletion(self.live(obj), now=self.now, policy=policy))

    def live(self, obj: Object) -> Any:
        return self.store.get([obj.ref]).get(obj.ref)

    def there(self, *objects: Object) -> list[str]:
        return [one.metadata.name for one in objects if self.live(one) is not None]

    def pass_time(self, seconds: float = 2) -> None:
        self.now += timedelta(seconds=seconds)
        run_until_idle(self.controllers, self.store, Settings(), world=World())


def config(
    name: str, *owners: Template, namespace: str = "shop", uid: str = "", blocks: bool = True, **meta: Any
) -> Any:
    references = tuple(
        OwnerReference(one.api_version, one.kind, one.metadata.name, one.metadata.uid, block_owner_deletion=blocks)
        for one in owners
    )
    uid = uid or f"uid-{namespace}-{name}"
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid, owner_references=references, **meta)
    return Template("v1", "ConfigMap", metadata)


@pytest.mark.parametrize("policy", ["", BACKGROUND, FOREGROUND])
def test_what_is_owned_goes_with_its_owner_however_deep(policy: str) -> None:
    story = Story()
    top = config("top")
    middle = config("middle", top)
    low, other = config("low", middle), config("other")
    story.create(top, middle, low, other)
    story.pass_time()
    assert len(story.there(top, middle, low)) == 3

    story.delete(top, policy)
    story.pass_time()
    story.pass_time()

    assert story.there(top, middle, low, other) == ["other"]


def test_in_the_background_the_owner_goes_at_once() -> None:
    story = Story()
    top = config("top")
    low = config("low", top)
    story.create(top, low)

    story.delete(top, BACKGROUND)

    assert story.there(top, low) == ["low"]


@pytest.mark.parametrize("blocks", [True, False])
def test_in_the_foreground_the_owner_waits_for_what_blocks_it(blocks: bool) -> None:
    story = Story()
    top = config("top")
    held = config("held", top, blocks=blocks, finalizers=("example.io/hold",))
    story.create(top, held)

    story.delete(top, FOREGROUND)
    assert story.live(top).metadata.finalizers == ("foregroundDeletion",)
    story.pass_time()
    story.pass_time()

    assert story.live(held).metadata.deletion_timestamp is not None
    assert (story.live(top) is not None) is blocks
    left = story.live(held)
    kept = tuple(one for one in left.metadata.finalizers if one != "example.io/hold")
    story.change(Put(left.with_meta(finalizers=kept), left))
    story.pass_time()
    story.pass_time()
    assert story.there(top, held) == []


def test_orphans_lose_their_owner_and_stay() -> None:
    story = Story()
    top, second = config("top"), config("second")
    low, shared = config("low", top), config("shared", top, second)
    story.create(top, second, low, shared)

    story.delete(top, ORPHAN)
    assert story.live(top).metadata.finalizers == ("orphan",)
    story.pass_time()
    story.pass_time()

    assert story.there(top, low, shared) == ["low", "shared"]
    assert story.live(low).metadata.owner_references == ()
    assert [one.name for one in story.live(shared).metadata.owner_references] == ["second"]


@pytest.mark.parametrize("policy", ["", FOREGROUND])
def test_what_has_another_owner_stays_with_that_one(policy: str) -> None:
    story = Story()
    top, second = config("top"), config("second")
    shared = config("shared", top, second)
    story.create(top, second, shared)

    story.delete(top, policy)
    story.pass_time()
    story.pass_time()

    assert story.there(top, shared) == ["shared"]
    assert [one.name for one in story.live(shared).metadata.owner_references] == ["second"]


def test_an_owner_recreated_under_the_same_name_owns_nothing_of_the_old_one() -> None:
    story = Story()
    first, again = config("top"), config("top", uid="uid-again")
    low, new = config("low", first), config("new", again)
    story.create(first, low)

    story.delete(first)
    story.create(again, new)
    story.pass_time()

    assert story.there(again, low, new) == ["top", "new"]


def test_who_names_an_owner_that_is_not_there_goes() -> None:
    story = Story()
    low, late = config("low", config("never")), config("late")
    story.create(low, late)
    story.change(Put(late.with_meta(owner_references=low.metadata.owner_references), story.live(late)))

    story.pass_time()

    assert story.there(low, late) == []


def test_an_owner_of_an_unserved_kind_holds_what_it_owns() -> None:
    story = Story()
    stranger = Template("example.io/v1", "Boat", ObjectMeta(name="ferry", namespace="shop", uid="uid-ferry"))
    low = config("low", stranger)
    story.create(low)

    story.pass_time()

    assert story.there(low) == ["low"]


def test_an_owner_elsewhere_is_another_one() -> None:
    story = Story()
    here, there = config("top"), config("top", namespace="other")
    low = config("low", here)
    story.create(here, there, low)

    story.delete(there)
    story.pass_time()

    assert story.there(here, low) == ["top", "low"]


def test_more_than_one_page_of_dependents_goes() -> None:
    story = Story()
    top = config("top")
    many = [config(f"low-{number:03}", top) for number in range(450)]
    story.create(top, *many)

    story.delete(top)
    for _ in range(5):
        story.pass_time()

    assert story.there(*many) == []


def test_looked_at_twice_nothing_changes() -> None:
    story = Story()
    top = config("top")
    story.create(top, config("low", top))
    story.pass_time()
    version = story.store.version

    story.store.mark("owners", [top.ref])
    story.pass_time()

    assert story.store.version == version


@pytest.mark.parametrize("policy", [BACKGROUND, FOREGROUND])
def test_a_protected_dependent_stays_until_its_label_is_removed(policy: str) -> None:
    """[deletion-protection]."""
    story = Story()
    top = config("top")
    low = config("low", top, labels={"resourcetemplate.karmada.io/deletion-protected": "Always"})
    story.create(top, low)

    story.delete(top, policy)
    story.pass_time()
    assert "low" in story.there(low)
    assert story.live(low).metadata.deletion_timestamp is None

    story.change(Put(story.live(low).with_meta(labels={}), story.live(low)))
    story.pass_time()
    story.pass_time()
    assert story.there(top, low) == []


@pytest.mark.parametrize("policy", [BACKGROUND, FOREGROUND])
def test_a_page_of_protected_dependents_does_not_keep_the_others(policy: str) -> None:
    story = Story()
    top, label = config("top"), {"resourcetemplate.karmada.io/deletion-protected": "Always"}
    held = [config(f"held-{number}", top, labels=label) for number in range(PAGE)]
    low = config("low", top)
    story.create(top, *held, low)

    story.delete(top, policy)
    story.pass_time()
    story.pass_time()

    assert len(story.there(*held)) == PAGE
    assert story.there(low) == []


def test_a_page_of_what_the_new_owner_owns_does_not_keep_what_the_old_one_owned() -> None:
    """They were left for ever, because the first page had nothing to do."""
    story = Story()
    first, again = config("top"), config("top", uid="uid-again")
    old = [config(f"z-{number}", first) for number in range(3)]
    new = [config(f"new-{number}", again) for number in range(PAGE)]
    story.create(first, *old)

    story.delete(first)
    story.create(again, *new)
    story.pass_time()

    assert story.there(*old) == []
    assert len(story.there(*new)) == PAGE


def test_a_page_of_what_blocks_nothing_does_not_free_an_owner_too_early() -> None:
    story = Story()
    top = config("top")
    free = [config(f"a-{number}", top, blocks=False, finalizers=("example.io/wait",)) for number in range(PAGE)]
    blocking = config("z", top, finalizers=("example.io/wait",))
    story.create(top, *free, blocking)

    story.delete(top, FOREGROUND)
    for _ in range(4):
        story.pass_time()

    assert story.there(top, blocking) == ["top", "z"]


def test_what_a_custom_object_owns_goes_although_its_definition_is_gone_already() -> None:
    """A deleted definition takes its objects along, and is gone before the objects that they own are looked at."""
    story = Story()
    boat = templates.template("Boat", "ferry", version="example.io/v1", namespace="shop")
    quay = templates.template("Quay", "north", version="example.io/v1", namespace="shop")
    crew, both, unknown = config("crew", boat), config("both", boat, quay), config("unknown", quay)
    KINDS.set_custom(kinds_of([templates.definition("Boat", "boats", group="example.io")]))
    try:
        story.create(boat, crew, both, unknown)
        story.pass_time()
        story.delete(boat)
    finally:
        KINDS.set_custom(())
    story.pass_time()

    assert story.there(crew, both, unknown) == ["both", "unknown"]


@pytest.mark.parametrize("policy", ["", BACKGROUND, FOREGROUND, ORPHAN])
def test_a_deletion_that_finalizers_delay_is_a_new_generation(policy: str) -> None:
    """Controllers that look at new generations only then see it. A second deletion makes no other one."""
    story = Story()
    held = config("held", finalizers=("example.io/hold",), generation=3)
    story.create(held)

    story.delete(held, policy)
    assert story.live(held).metadata.generation == 4
    story.delete(held, FOREGROUND)
    assert story.live(held).metadata.generation == 4


def test_a_deletion_is_a_new_generation_although_another_write_was_faster() -> None:
    story = Story()
    held = config("held", finalizers=("example.io/hold",), generation=3)
    story.create(held)
    read = story.live(held)

    story.change(Put(read.with_meta(labels={"a": "b"}), read))
    story.change(lifecycle.request_deletion(read, now=story.now, policy=FOREGROUND))

    assert (story.live(held).metadata.generation, story.live(held).metadata.labels) == (4, {"a": "b"})

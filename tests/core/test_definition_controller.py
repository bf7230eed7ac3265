"""Definitions settle who has a name, and a deleted one takes what it brought along."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Object, Ref
from controlplane.controllers.definitions import PAGE, Definitions
from controlplane.controllers.namespace_content import NamespaceContent
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision, Put
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_until_idle
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds import DEFINITION, NAMESPACE
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings
from tests.builders import templates

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOAT = "example.io/Boat"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    KINDS.set_custom(())


class Story:
    """A store in which time passes when a test says."""

    def __init__(self) -> None:
        self.now = NOW
        self.controllers = [NamespaceContent(), Definitions()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)

    def create(self, *objects: Object) -> None:
        self.change(*(Put(one, None) for one in objects))

    def delete(self, obj: Object) -> None:
        self.change(lifecycle.request_deletion(self.live(obj), now=self.now))

    def change(self, *changes: Any) -> None:
        for change in changes:
            assert not self.store.apply([(None, Decision(changes=(change,)))], by=Actor("jane"))[0].lost
        KINDS.set_custom(kinds_of(self.store.list(DEFINITION)))

    def live(self, obj: Object) -> Any:
        return self.store.get([obj.ref]).get(obj.ref)

    def pass_time(self, seconds: float = 0) -> None:
        self.now += timedelta(seconds=seconds)
        run_until_idle(self.controllers, self.store, Settings(), world=World())
        KINDS.set_custom(kinds_of(self.store.list(DEFINITION)))


def definition(kind: str = "Boat", plural: str = "boats", *, group: str = "example.io", age: int = 0) -> Template:
    return templates.definition(kind, plural, group=group, creation_timestamp=NOW - timedelta(seconds=age))


def boat(name: str, *, namespace: str = "default", finalizers: tuple[str, ...] = ()) -> Template:
    metadata = {"finalizers": finalizers}
    return templates.template("Boat", name, version="example.io/v1", namespace=namespace, metadata=metadata)


def conditions(one: Template | None) -> dict[str, str]:
    assert one is not None
    return {found["type"]: found["status"] for found in one.status.get("conditions", ())}


def test_a_definition_whose_names_are_free_is_established() -> None:
    story = Story()
    one = definition()

    story.create(one)
    story.pass_time()

    status = story.live(one).status
    assert conditions(story.live(one)) == {"NamesAccepted": "True", "Established": "True"}
    assert status["acceptedNames"] == {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"}
    assert status["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("kind", "plural", "group"),
    [
        ("Boat", "ships", "example.io"),
        ("Cluster", "clusters", "cluster.karmada.io"),
        ("Work", "jobs", "work.karmada.io"),
    ],
)
def test_a_name_that_is_taken_is_not_accepted_and_serves_nothing(kind: str, plural: str, group: str) -> None:
    story = Story()
    late = definition(kind, plural, group=group)
    story.create(definition(age=10))
    story.pass_time()
    before = KINDS[f"{group}/{kind}"]

    story.create(late)
    story.pass_time()

    assert conditions(story.live(late)) == {"NamesAccepted": "False", "Established": "False"}
    assert KINDS[f"{group}/{kind}"].resource.plural == before.resource.plural


def test_a_name_that_is_free_again_goes_to_who_waits_for_it() -> None:
    story = Story()
    first, second = definition(age=10), definition("Boat", "ships")
    story.create(first, second)
    story.pass_time()
    assert conditions(story.live(second))["Established"] == "False"

    story.delete(first)
    story.pass_time()
    assert story.live(first) is not None  # some process may not have heard of it yet
    story.pass_time(2)

    assert story.live(first) is None
    assert conditions(story.live(second))["Established"] == "True"
    assert KINDS[BOAT].resource.plural == "ships"


def test_a_definition_that_goes_waits_for_the_objects_of_its_kind() -> None:
    story = Story()
    one, other = definition(), definition("Ship", "ships")
    ship = templates.template("Ship", "kept", version="example.io/v1")
    held = boat("held", finalizers=("example.io/hold",))
    story.create(one, other, boat("ferry"), held, ship)
    story.pass_time()

    story.delete(one)
    story.pass_time(2)

    assert story.live(boat("ferry")) is None
    assert conditions(story.live(one))["Terminating"] == "True"
    assert KINDS[BOAT].is_ending

    story.change(Put(story.live(held).with_meta(finalizers=()), story.live(held)))
    story.pass_time(2)

    assert (story.live(one), story.live(held)) == (None, None)
    assert story.live(ship) is not None
    assert BOAT not in KINDS


def test_what_others_hold_of_a_kind_that_goes_keeps_nothing_else_of_it() -> None:
    story = Story()
    one = definition()
    held = [boat(f"held-{number}", finalizers=("example.io/hold",)) for number in range(PAGE)]
    story.create(one)
    story.create(*held, boat("last"))

    story.delete(one)
    for _ in range(3):
        story.pass_time(2)
    assert story.live(boat("last")) is None
    assert story.live(one) is not None

    for each in held:
        story.change(Put(story.live(each).with_meta(finalizers=()), story.live(each)))
    story.pass_time(10)
    assert story.live(one) is None


def test_more_objects_than_one_go_takes_all_go() -> None:
    story = Story()
    one = definition()
    story.create(one, *(boat(f"boat-{number}") for number in range(1200)))

    story.delete(one)
    for _ in range(5):
        story.pass_time(2)

    assert not story.store.list(BOAT)
    assert story.live(one) is None


@pytest.mark.parametrize("heard_of", [True, False])
def test_a_namespace_takes_along_objects_of_kinds_users_brought(heard_of: bool) -> None:
    story = Story()
    doomed = templates.namespace("doomed")
    story.create(definition(), doomed, boat("ferry", namespace="doomed"), boat("kept"))
    story.delete(doomed)
    if not heard_of:
        KINDS.set_custom(())

    run_until_idle(story.controllers, story.store, Settings(), world=World())
    story.pass_time(2)

    assert story.live(boat("ferry", namespace="doomed")) is None
    assert story.store.get([Ref(NAMESPACE, "", "doomed")]) == {}
    assert story.live(boat("kept")) is not None

"""A deleted Namespace takes along what is in it, and waits for what others still hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import DELETION_PROTECTED_LABEL, NAMESPACE_CONTENT_FINALIZER
from controlplane.controllers.namespace_content import PAGE, NamespaceContent, _goes
from controlplane.controllers.reads.still_to_delete import still_to_delete
from controlplane.engine.decision import Decision, Put
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_until_idle
from controlplane.engine.state import Actor
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.templates import config_map, namespace

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """A store in which time passes when a test says."""

    def __init__(self) -> None:
        self.now = NOW
        self.controllers = [NamespaceContent()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)

    def put(self, new: Template, old: Template | None = None) -> None:
        outcome = self.store.apply([(None, Decision(changes=(Put(new, old),)))], by=Actor("jane"))[0]
        assert not outcome.lost

    def get(self, kind: str, namespace: str, name: str) -> Template | None:
        ref = Ref(kind, namespace, name)
        return self.store.get([ref]).get(ref)

    def delete_namespace(self, name: str) -> None:
        live = self.get(NAMESPACE, "", name)
        assert live is not None
        self.put(live.with_meta(deletion_timestamp=self.now, finalizers=(NAMESPACE_CONTENT_FINALIZER,)), live)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        run_until_idle(self.controllers, self.store, Settings(), world=World())


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


def test_a_look_reads_as_few_objects_that_are_being_deleted_of_thousands_as_of_hundreds() -> None:
    """All of them were read at each look, again and again, until a Namespace of 20,000 objects was gone."""
    going = {"deletion_timestamp": NOW, "finalizers": ("example.org/hold",), "namespace": "doomed"}
    read = []
    for count in (2 * PAGE, 8 * PAGE):
        store = Reading(controllers=[], clock=lambda: NOW)
        store.create(*(config_map(f"a-{n:04}").with_meta(**going) for n in range(count)))
        store.create(config_map("last", namespace="doomed"))

        found = still_to_delete(store, "ConfigMap", goes=_goes, limit=PAGE, namespace="doomed")

        assert found[-1].metadata.name == "last"
        read.append(store.read)

    assert read == [PAGE + 1, PAGE + 1]


def test_everything_in_a_deleted_namespace_goes_and_then_the_namespace() -> None:
    story = Story()
    for name in ("doomed", "kept"):
        story.put(namespace(name))
        story.put(config_map("one", namespace=name))

    story.delete_namespace("doomed")
    story.pass_time(0)
    story.pass_time(2)

    assert story.get("ConfigMap", "doomed", "one") is None
    assert story.get(NAMESPACE, "", "doomed") is None
    assert story.get("ConfigMap", "kept", "one") is not None


def test_a_namespace_waits_for_foreign_finalizers() -> None:
    story = Story()
    story.put(namespace("doomed"))
    story.put(config_map("held", namespace="doomed", finalizers=("example.org/hold",)))

    story.delete_namespace("doomed")
    story.pass_time(2)
    held = story.get("ConfigMap", "doomed", "held")
    assert held is not None
    assert held.metadata.deletion_timestamp is not None
    assert story.get(NAMESPACE, "", "doomed") is not None

    story.put(held.with_meta(finalizers=()), held)
    story.pass_time(2)
    assert story.get(NAMESPACE, "", "doomed") is None


def test_a_namespace_that_is_not_deleted_keeps_what_it_holds() -> None:
    story = Story()
    story.put(namespace("kept"))
    story.put(config_map("one", namespace="kept"))

    story.pass_time(10)

    assert story.get("ConfigMap", "kept", "one") is not None


def test_a_namespace_that_waits_long_says_for_what() -> None:
    story = Story()
    story.put(namespace("doomed"))
    for number in range(7):
        story.put(config_map(f"held-{number}", namespace="doomed", finalizers=("example.org/hold",)))
    story.delete_namespace("doomed")

    def said() -> list[str]:
        found = story.get(NAMESPACE, "", "doomed")
        assert found is not None
        return [f"{one['type']}={one['status']}: {one['message']}" for one in found.status.get("conditions", ())]

    story.pass_time(2)
    assert said() == [], "most are gone before anybody asks"
    story.pass_time(10)
    rule = "Some resources are remaining, their finalizers hold them"
    named = ", ".join(f"ConfigMap held-{number}" for number in range(5))
    assert said() == [f"NamespaceContentRemaining=True: {rule}: {named}, 2 more"]
    version = story.store.version
    story.pass_time(10)
    assert story.store.version == version, "nothing is said twice"


def test_a_protected_object_keeps_its_namespace_until_the_label_is_removed() -> None:
    """[deletion-protection]."""
    story = Story()
    story.put(namespace("doomed"))
    label = {"resourcetemplate.karmada.io/deletion-protected": "Always"}
    protected = config_map("kept", namespace="doomed").with_meta(labels=label)
    story.put(protected)
    story.put(config_map("other", namespace="doomed"))

    story.delete_namespace("doomed")
    story.pass_time(2)
    story.pass_time(12)

    assert story.get("ConfigMap", "doomed", "other") is None
    live, holder = story.get("ConfigMap", "doomed", "kept"), story.get(NAMESPACE, "", "doomed")
    assert live is not None
    assert live.metadata.deletion_timestamp is None
    assert holder is not None
    assert "protects them: ConfigMap kept" in holder.status["conditions"][0]["message"]

    story.put(live.with_meta(labels={}), live)
    story.pass_time(2)
    story.pass_time(2)
    assert story.get(NAMESPACE, "", "doomed") is None


def test_what_others_hold_in_a_deleted_namespace_keeps_nothing_else_there() -> None:
    story = Story()
    story.put(namespace("doomed"))
    held = [config_map(f"held-{number:03}", namespace="doomed", finalizers=("a.org/b",)) for number in range(PAGE)]
    protected = [
        config_map(f"kept-{number:03}", namespace="doomed", labels={DELETION_PROTECTED_LABEL: "Always"})
        for number in range(PAGE)
    ]
    for one in (*held, *protected, config_map("last", namespace="doomed")):
        story.put(one)

    story.delete_namespace("doomed")
    for _ in range(5):
        story.pass_time(10)

    assert story.get("ConfigMap", "doomed", "last") is None
    assert story.get("ConfigMap", "doomed", "held-000") is not None
    for one in (*held, *protected):
        live = story.get("ConfigMap", "doomed", one.metadata.name)
        assert live is not None
        story.put(live.with_meta(finalizers=(), labels={}), live)
    for _ in range(3):
        story.pass_time(10)
    assert story.get(NAMESPACE, "", "doomed") is None

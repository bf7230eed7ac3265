"""Templates, policies and clusters in memory, with the propagation controllers and a scheduler that follows a table."""

from __future__ import annotations

from datetime import timedelta

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Object, Ref
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.controllers.binding_status import BindingStatus
from controlplane.controllers.dependencies import Dependencies
from controlplane.controllers.garbage import Garbage
from controlplane.controllers.namespaces import Namespaces
from controlplane.controllers.policies import Policies
from controlplane.controllers.policy_release import PolicyRelease
from controlplane.controllers.template_status import TemplateStatus
from controlplane.controllers.works import Works
from controlplane.engine import run
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds.binding import Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.policy import (
    DIVIDED,
    Placement,
    ReplicaSchedulingStrategy,
)
from controlplane.kinds.template import Template
from controlplane.kinds.work import ManifestStatus, ResourceIdentifier, Work
from controlplane.propagation import bindings
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

DIVIDED_PLACEMENT = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=DIVIDED))


READY_BEFORE = START - timedelta(hours=1)
MEMBERS = tuple(cluster(f"member{number}", at=READY_BEFORE) for number in (1, 2, 3))


class Story:
    """A store with controllers; every step works off everything that is due."""

    def __init__(self, *objects: Object, settings: Settings | None = None) -> None:
        self.now = START
        self.settings = settings or Settings()
        self.controllers = (
            Policies(),
            PolicyRelease(),
            Dependencies(),
            Works(),
            BindingStatus(),
            TemplateStatus(),
            Namespaces(),
            Garbage(),
        )
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)
        self.add(*objects)

    def settle(self) -> None:
        run.run_until_idle(self.controllers, self.store, self.settings, world=run.World(report=_raise))

    def later(self, **passed: float) -> None:
        self.now += timedelta(**passed)
        self.settle()

    def add(self, *objects: Object) -> None:
        self.store.create(*objects)
        self.settle()

    def edit(self, new: Object) -> None:
        """Store a change the way a user makes it, and let everybody react."""
        outcome = self.store.put(new, self.store.objects[new.ref])
        assert not outcome.lost, outcome.lost
        self.settle()

    def delete(self, obj: Object) -> None:
        decision = Decision(changes=(deleting(self.store.objects[obj.ref], now=self.now),))
        self.store.apply([(None, decision)], by=Actor("test"))
        self.settle()

    def replace(self, old: Object, new: Object) -> None:
        """Delete an object and create another of its name before any controller has looked at either."""
        self.store.apply(
            [(None, Decision(changes=(deleting(self.store.objects[old.ref], now=self.now),)))], by=Actor("test")
        )
        self.add(new)

    def template(self, one: Template) -> Template:
        found = self.store.objects[one.ref]
        assert isinstance(found, Template)
        return found

    def binding(self, one: Template) -> Binding | None:
        found = self.store.objects.get(bindings.binding_ref(one.ref))
        assert found is None or isinstance(found, Binding)
        return found

    def place(self, one: Template, tasks: tuple[GracefulEvictionTask, ...] = (), **replicas: int) -> None:
        """Schedule a template as the scheduler would."""
        binding = self.binding(one)
        assert binding is not None, f"{one.ref} has no binding"
        targets = tuple(TargetCluster(name, count) for name, count in replicas.items())
        self.edit(binding.with_spec(clusters=targets, graceful_eviction_tasks=tasks))

    def works(self) -> dict[str, Work]:
        """Return the Works there are, by cluster, those on their way out as well."""
        found = [one for one in self.store.objects.values() if isinstance(one, Work)]
        return {one.metadata.namespace.removeprefix("karmada-es-"): one for one in found}

    def report(self, cluster_name: str, health: str = "Healthy", *, applied: str = "True", **status: int) -> None:
        """Say what a member says of its copy."""
        work = self.works()[cluster_name]
        manifest = work.manifest
        group, _, version = manifest["apiVersion"].rpartition("/")
        identifier = ResourceIdentifier(
            group=group,
            version=version,
            kind=manifest["kind"],
            name=manifest["metadata"]["name"],
            namespace=manifest["metadata"].get("namespace", ""),
        )
        said = Condition("Applied", applied, "R", "" if applied == "True" else "refused")
        seen = (ManifestStatus(identifier, dict(status), health),)
        self.edit(work.with_status(conditions=(said,), manifest_statuses=seen))

    def remove_from_member(self, cluster_name: str) -> None:
        """Let a Work that is being deleted go, as the members process does once the object is gone."""
        work = self.works()[cluster_name]
        assert work.metadata.deletion_timestamp is not None, f"the Work of {cluster_name} is not being deleted"
        self.edit(work.with_meta(finalizers=tuple(one for one in work.metadata.finalizers if one != WORK_FINALIZER)))

    def events(self, reason: str) -> list[str]:
        found = self.store.list(kinds.EVENT)
        return [one.message for one in found if one.reason == reason]

    def again(self) -> int:
        """Ask every controller about everything once more; return how many versions that took."""
        before = self.store.version
        for controller in self.controllers:
            refs: list[Ref] = [ref for ref in self.store.objects if ref.kind in controller.keys]
            self.store.mark(controller.name, refs)
        self.settle()
        return self.store.version - before


def _raise(failure: run.Failure) -> None:
    raise AssertionError(f"{failure.controller} failed on {failure.ref}:\n{failure.trace}")

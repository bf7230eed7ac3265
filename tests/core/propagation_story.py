"""Templates, policies and clusters in memory, with the propagation controllers and a scheduler that is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Object, ObjectMeta, Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_FINALIZER, WORK_FINALIZER
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
from controlplane.kinds.cluster import Cluster, ClusterStatus
from controlplane.kinds.policy import (
    DIVIDED,
    GRACEFULLY,
    Placement,
    Policy,
    PropagationSpec,
    ReplicaSchedulingStrategy,
    ResourceSelector,
)
from controlplane.kinds.template import Template
from controlplane.kinds.work import ManifestStatus, ResourceIdentifier, Work
from controlplane.propagation import bindings
from controlplane.settings import Settings

START = datetime(2026, 1, 1, tzinfo=UTC)
DEPLOYMENTS = ResourceSelector("apps/v1", "Deployment")
DIVIDED_PLACEMENT = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=DIVIDED))


def deployment(name: str = "web", *, namespace: str = "default", replicas: int = 3, **metadata: Any) -> Template:
    labels = metadata.pop("labels", {"app": name})
    return Template.fold(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{namespace}-{name}",
                "generation": 1,
                "creationTimestamp": START,
                "labels": labels,
                **metadata,
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]},
                },
            },
        }
    )


def policy(
    name: str = "all", *selectors: ResourceSelector, namespace: str = "default", at: datetime = START, **spec: Any
) -> Policy:
    """A PropagationPolicy of the namespace; a ClusterPropagationPolicy where the namespace is ""."""
    return Policy(
        api_version="policy.karmada.io/v1alpha1",
        kind="PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            generation=1,
            creation_timestamp=at,
            finalizers=(PROPAGATION_POLICY_FINALIZER,) if namespace else (),
        ),
        spec=PropagationSpec(resource_selectors=selectors or (DEPLOYMENTS,), **{"placement": Placement(), **spec}),
    )


def cluster(name: str, *, ready: str = "True") -> Cluster:
    return Cluster(
        api_version="cluster.karmada.io/v1alpha1",
        kind="Cluster",
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", generation=1, creation_timestamp=START),
        status=ClusterStatus(conditions=(Condition("Ready", ready),)),
    )


MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))


def leaving(name: str, mode: str = GRACEFULLY, **more: Any) -> GracefulEvictionTask:
    return GracefulEvictionTask(name, mode, creation_timestamp=START, **more)


def namespace(name: str, **labels: str) -> Template:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    return Template.fold({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


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

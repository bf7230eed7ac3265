"""What has to hold of bindings and Works that are written by hand (semantics 1.4, 1.5; D23)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from controlplane.apimachinery.causes import duplicate, forbidden, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object
from controlplane.apimachinery.names import (
    BINDING_ANNOTATION,
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    DEPENDENCIES_ANNOTATION,
    EVICTION_ORDERS_ANNOTATION,
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
    WORK_FINALIZER,
    WORK_ID_LABEL,
)
from controlplane.apimachinery.selectors import label_value_errors
from controlplane.kinds import manifest_rules, manual_placement
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER
from controlplane.kinds.work import Work, Workload
from controlplane.settings import Settings

MAX_REASON, MAX_MESSAGE = 32, 1024

T = TypeVar("T", bound=Object)


def default_binding(new: Binding, old: Binding | None, settings: Settings) -> Binding:
    """Return the binding with its permanent id, and with a mark where somebody placed it by hand (D23)."""
    label = RESOURCE_BINDING_ID_LABEL if new.metadata.namespace else CLUSTER_RESOURCE_BINDING_ID_LABEL
    return manual_placement.marked(_identified(new, old, label), old)


def default_work(new: Work, old: Work | None, settings: Settings) -> Work:
    """Return the Work with its permanent id, and manifests that leave out what they do not set."""
    return _completed(new, old)


def _completed(new: Work, old: Work | None) -> Work:
    manifests = tuple(manifest_rules.without_nulls(one) for one in new.spec.workload.manifests)
    return _identified(new.with_spec(workload=Workload(manifests)), old, WORK_ID_LABEL)


def _identified(new: T, old: T | None, label: str) -> T:
    labels = new.metadata.labels
    known = old.metadata.labels.get(label) if old is not None else None
    if known is not None and labels.get(label) != known:
        return new.with_meta(labels={**labels, label: known})
    return new if label in labels else new.with_meta(labels={**labels, label: new.metadata.uid})


def validate_binding(new: Binding, old: Binding | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a binding."""
    spec, causes = new.spec, list[Cause]()
    for field, value in (
        ("apiVersion", spec.resource.api_version),
        ("kind", spec.resource.kind),
        ("name", spec.resource.name),
    ):
        if not value:
            causes.append(required(f"spec.resource.{field}"))
    causes += _of_another_namespace(new, old)
    causes += _orders(new, old)
    causes += _dependencies(new)
    causes += _targets([one.name for one in spec.clusters], [one.replicas for one in spec.clusters])
    causes += _tasks(spec.graceful_eviction_tasks)
    if spec.replicas < 0:
        causes.append(invalid("spec.replicas", spec.replicas, "must be greater than or equal to 0"))
    return causes


def _of_another_namespace(new: Binding, old: Binding | None) -> Iterator[Cause]:
    """Yield the cause if a ResourceBinding names an object outside its own namespace.

    Whoever may write bindings in one namespace could otherwise propagate the objects of another namespace, or take the
    names of their Works. A binding that names such an object already may stay as it is.
    """
    named, own = new.spec.resource.namespace, new.metadata.namespace
    if own and named != own and (old is None or old.spec.resource.namespace != named):
        yield invalid("spec.resource.namespace", named, f'must be "{own}", the namespace of the binding')


def _orders(new: Binding, old: Binding | None) -> Iterator[Cause]:
    """Yield the cause if a write adds or changes orders: they name their author, whom the API knows. Removing them is
    allowed, as a release is."""
    before = None if old is None else old.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION)
    after = new.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION)
    if after is not None and after != before:
        rule = "an order is given with POST …/evictions/<name>/{hold,release,skip,expedite}; leave this annotation out"
        yield forbidden(f"metadata.annotations[{EVICTION_ORDERS_ANNOTATION}]", rule)


def _dependencies(binding: Binding) -> Iterator[Cause]:
    """The annotation that lists what goes along with a namespaced binding."""
    said = binding.metadata.annotations.get(DEPENDENCIES_ANNOTATION)
    if said is None or not binding.metadata.namespace:
        return
    try:
        listed = isinstance(msgspec.json.decode(said), list)
    except msgspec.DecodeError:
        listed = False
    if not listed:
        field = f"metadata.annotations[{DEPENDENCIES_ANNOTATION}]"
        yield invalid(field, said, "annotation value must be a valid JSON list")


def _targets(names: Sequence[str], replicas: Sequence[int]) -> Iterator[Cause]:
    for index, name in enumerate(names):
        path = f"spec.clusters[{index}]"
        if not name:
            yield required(f"{path}.name")
        if name in names[:index]:
            yield duplicate(f"{path}.name", name, "a cluster is a target once")
        if replicas[index] < 0:
            yield invalid(f"{path}.replicas", replicas[index], "must be greater than or equal to 0")


def _tasks(tasks: Sequence[GracefulEvictionTask]) -> Iterator[Cause]:
    leaving = [task.from_cluster for task in tasks]
    for index, task in enumerate(tasks):
        path = f"spec.gracefulEvictionTasks[{index}]"
        if not task.from_cluster:
            yield required(f"{path}.fromCluster")
        if task.from_cluster in leaving[:index]:
            yield duplicate(f"{path}.fromCluster", task.from_cluster, "a cluster is left once")
        if task.purge_mode not in ("", DIRECTLY, GRACEFULLY, NEVER):
            yield unsupported(f"{path}.purgeMode", task.purge_mode, (DIRECTLY, GRACEFULLY, NEVER))
        if len(task.reason) > MAX_REASON:
            yield invalid(f"{path}.reason", task.reason, f"must be no more than {MAX_REASON} characters")
        if len(task.message) > MAX_MESSAGE:
            yield invalid(f"{path}.message", task.message, f"must be no more than {MAX_MESSAGE} characters")
        for value in task.preserved_label_state.values():
            for rule in label_value_errors(value):
                yield invalid(f"{path}.preservedLabelState", value, rule)


def agent_work_faults(new: Work, old: Work) -> list[Cause]:
    """Return what an agent changed of a Work beside its status: nothing but its own finalizer, once the Work is being
    deleted. What admission itself completes (the permanent id of a Work that a controller made) is no change."""
    completed = _completed(old, None)
    causes = [
        forbidden(field, "an agent writes the status of its Works, and nothing else")
        for field, allowed, after in (
            ("metadata.labels", (old.metadata.labels, completed.metadata.labels), new.metadata.labels),
            ("metadata.annotations", (old.metadata.annotations,), new.metadata.annotations),
            ("metadata.ownerReferences", (old.metadata.owner_references,), new.metadata.owner_references),
            ("spec", (old.spec, completed.spec), new.spec),
        )
        if after not in allowed
    ]
    before, after = old.metadata.finalizers, new.metadata.finalizers
    freed = tuple(one for one in before if one != WORK_FINALIZER)
    if after != before and (after != freed or old.metadata.deletion_timestamp is None):
        rule = f"an agent takes off {WORK_FINALIZER}, when the Work is being deleted, and changes no other finalizer"
        causes.append(forbidden("metadata.finalizers", rule))
    return causes


def validate_work(new: Work, old: Work | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a Work. Manifests that stay as they are hinder nobody."""
    return [*_reserved(new, old), *_manifests(new, old)]


def _reserved(new: Work, old: Work | None) -> Iterator[Cause]:
    """Controllers find out by these annotations what a Work was made for: they alone write them."""
    before = {} if old is None else old.metadata.annotations
    for name in (BINDING_ANNOTATION, LEFTOVER_ANNOTATION, REDUCED_ANNOTATION):
        if new.metadata.annotations.get(name) != before.get(name):
            yield forbidden(f"metadata.annotations[{name}]", "is written by Lifeboat alone; leave it as it is")


def _manifests(new: Work, old: Work | None) -> list[Cause]:
    manifests = new.spec.workload.manifests
    if old is not None and old.spec.workload.manifests == manifests:
        return []
    return [
        cause
        for index, manifest in enumerate(manifests)
        for cause in manifest_rules.faults(manifest, f"spec.workload.manifests[{index}]")
    ]

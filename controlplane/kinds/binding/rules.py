"""Defaults and validation of bindings, which users can write as well [binding-objects]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from controlplane.apimachinery.causes import duplicate, forbidden, immutable, invalid, repeated, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.names import (
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    DEPENDENCIES_ANNOTATION,
    EVICTION_ORDERS_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
)
from controlplane.apimachinery.selectors import label_value_errors
from controlplane.kinds.binding import Binding, GracefulEvictionTask, manual_placement
from controlplane.kinds.permanent_id import with_permanent_id
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER, FailoverBehavior, rename_purge_mode
from controlplane.kinds.policy import normalise as normalise_failover
from controlplane.settings import Settings

MAX_REASON, MAX_MESSAGE = 32, 1024


def normalise(doc: dict[str, Any]) -> list[str]:
    """Replace deprecated names of purge modes in place. Return a warning for each [purge-modes].

    A binding of an older Karmada has them, in its failover and in its tasks.
    """
    warnings = normalise_failover(doc)
    spec = doc.get("spec")
    tasks = spec.get("gracefulEvictionTasks") if isinstance(spec, dict) else None
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(task, dict):
            warnings += rename_purge_mode(task, f"spec.gracefulEvictionTasks[{index}]")
    return warnings


def default(new: Binding, old: Binding | None, settings: Settings) -> Binding:
    """Return a binding with its permanent id, and with a mark if a user changed its targets [edits-by-hand]."""
    label = RESOURCE_BINDING_ID_LABEL if new.metadata.namespace else CLUSTER_RESOURCE_BINDING_ID_LABEL
    return manual_placement.with_mark(with_permanent_id(new, old, label), old)


def validate(new: Binding, old: Binding | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a binding."""
    spec, causes = new.spec, list[Cause]()
    for field, value in (
        ("apiVersion", spec.resource.api_version),
        ("kind", spec.resource.kind),
        ("name", spec.resource.name),
    ):
        if not value:
            causes.append(required(f"spec.resource.{field}"))
    causes += _of_another_namespace(new, old)
    causes += _of_another_object(new, old)
    causes += _orders(new, old)
    causes += _dependencies(new)
    causes += _targets([target.name for target in spec.clusters], [target.replicas for target in spec.clusters])
    causes += _tasks(spec.graceful_eviction_tasks)
    if spec.failover is not None and (old is None or spec.failover != old.spec.failover):
        causes += _purge_modes(spec.failover)
    if spec.replicas < 0:
        causes.append(invalid("spec.replicas", spec.replicas, "must be greater than or equal to 0"))
    return causes


def _of_another_namespace(new: Binding, old: Binding | None) -> Iterator[Cause]:
    """Yield the cause if a ResourceBinding names an object outside its own namespace.

    Otherwise a user with access to one namespace could propagate objects of another namespace, or take the names of
    their Works. A stored binding that already names such an object can still be updated.
    """
    named, own = new.spec.resource.namespace, new.metadata.namespace
    if own and named != own and (old is None or old.spec.resource.namespace != named):
        yield invalid("spec.resource.namespace", named, f'must be "{own}", the namespace of the binding')


def _of_another_object(new: Binding, old: Binding | None) -> Iterator[Cause]:
    """Yield a cause for each part of the identity of its object that a write of a binding changes.

    Otherwise a user who may edit targets could send every Secret of the namespace to a cluster, without the right to
    read it, and the copies of the workload would belong to no binding. The version of the API may change.
    """
    if old is None:
        return
    now, before = new.spec.resource, old.spec.resource
    if now.api_version.rpartition("/")[0] != before.api_version.rpartition("/")[0]:
        yield immutable("spec.resource.apiVersion", now.api_version)
    if now.kind != before.kind:
        yield immutable("spec.resource.kind", now.kind)
    if now.name != before.name:
        yield immutable("spec.resource.name", now.name)
    if not new.metadata.namespace and now.namespace != before.namespace:
        yield immutable("spec.resource.namespace", now.namespace)


def _orders(new: Binding, old: Binding | None) -> Iterator[Cause]:
    """Yield the cause if a write adds or changes the annotation with operators' orders.

    Orders name their author, which only the API can verify. Removing the annotation is allowed, like releasing a hold.
    """
    before = None if old is None else old.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION)
    after = new.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION)
    if after is not None and after != before:
        rule = "remove this annotation; give orders with lifeboat hold, release, skip or expedite"
        yield forbidden(f"metadata.annotations[{EVICTION_ORDERS_ANNOTATION}]", rule)


def _dependencies(binding: Binding) -> Iterator[Cause]:
    """Yield the cause if the annotation that lists the dependencies of a namespaced binding is not a JSON list."""
    text = binding.metadata.annotations.get(DEPENDENCIES_ANNOTATION)
    if text is None or not binding.metadata.namespace:
        return
    try:
        listed = isinstance(msgspec.json.decode(text), list)
    except msgspec.DecodeError:
        listed = False
    if not listed:
        field = f"metadata.annotations[{DEPENDENCIES_ANNOTATION}]"
        yield invalid(field, text, "annotation value must be a valid JSON list")


def _targets(names: Sequence[str], replicas: Sequence[int]) -> Iterator[Cause]:
    twice = repeated(names)
    for index, name in enumerate(names):
        path = f"spec.clusters[{index}]"
        if not name:
            yield required(f"{path}.name")
        if index in twice:
            yield duplicate(f"{path}.name", name, "each cluster can be a target only once")
        if replicas[index] < 0:
            yield invalid(f"{path}.replicas", replicas[index], "must be greater than or equal to 0")


def _purge_modes(failover: FailoverBehavior) -> Iterator[Cause]:
    """Yield the causes against purge modes that do not exist: an eviction would take them for Gracefully."""
    for name, behaviour, modes in (
        ("cluster", failover.cluster, (DIRECTLY, GRACEFULLY)),
        ("application", failover.application, (DIRECTLY, GRACEFULLY, NEVER)),
    ):
        if behaviour is not None and behaviour.purge_mode not in modes:
            yield unsupported(f"spec.failover.{name}.purgeMode", behaviour.purge_mode, modes)


def _tasks(tasks: Sequence[GracefulEvictionTask]) -> Iterator[Cause]:
    twice = repeated(task.from_cluster for task in tasks)
    for index, task in enumerate(tasks):
        path = f"spec.gracefulEvictionTasks[{index}]"
        if not task.from_cluster:
            yield required(f"{path}.fromCluster")
        if index in twice:
            yield duplicate(f"{path}.fromCluster", task.from_cluster, "each cluster can have only one task")
        if task.purge_mode not in ("", DIRECTLY, GRACEFULLY, NEVER):
            yield unsupported(f"{path}.purgeMode", task.purge_mode, (DIRECTLY, GRACEFULLY, NEVER))
        if len(task.reason) > MAX_REASON:
            yield invalid(f"{path}.reason", task.reason, f"must be no more than {MAX_REASON} characters")
        if len(task.message) > MAX_MESSAGE:
            yield invalid(f"{path}.message", task.message, f"must be no more than {MAX_MESSAGE} characters")
        for value in task.preserved_label_state.values():
            for rule in label_value_errors(value):
                yield invalid(f"{path}.preservedLabelState", value, rule)

"""Dependencies: what a workload needs beside it goes where it goes, and stays where it still is (semantics 2.15)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controlplane import bindings, interpret
from controlplane.identity import child_uid
from controlplane.kinds.binding import Binding, BindingSnapshot, ObjectReference, ResourceBindingSpec, TargetCluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.meta import ObjectMeta, Ref, kind_key, to_seconds
from controlplane.names import (
    BINDING_FINALIZER,
    CLUSTER_BINDING_FINALIZER,
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    DEPENDENCIES_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
    depended_by_label,
)


def needed(template: Template) -> list[Ref]:
    """Return the objects a workload names; those chosen by selector are not followed."""
    ask = interpret.of(template.api_version, template.kind).dependencies
    found = () if ask is None else ask(template.document())
    refs = (Ref(kind_key(one.api_version, one.kind), one.namespace, one.name) for one in found if one.name)
    return sorted(set(refs))


def annotated(binding: Binding, refs: Iterable[Ref]) -> Binding:
    """Return a workload's binding with the list of what it needs; the same one where it says so already."""
    rest = {key: value for key, value in binding.metadata.annotations.items() if key != DEPENDENCIES_ANNOTATION}
    listed = [{"kind": ref.kind, "namespace": ref.namespace, "name": ref.name} for ref in refs]
    if listed:
        rest[DEPENDENCIES_ANNOTATION] = msgspec.json.encode(listed).decode()
    return binding.with_meta(annotations=rest)


def places(parent: Binding) -> tuple[TargetCluster, ...]:
    """Return where a workload is: its targets, and the clusters it has not left yet."""
    targets = {one.name: TargetCluster(one.name, one.replicas) for one in parent.spec.clusters}
    for task in parent.spec.graceful_eviction_tasks:
        if task.purge_mode != DIRECTLY:
            targets.setdefault(task.from_cluster, TargetCluster(task.from_cluster, task.replicas or 0))
    return tuple(targets[name] for name in sorted(targets))


def required(attached: Binding, parent: Ref, clusters: tuple[TargetCluster, ...] | None) -> Binding:
    """Return a binding that a workload needs on these clusters; None: it needs it no more."""
    others = tuple(
        one for one in attached.spec.required_by if (one.namespace, one.name) != (parent.namespace, parent.name)
    )
    label = depended_by_label(parent.namespace, parent.name)
    labels = {key: value for key, value in attached.metadata.labels.items() if key != label}
    if clusters is not None:
        others = (*others, BindingSnapshot(parent.namespace, parent.name, clusters))
        labels[label] = "true"
    ordered = tuple(sorted(others, key=lambda one: (one.namespace, one.name)))
    return attached.with_spec(required_by=ordered).with_meta(labels=labels)


def created(template: Template, parent: Binding, *, now: datetime) -> Binding:
    """Return the attached binding of an object that no policy propagates."""
    place = template.metadata
    ref = bindings.binding_ref(template.ref)
    namespaced = bool(place.namespace)
    uid = child_uid(place.uid, "binding", ref.name)
    label = RESOURCE_BINDING_ID_LABEL if namespaced else CLUSTER_RESOURCE_BINDING_ID_LABEL
    replicas, requirements = bindings.demand(template)
    made = Binding(
        api_version=bindings.API_VERSION,
        kind=bindings.NAMESPACED if namespaced else bindings.CLUSTER_SCOPED,
        metadata=ObjectMeta(
            name=ref.name,
            namespace=ref.namespace,
            uid=uid,
            generation=1,
            creation_timestamp=to_seconds(now),
            labels={label: uid},
            finalizers=(BINDING_FINALIZER if namespaced else CLUSTER_BINDING_FINALIZER,),
        ),
        spec=ResourceBindingSpec(
            resource=ObjectReference(
                template.api_version, template.kind, place.name, place.namespace, place.uid, place.resource_version
            ),
            replicas=replicas,
            replica_requirements=requirements,
            conflict_resolution=parent.spec.conflict_resolution,
            preserve_resources_on_deletion=parent.spec.preserve_resources_on_deletion,
        ),
    )
    return required(made, parent.ref, places(parent)).with_meta(generation=1)


def idle(attached: Binding) -> bool:
    """Test whether nobody needs an attached binding any more: no workload, no policy."""
    return not attached.spec.required_by and attached.spec.placement is None

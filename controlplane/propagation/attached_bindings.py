"""Attached bindings: the objects that a workload depends on are propagated to the clusters of the workload
[dependency-propagation].

An attached binding lists the bindings that need it in `spec.requiredBy`, with their clusters. It has no replicas: an
object that is a workload itself keeps those of its template on each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from controlplane import interpret
from controlplane.apimachinery.meta import ObjectMeta, Ref, kind_key, to_seconds
from controlplane.apimachinery.names import (
    BINDING_FINALIZER,
    CLUSTER_BINDING_FINALIZER,
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    DEPENDENCIES_ANNOTATION,
    POLICY_CONFLICT_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
    depended_by_label,
)
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.apimachinery.uids import child_uid
from controlplane.engine.state import Selection
from controlplane.interpret import known_rules
from controlplane.interpret.customized import DEPENDENCIES
from controlplane.interpret.interpreter import Dependency
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.binding import Binding, BindingSnapshot, ObjectReference, ResourceBindingSpec, TargetCluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.propagation import bindings

ABORT: Final = "Abort"
OVERWRITE: Final = "Overwrite"


class Policy(NamedTuple):
    """How an attached binding handles conflicts and deletion. `conflict`: the fields in which the bindings that need it
    differ, in Karmada's words; "": in none."""

    conflict_resolution: str
    preserve_resources_on_deletion: bool | None
    conflict: str = ""


def needed(template: Template) -> list[Dependency]:
    """Return the objects that a workload depends on, by name or by label selector.

    Raises InterpretationFailed, Unanswered.
    """
    ask = interpret.interpreter_for(template.api_version, template.kind).dependencies
    listed = () if ask is None else known_rules.result(DEPENDENCIES, ask, template.document(), tuple)
    by_text = {_text(each): each for each in listed if each.name or each.label_selector is not None}
    return [by_text[text] for text in sorted(by_text)]


def named(needs: Iterable[Dependency]) -> list[Ref]:
    """Return the dependencies that are given by name."""
    return [Ref(kind_key(need.api_version, need.kind), need.namespace, need.name) for need in needs if need.name]


def selections(needs: Iterable[Dependency]) -> list[Selection]:
    """Return the dependencies that are given by label selector."""
    return [
        Selection(
            kind_key(need.api_version, need.kind), need.namespace, msgspec.convert(need.label_selector, LabelSelector)
        )
        for need in needs
        if not need.name
    ]


def _text(need: Dependency) -> str:
    return msgspec.json.encode(_document(need), order="sorted").decode()


def _document(need: Dependency) -> dict[str, Any]:
    """Return a dependency in Karmada's format for the annotation."""
    words = {"apiVersion": need.api_version, "kind": need.kind, "namespace": need.namespace}
    return {**words, "name": need.name} if need.name else {**words, "labelSelector": need.label_selector}


def annotated(binding: Binding, needs: Iterable[Dependency]) -> Binding:
    """Return the binding of a workload with the annotation that lists its dependencies."""
    rest = {key: value for key, value in binding.metadata.annotations.items() if key != DEPENDENCIES_ANNOTATION}
    listed = [_document(need) for need in needs]
    if listed:
        rest[DEPENDENCIES_ANNOTATION] = msgspec.json.encode(listed).decode()
    return binding.with_meta(annotations=rest)


def places(parent: Binding) -> tuple[TargetCluster, ...]:
    """Return the targets of a workload, and the clusters that a copy is leaving gracefully.

    Clusters that a copy leaves Directly are not included.
    """
    targets = {target.name: TargetCluster(target.name, target.replicas) for target in parent.spec.clusters}
    for task in parent.spec.graceful_eviction_tasks:
        if task.purge_mode != DIRECTLY:
            targets.setdefault(task.from_cluster, TargetCluster(task.from_cluster, task.replicas or 0))
    return tuple(targets[name] for name in sorted(targets))


def required(attached: Binding, parent: Ref, clusters: tuple[TargetCluster, ...] | None) -> Binding:
    """Return an attached binding that the workload `parent` needs on these clusters. `clusters` None: not any more."""
    others = tuple(
        snapshot
        for snapshot in attached.spec.required_by
        if (snapshot.namespace, snapshot.name) != (parent.namespace, parent.name)
    )
    label = depended_by_label(parent.namespace, parent.name)
    labels = {key: value for key, value in attached.metadata.labels.items() if key != label}
    if clusters is not None:
        others = (*others, BindingSnapshot(parent.namespace, parent.name, clusters))
        labels[label] = "true"
    ordered = tuple(sorted(others, key=lambda snapshot: (snapshot.namespace, snapshot.name)))
    return attached.with_spec(required_by=ordered).with_meta(labels=labels)


def agreed(parents: Iterable[Binding]) -> Policy | None:
    """Return the policy that follows from all bindings that need the same object.

    If one of them has Overwrite, that is used. If one of them preserves resources on deletion, they are preserved.
    None: no binding needs the object.
    """
    specs = [parent.spec for parent in parents]
    if not specs:
        return None
    conflicts = {spec.conflict_resolution or ABORT for spec in specs}
    preserves = {spec.preserve_resources_on_deletion is True for spec in specs}
    differences = [
        *(["ConflictResolution conflicted (Overwrite vs Abort)"] if len(conflicts) > 1 else ()),
        *(["PreserveResourcesOnDeletion conflicted (true vs false)"] if len(preserves) > 1 else ()),
    ]
    resolution = OVERWRITE if OVERWRITE in conflicts else specs[0].conflict_resolution
    preserve = True if True in preserves else specs[0].preserve_resources_on_deletion
    return Policy(resolution, preserve, "; ".join(differences))


def treated(attached: Binding, policy: Policy | None) -> Binding:
    """Return an attached binding with this policy and without replicas, and its conflict as an annotation.

    A binding with a PropagationPolicy of its own keeps that, and has no annotation.
    """
    if policy is None or attached.spec.placement is not None:
        return _with_conflict(attached, "")
    return _with_conflict(attached, policy.conflict).with_spec(
        replicas=0,
        replica_requirements=None,
        conflict_resolution=policy.conflict_resolution,
        preserve_resources_on_deletion=policy.preserve_resources_on_deletion,
    )


def _with_conflict(attached: Binding, conflict: str) -> Binding:
    if conflict_of(attached) == conflict:
        return attached
    rest = {key: value for key, value in attached.metadata.annotations.items() if key != POLICY_CONFLICT_ANNOTATION}
    return attached.with_meta(annotations={**rest, POLICY_CONFLICT_ANNOTATION: conflict} if conflict else rest)


def conflict_of(attached: Binding) -> str:
    """Return in which fields the policies of the workloads that need an object differ. "": in none."""
    return attached.metadata.annotations.get(POLICY_CONFLICT_ANNOTATION, "")


def needing(attached: Binding) -> list[Ref]:
    """Return the bindings that need an attached binding."""
    kinds = {True: RESOURCE_BINDING, False: CLUSTER_RESOURCE_BINDING}
    return [Ref(kinds[bool(parent.namespace)], parent.namespace, parent.name) for parent in attached.spec.required_by]


def created(template: Template, parent: Binding, *, now: datetime) -> Binding:
    """Return a new attached binding for an object that no policy propagates."""
    place = template.metadata
    ref = bindings.binding_ref(template.ref)
    namespaced = bool(place.namespace)
    uid = child_uid(place.uid, "binding", ref.name)
    label = RESOURCE_BINDING_ID_LABEL if namespaced else CLUSTER_RESOURCE_BINDING_ID_LABEL
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
            conflict_resolution=parent.spec.conflict_resolution,
            preserve_resources_on_deletion=parent.spec.preserve_resources_on_deletion,
        ),
    )
    return required(made, parent.ref, places(parent)).with_meta(generation=1)


def idle(attached: Binding) -> bool:
    """Test whether neither a workload nor a policy needs an attached binding any more."""
    return not attached.spec.required_by and attached.spec.placement is None

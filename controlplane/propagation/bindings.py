"""Creates and updates the binding of a template from the template and its policy [binding-objects]
[policy-matching]."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane import interpret
from controlplane.apimachinery.meta import ObjectMeta, OwnerReference, Ref, kind_key, to_seconds
from controlplane.apimachinery.names import (
    BINDING_FINALIZER,
    CLUSTER_BINDING_FINALIZER,
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    DIRECTLY_UNREACHABLE_ANNOTATION,
    DRIFT_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
    TOGETHER_ANNOTATION,
    binding_name,
)
from controlplane.apimachinery.uids import child_uid
from controlplane.interpret import known_rules, results
from controlplane.kinds.binding import (
    Binding,
    BindingPriority,
    BindingSuspension,
    Component,
    ObjectReference,
    ResourceBindingSpec,
    WorkloadAffinityGroups,
)
from controlplane.kinds.policy import (
    Placement,
    Policy,
    PropagationSpec,
    WorkloadAffinityTerm,
    placement_rules,
)
from controlplane.kinds.template import Template
from controlplane.propagation import matching

API_VERSION = "work.karmada.io/v1alpha2"
NAMESPACED, CLUSTER_SCOPED = "ResourceBinding", "ClusterResourceBinding"
PASSED_ON = (DIRECTLY_UNREACHABLE_ANNOTATION, DRIFT_ANNOTATION, TOGETHER_ANNOTATION)
"""Annotations that are copied from a policy to its bindings."""
OUTLASTING = (DIRECTLY_UNREACHABLE_ANNOTATION, DRIFT_ANNOTATION)
"""Those of them that a binding keeps without its policy, as it keeps its placement and its rules for failovers."""


def binding_ref(template: Ref) -> Ref:
    """Return the reference of a template's binding."""
    kind = NAMESPACED if template.namespace else CLUSTER_SCOPED
    name = binding_name(template.kind.rpartition("/")[2], template.name)
    return Ref(f"work.karmada.io/{kind}", template.namespace, name)


def template_ref(binding: Binding) -> Ref:
    """Return the reference of a binding's template."""
    resource = binding.spec.resource
    return Ref(kind_key(resource.api_version, resource.kind), resource.namespace, resource.name)


def template_of(binding: Binding) -> Template:
    """Return the template of a binding with name and uid but without content, as the object of an Event."""
    resource = binding.spec.resource
    return Template(
        api_version=resource.api_version,
        kind=resource.kind,
        metadata=ObjectMeta(name=resource.name, namespace=resource.namespace, uid=resource.uid),
    )


def create(
    template: Template, policy: Policy, *, priority: int | None = None, gates: dict[str, bool], now: datetime
) -> Binding:
    """Return a new binding for a template under a policy. `priority`: of its PriorityClass; None: it has none."""
    place = template.metadata
    namespaced = bool(place.namespace)
    labels, annotations = _claim(policy)
    name = binding_name(template.kind, place.name)
    uid = child_uid(place.uid, "binding", name)
    id_label = RESOURCE_BINDING_ID_LABEL if namespaced else CLUSTER_RESOURCE_BINDING_ID_LABEL
    return Binding(
        api_version=API_VERSION,
        kind=NAMESPACED if namespaced else CLUSTER_SCOPED,
        metadata=ObjectMeta(
            name=name,
            namespace=place.namespace,
            uid=uid,
            generation=1,
            creation_timestamp=to_seconds(now),
            labels={**labels, id_label: uid},
            annotations=annotations,
            finalizers=(BINDING_FINALIZER if namespaced else CLUSTER_BINDING_FINALIZER,),
            owner_references=(_owner(template),),
        ),
        spec=ResourceBindingSpec(**_wanted(template, policy, priority, gates)),
    )


def refresh(
    old: Binding, template: Template, policy: Policy, *, priority: int | None = None, gates: dict[str, bool]
) -> Binding:
    """Return a binding that is updated from its template and policy. If nothing changes, the same object is returned.

    Fields that other controllers decide stay: clusters, tasks, requiredBy, and whether scheduling is suspended.
    """
    wanted = _wanted(template, policy, priority, gates)
    if old.spec.suspension is not None and old.spec.suspension.scheduling is not None:
        base = wanted["suspension"] or BindingSuspension()
        wanted["suspension"] = replace(base, scheduling=old.spec.suspension.scheduling)
    # A new resource version of the template alone is no change, because every status update raises it.
    seen = replace(wanted["resource"], resource_version=old.spec.resource.resource_version)
    spec = replace(old.spec, **{**wanted, "resource": seen})
    new = old.with_spec(**wanted) if spec != old.spec else old
    labels, annotations = _claim(policy)
    return _claimed(new, labels, annotations, owner=_owner(template))


def with_requests_of(new: Binding, old: Binding) -> Binding:
    """Return a new state of a binding with the requests of the old one; the same object if they are equal.

    A new resource version of the template alone is no change. If a gate makes components of the replicas, or replicas
    of the components, the replicas are those of the old one as well.
    """
    before, after = old.spec, new.spec
    if (before.replica_requirements, before.components) == (after.replica_requirements, after.components):
        return new
    seen = replace(after.resource, resource_version=before.resource.resource_version)
    same = {"replica_requirements": before.replica_requirements, "components": before.components, "resource": seen}
    kept = {name: getattr(after, name) for name in after.__struct_fields__} | same
    if bool(before.components) != bool(after.components):
        kept["replicas"] = before.replicas
    metadata = new.metadata
    return old.with_meta(
        labels=metadata.labels, annotations=metadata.annotations, owner_references=metadata.owner_references
    ).with_spec(**kept)


def is_made_for(binding: Binding, template: Template) -> bool:
    """Test whether a policy made a binding for this template, whether the policy still exists or not."""
    owners = (owner.uid for owner in binding.metadata.owner_references if owner.controller)
    return binding.spec.placement is not None and template.metadata.uid in owners


def with_requests(binding: Binding, template: Template) -> Binding:
    """Return a binding with what its template requests now. Raises InterpretationFailed, Unanswered."""
    if binding.spec.components:
        return binding.with_spec(components=components(template) or ())
    return binding.with_spec(replica_requirements=demand(template).requirements)


def release(old: Binding) -> Binding:
    """Return a binding that no longer belongs to a policy. Its placement and its copies stay, and what the policy says
    about them [policy-matching]."""
    kept = {name: old.metadata.annotations[name] for name in OUTLASTING if name in old.metadata.annotations}
    return _claimed(old, {}, kept, owner=None)


def _claimed(binding: Binding, labels: dict[str, str], annotations: dict[str, str], *, owner: Any) -> Binding:
    kept_labels, kept_annotations = matching.unclaimed(binding.metadata.labels, binding.metadata.annotations)
    for passed_on in PASSED_ON:
        kept_annotations.pop(passed_on, None)
    owners = binding.metadata.owner_references
    if owner is not None and owner not in owners:
        owners = (*(reference for reference in owners if not reference.controller), owner)
    return binding.with_meta(
        labels={**kept_labels, **labels}, annotations={**kept_annotations, **annotations}, owner_references=owners
    )


def _claim(policy: Policy) -> tuple[dict[str, str], dict[str, str]]:
    labels, annotations = matching.claim(policy)
    own = policy.metadata.annotations
    return labels, {**annotations, **{name: own[name] for name in PASSED_ON if name in own}}


def _owner(template: Template) -> OwnerReference:
    return OwnerReference(
        api_version=template.api_version,
        kind=template.kind,
        name=template.metadata.name,
        uid=template.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def _wanted(template: Template, policy: Policy, priority: int | None, gates: dict[str, bool]) -> dict[str, Any]:
    """Return the fields of a binding's spec that follow from its template and policy."""
    place, asked = template.metadata, policy.spec
    parts = components(template) if gates.get("MultiplePodTemplatesScheduling") else None
    replicas, requirements = demand(template) if parts is None else (0, None)
    return {
        "resource": ObjectReference(
            api_version=template.api_version,
            kind=template.kind,
            namespace=place.namespace,
            name=place.name,
            uid=place.uid,
            resource_version=place.resource_version,
        ),
        "replicas": replicas,
        "replica_requirements": requirements,
        "components": parts or (),
        "placement": placement_rules.effective(asked.placement),
        "propagate_deps": bool(asked.propagate_deps),
        "scheduler_name": asked.scheduler_name,
        "failover": asked.failover,
        "conflict_resolution": asked.conflict_resolution,
        "suspension": _suspension(asked),
        "preserve_resources_on_deletion": asked.preserve_resources_on_deletion,
        "schedule_priority": None if priority is None else BindingPriority(priority),
        "workload_affinity_groups": _groups(template, asked.placement) if gates.get("WorkloadAffinity") else None,
    }


def demand(template: Template) -> interpret.Demand:
    """Return the replicas of a template and their requirements; 0 and None for a kind without replicas.

    Raises InterpretationFailed, Unanswered.
    """
    ask = interpret.interpreter_for(template.api_version, template.kind).replicas
    if ask is None:
        return interpret.Demand(0, None)
    return known_rules.result("InterpretReplica", ask, template.document(), results.checked_demand)


def components(template: Template) -> tuple[Component, ...] | None:
    """Return the components of a template; None for a kind that has one pod template, or none.

    Raises InterpretationFailed, Unanswered.
    """
    ask = interpret.interpreter_for(template.api_version, template.kind).components
    if ask is None:
        return None
    return known_rules.result("InterpretComponent", ask, template.document(), results.checked_components)


def _suspension(asked: PropagationSpec) -> BindingSuspension | None:
    """Return what a policy suspends, as a binding has it. None: nothing."""
    given = asked.suspension
    return None if given is None else BindingSuspension(given.dispatching, given.dispatching_on_clusters)


def _groups(template: Template, placement: Placement) -> WorkloadAffinityGroups | None:
    """Return the workload affinity groups of a template, by its labels. None: it has none."""
    rule = placement.workload_affinity
    if rule is None:
        return None
    groups = WorkloadAffinityGroups(_group(template, rule.affinity), _group(template, rule.anti_affinity))
    return groups if groups != WorkloadAffinityGroups() else None


def _group(template: Template, term: WorkloadAffinityTerm | None) -> str:
    key = "" if term is None else term.group_by_label_key
    value = template.metadata.labels.get(key)
    return f"{key}={value}" if key and value is not None else ""


def priority_class(policy: PropagationSpec) -> str:
    """Return the name of a policy's PriorityClass. "": it names none."""
    return policy.schedule_priority.priority_class_name if policy.schedule_priority is not None else ""

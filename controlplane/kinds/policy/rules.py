"""Defaults, validation and warnings of PropagationPolicies and ClusterPropagationPolicies [policy-defaults]."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from controlplane.apimachinery.causes import immutable, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_FINALIZER,
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    DIRECTLY_UNREACHABLE_ANNOTATION,
    DRIFT_ANNOTATION,
    IMPORTED_ID_ANNOTATION,
    PROPAGATION_POLICY_FINALIZER,
    PROPAGATION_POLICY_ID_LABEL,
    TOGETHER_ANNOTATION,
)
from controlplane.apimachinery.selectors import selector_errors
from controlplane.kinds.binding.colocation_index import NO, YES
from controlplane.kinds.policy import (
    DRIFT_MODES,
    Policy,
    PropagationSpec,
    failover_rules,
    placement_rules,
    spread_rules,
    unreachable_wait,
)
from controlplane.settings import Settings

SERVICE_IMPORT = "ServiceImport"
PRIORITY_SOURCE = "KubePriorityClass"


def default(new: Policy, old: Policy | None, settings: Settings) -> Policy:
    """Return a policy with its defaults. A new policy also gets its permanent id, its finalizer and tolerations.

    Items of lists get no defaults, because `kubectl apply` compares whole lists and would find a difference. The code
    that uses an item applies its defaults: the namespace of a resource selector is that of the policy, and
    `placement_rules.effective` completes spread constraints.
    """
    spec, failover = new.spec, new.spec.failover
    placement = placement_rules.defaulted(spec.placement)
    if old is None:
        placement = placement_rules.with_default_tolerations(placement, settings.compat)
    if failover is not None:
        failover = failover_rules.defaulted(failover, None if old is None else old.spec.failover)
    needs_more = any(selector.kind == SERVICE_IMPORT for selector in spec.resource_selectors)
    propagate_deps = True if needs_more else spec.propagate_deps
    policy = replace(new, spec=replace(spec, placement=placement, propagate_deps=propagate_deps, failover=failover))
    return _marked(policy) if old is None else _still_marked(policy, old)


def _marked(policy: Policy) -> Policy:
    """Return a new policy with its permanent id, which its templates and bindings get, and with its finalizer.

    A label that the policy already has may come from the copy of another policy, so it is not the id. An import says
    in an annotation that it is.
    """
    annotations = dict(policy.metadata.annotations)
    own = annotations.pop(IMPORTED_ID_ANNOTATION, "") or policy.metadata.uid
    finalizer, kept = _finalizer(policy), policy.metadata.finalizers
    return policy.with_meta(
        labels={**policy.metadata.labels, id_label(policy): own},
        annotations=annotations,
        finalizers=kept if finalizer in kept else (*kept, finalizer),
    )


def _still_marked(policy: Policy, old: Policy) -> Policy:
    """Return a changed policy with its permanent id and finalizer. A replacement of the whole object may lack them."""
    label = id_label(old)
    given = old.metadata.labels.get(label)
    if given is not None and label not in policy.metadata.labels:
        policy = policy.with_meta(labels={**policy.metadata.labels, label: given})
    finalizer, kept = _finalizer(policy), policy.metadata.finalizers
    lost = finalizer in old.metadata.finalizers and finalizer not in kept
    going = old.metadata.deletion_timestamp is not None
    return policy.with_meta(finalizers=(*kept, finalizer)) if lost and not going else policy


def _finalizer(policy: Policy) -> str:
    return CLUSTER_PROPAGATION_POLICY_FINALIZER if policy.cluster_scoped else PROPAGATION_POLICY_FINALIZER


def id_label(policy: Policy) -> str:
    """Return the name of the label with the permanent id of a policy."""
    return CLUSTER_PROPAGATION_POLICY_ID_LABEL if policy.cluster_scoped else PROPAGATION_POLICY_ID_LABEL


def validate(new: Policy, old: Policy | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a policy."""
    spec, causes = new.spec, [*_selectors(new), *_choices(new.spec)]
    causes += placement_rules.validated(placement_rules.effective(spec.placement), "spec.placement")
    if spec.failover is not None:
        causes += failover_rules.validated(spec.failover, "spec.failover")
        if spec.failover.application is not None and not spec.propagate_deps:
            rule = "application failover is set, propagateDeps must be true"
            causes.append(invalid("spec.propagateDeps", spec.propagate_deps, rule))
    causes += _suspension(spec)
    causes += _priority(spec)
    causes += _proceed(new)
    causes += _drift(new)
    causes += _together(new)
    if old is not None:
        causes += _unchanged(new, old)
    return causes


def _selectors(policy: Policy) -> Iterator[Cause]:
    if not policy.spec.resource_selectors:
        yield required(
            "spec.resourceSelectors", "name at least one resource: a policy without selectors selects nothing"
        )
    for index, selector in enumerate(policy.spec.resource_selectors):
        path = f"spec.resourceSelectors[{index}]"
        for field, value in (("apiVersion", selector.api_version), ("kind", selector.kind)):
            if not value:
                yield required(f"{path}.{field}")
        if policy.metadata.namespace and selector.namespace not in ("", policy.metadata.namespace):
            rule = "namespace of resource selector must be the same as the namespace of the policy"
            yield invalid(f"{path}.namespace", selector.namespace, rule)
        if policy.spec.preemption == "Always" and not selector.name:
            rule = "name cannot be empty if preemption is Always, because the policy could claim unintended resources"
            yield invalid(f"{path}.name", selector.name, rule)
        if selector.label_selector is not None:
            for field, rule in selector_errors(selector.label_selector):
                yield invalid(f"{path}.labelSelector.{field}", selector.label_selector, rule)


def _choices(spec: PropagationSpec) -> Iterator[Cause]:
    for field, value, choices in (
        ("preemption", spec.preemption, ("Always", "Never")),
        ("conflictResolution", spec.conflict_resolution, ("Abort", "Overwrite")),
        ("activationPreference", spec.activation_preference, ("", "Lazy")),
    ):
        if value not in choices:
            yield unsupported(f"spec.{field}", value, choices)
    if not -(2**31) <= spec.priority < 2**31:
        yield invalid("spec.priority", spec.priority, "must fit into 32 bits")


def _suspension(spec: PropagationSpec) -> Iterator[Cause]:
    suspension = spec.suspension
    if suspension is None or suspension.dispatching_on_clusters is None:
        return
    if suspension.dispatching and suspension.dispatching_on_clusters.cluster_names:
        rule = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"
        yield invalid("spec.suspension", suspension, rule)


def _priority(spec: PropagationSpec) -> Iterator[Cause]:
    priority = spec.schedule_priority
    if priority is None:
        return
    if priority.priority_class_source != PRIORITY_SOURCE:
        yield unsupported(
            "spec.schedulePriority.priorityClassSource", priority.priority_class_source, (PRIORITY_SOURCE,)
        )
    if not priority.priority_class_name:
        yield required("spec.schedulePriority.priorityClassName")


def _proceed(policy: Policy) -> Iterator[Cause]:
    """Yield the cause to refuse the annotation about Directly evictions from unreachable clusters."""
    text = policy.metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION)
    if text is None or text == "Wait" or unreachable_wait.parse_wait(text) is not None:
        return
    rule = f"write Wait, or After=<seconds> with at most {unreachable_wait.MAX_DIGITS} digits, such as After=300"
    yield invalid(f"metadata.annotations[{DIRECTLY_UNREACHABLE_ANNOTATION}]", text, rule)


def _drift(policy: Policy) -> Iterator[Cause]:
    """Yield the cause against a value of DRIFT_ANNOTATION that is not supported."""
    text = policy.metadata.annotations.get(DRIFT_ANNOTATION)
    if text not in (None, *DRIFT_MODES):
        yield unsupported(f"metadata.annotations[{DRIFT_ANNOTATION}]", text, DRIFT_MODES)


def _together(policy: Policy) -> Iterator[Cause]:
    """Yield the cause to refuse the annotation about colocation of the workloads of a policy."""
    text = policy.metadata.annotations.get(TOGETHER_ANNOTATION)
    if text is not None and text not in (YES, NO):
        yield invalid(f"metadata.annotations[{TOGETHER_ANNOTATION}]", text, f'write "{YES}" or "{NO}"')


def _unchanged(new: Policy, old: Policy) -> Iterator[Cause]:
    if new.spec.scheduler_name != old.spec.scheduler_name:
        rule = "the schedulerName should not be updated; delete the policy and create it again"
        yield invalid("spec.schedulerName", new.spec.scheduler_name, rule)
    label = id_label(old)
    given = old.metadata.labels.get(label)
    if given is not None and new.metadata.labels.get(label) != given:
        yield immutable(f"metadata.labels[{label}]", new.metadata.labels.get(label, ""))


def warn(new: Policy, old: Policy | None, settings: Settings) -> list[str]:
    """Return warnings about fields that have no effect, or whose effect is easily misread."""
    spec, warnings = new.spec, list[str]()
    if spec.preemption == "Always" and not settings.gate("PropagationPolicyPreemption"):
        warnings.append("spec.preemption has no effect while the feature gate PropagationPolicyPreemption is off")
    if spec.placement.workload_affinity is not None and not settings.gate("WorkloadAffinity"):
        warnings.append("spec.placement.workloadAffinity has no effect while the feature gate WorkloadAffinity is off")
    if spec.failover is not None:
        warnings += failover_rules.warned(spec.failover, settings, "spec.failover")
    warnings += spread_rules.exceeded(spec.placement, "spec.placement.spreadConstraints")
    return warnings

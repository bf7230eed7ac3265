"""Decides which policy a template belongs to: selectors, precision, priority, claims, preemption [policy-matching]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_ID_LABEL,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
)
from controlplane.kinds import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from controlplane.kinds.policy import Policy, ResourceSelector
from controlplane.kinds.template import Template

# How precisely a selector matches an object. The larger number wins.
MISMATCH, EVERYTHING, BY_LABEL, BY_NAME = 0, 1, 2, 3

CLAIM_LABELS = (PROPAGATION_POLICY_ID_LABEL, CLUSTER_PROPAGATION_POLICY_ID_LABEL)
CLAIM_ANNOTATIONS = (
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
)


def precision(selector: ResourceSelector, template: Template) -> int:
    """Return how precisely a selector matches a template. A name beats a labelSelector. MISMATCH: it does not match."""
    metadata = template.metadata
    if selector.kind != template.kind or selector.api_version != template.api_version:
        return MISMATCH
    if selector.namespace and selector.namespace != metadata.namespace:
        return MISMATCH
    if selector.name:
        return BY_NAME if selector.name == metadata.name else MISMATCH
    if selector.label_selector is None:
        return EVERYTHING
    return BY_LABEL if selector.label_selector.matches(metadata.labels) else MISMATCH


def policy_precision(policy: Policy, template: Template) -> int:
    """Return how precisely a policy selects a template: by its most precise selector.

    MISMATCH: no selector selects it, or the policy is in another namespace.
    """
    if policy.metadata.namespace and policy.metadata.namespace != template.metadata.namespace:
        return MISMATCH
    return max((precision(selector, template) for selector in policy.spec.resource_selectors), default=MISMATCH)


def best(policies: Iterable[Policy], template: Template) -> Policy | None:
    """Return the policy that wins a template. None: no policy matches it.

    A matching PropagationPolicy beats every ClusterPropagationPolicy. Then the higher priority wins, then the more
    precise selector, then the smaller name. Policies that are being deleted do not count.
    """
    winner: Policy | None = None
    winner_rank: tuple[Any, ...] = ()
    for policy in policies:
        if policy.metadata.deletion_timestamp is not None:
            continue
        matched = policy_precision(policy, template)
        if matched:
            rank = (policy.cluster_scoped, -policy.spec.priority, -matched, policy.metadata.name)
            if winner is None or rank < winner_rank:
                winner, winner_rank = policy, rank
    return winner


def choose(
    policies: Sequence[Policy], claimed: Policy | None, template: Template, *, preemption: bool
) -> Policy | None:
    """Return the policy that a template should belong to. None: no policy matches it.

    `claimed`: the policy that it belongs to now. It keeps the template while it exists and matches. `preemption` (gate
    PropagationPolicyPreemption): policies with `preemption: Always` may take the template from it.
    """
    winner = best(policies, template)
    if claimed is None or not keeps(claimed, template):
        return winner
    if not preemption:
        return claimed
    takers = [policy for policy in policies if policy.spec.preemption == "Always" and may_preempt(policy, claimed)]
    return best(takers, template) or claimed


def keeps(policy: Policy | None, template: Template) -> bool:
    """Test whether a policy keeps a template that it has claimed: the policy exists and still selects the template."""
    return (
        policy is not None
        and policy.metadata.deletion_timestamp is None
        and policy_precision(policy, template) != MISMATCH
    )


def may_preempt(taker: Policy, holder: Policy) -> bool:
    """Test whether a policy may take templates from another policy.

    A PropagationPolicy may take them from a ClusterPropagationPolicy. Otherwise it needs a higher priority.
    """
    if taker.ref == holder.ref:
        return False
    if taker.cluster_scoped != holder.cluster_scoped:
        return holder.cluster_scoped
    return taker.spec.priority > holder.spec.priority


def permanent_id(policy: Policy) -> str:
    """Return the permanent id of a policy: its label, or its uid if admission added no label."""
    label = CLUSTER_PROPAGATION_POLICY_ID_LABEL if policy.cluster_scoped else PROPAGATION_POLICY_ID_LABEL
    return policy.metadata.labels.get(label) or policy.metadata.uid


def claim(policy: Policy) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations by which templates and bindings refer to their policy."""
    name = policy.metadata.name
    if policy.cluster_scoped:
        return {CLUSTER_PROPAGATION_POLICY_ID_LABEL: permanent_id(policy)}, {
            CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: name
        }
    return {PROPAGATION_POLICY_ID_LABEL: permanent_id(policy)}, {
        PROPAGATION_POLICY_NAMESPACE_ANNOTATION: policy.metadata.namespace,
        PROPAGATION_POLICY_NAME_ANNOTATION: name,
    }


def claimant(obj: Object) -> tuple[str, str] | None:
    """Return (namespace, name) of the policy that an object refers to. Namespace "": a ClusterPropagationPolicy. None:
    it refers to none."""
    annotations = obj.metadata.annotations
    if PROPAGATION_POLICY_NAME_ANNOTATION in annotations:
        namespace = annotations.get(PROPAGATION_POLICY_NAMESPACE_ANNOTATION, "")
        return namespace, annotations[PROPAGATION_POLICY_NAME_ANNOTATION]
    if CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION in annotations:
        return "", annotations[CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION]
    return None


def claiming_policy(obj: Object) -> Ref | None:
    """Return the policy that the claim on an object names. None: the object has no claim."""
    if (found := claimant(obj)) is None:
        return None
    namespace, name = found
    return Ref(PROPAGATION_POLICY if namespace else CLUSTER_PROPAGATION_POLICY, namespace, name)


def unclaimed(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels and annotations without the reference to a policy."""
    return (
        {key: value for key, value in labels.items() if key not in CLAIM_LABELS},
        {key: value for key, value in annotations.items() if key not in CLAIM_ANNOTATIONS},
    )

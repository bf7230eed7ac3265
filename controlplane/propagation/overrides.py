"""Override policies: which of them change an object for a cluster, in which order, and the result [override-policies].

ClusterOverridePolicies are applied before OverridePolicies. Within a scope, policies that select more precisely are
applied later, then those with a greater name. A later change wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from controlplane.apimachinery.meta import ObjectMeta, Struct, compact
from controlplane.apimachinery.names import APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES
from controlplane.kinds.binding import ObjectReference
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy, Overriders
from controlplane.kinds.policy.affinity import chooses
from controlplane.kinds.template import Template
from controlplane.propagation import override_bounds
from controlplane.propagation.matching import EVERYTHING, MISMATCH, precision
from controlplane.propagation.overriders import OverrideError, overridden

Document = dict[str, Any]


class Failure(Struct, frozen=True):
    """A policy that could not be applied for a cluster, and why."""

    policy: OverridePolicy
    cluster: str
    message: str


class OverrideFailed(Exception):
    """A policy could not be applied to an object, so the object is not sent to the cluster."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Overridden(Struct, frozen=True):
    """A manifest after override policies. `applied`: the policy of each applied rule, in the order of application."""

    manifest: Document
    applied: tuple[tuple[OverridePolicy, Overriders], ...] = ()

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the Work that name the applied policies."""
        found = {}
        for key, cluster_scoped in ((APPLIED_OVERRIDES, False), (APPLIED_CLUSTER_OVERRIDES, True)):
            rules = [(policy, rule) for policy, rule in self.applied if policy.cluster_scoped is cluster_scoped]
            if rules:
                found[key] = _listed(rules)
        return found


def apply(policies: Sequence[OverridePolicy], manifest: Document, cluster: Cluster) -> Overridden:
    """Return a manifest after all policies that select it, for a cluster. Raises OverrideFailed for the first failure.

    OverridePolicies select by the labels that ClusterOverridePolicies have set.
    """
    applied: list[tuple[OverridePolicy, Overriders]] = []
    work = override_bounds.Work()
    for cluster_scoped in (True, False):
        scope = [policy for policy in policies if policy.cluster_scoped is cluster_scoped]
        for policy, overriders in _rules(scope, manifest, cluster) if scope else ():
            try:
                changed = overridden(manifest, overriders, work.add)
                if not cluster_scoped:
                    override_bounds.check(manifest, changed)
            except OverrideError as error:
                raise OverrideFailed(Failure(policy, cluster.metadata.name, str(error))) from None
            manifest = changed
            applied.append((policy, overriders))
    return Overridden(manifest, tuple(applied))


def _rules(
    policies: Iterable[OverridePolicy], manifest: Document, cluster: Cluster
) -> list[tuple[OverridePolicy, Overriders]]:
    """Return the rules of one scope that apply to a manifest on a cluster, in the order of application."""
    ranked = sorted(
        ((rank, policy.metadata.name, policy) for policy in policies if (rank := _precision(policy, manifest))),
        key=lambda item: item[:2],
    )
    return [
        (policy, rule.overriders)
        for _rank, _name, policy in ranked
        for rule in policy.rules
        if chooses(rule.target_cluster, cluster)
    ]


def selecting(policies: Iterable[OverridePolicy], template: Template) -> tuple[OverridePolicy, ...]:
    """Return the policies that may change the copies of a template."""
    place = template.metadata
    reference = ObjectReference(
        api_version=template.api_version, kind=template.kind, namespace=place.namespace, name=place.name
    )
    return tuple(policy for policy in policies if may_select(policy, reference))


def may_select(policy: OverridePolicy, target: ObjectReference) -> bool:
    """Test whether a policy selects a template, or would select it with other labels.

    Labels do not count here, because a ClusterOverridePolicy may set the labels that an OverridePolicy selects.
    """
    selectors = policy.spec.resource_selectors
    if policy.metadata.deletion_timestamp is not None or not _in_scope(policy, target.namespace):
        return False
    return not selectors or any(
        (selector.api_version, selector.kind) == (target.api_version, target.kind)
        and selector.namespace in ("", target.namespace)
        and selector.name in ("", target.name)
        for selector in selectors
    )


def _in_scope(policy: OverridePolicy, namespace: str) -> bool:
    return policy.cluster_scoped or policy.metadata.namespace == namespace


def _precision(policy: OverridePolicy, manifest: Document) -> int:
    """Return the best precision of a policy's selectors for a manifest. Without selectors, it selects everything."""
    metadata: Mapping[str, Any] = manifest.get("metadata") or {}
    namespace = metadata.get("namespace", "")
    if not _in_scope(policy, namespace):
        return MISMATCH
    if not policy.spec.resource_selectors:
        return EVERYTHING
    selected = Template(
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        metadata=ObjectMeta(name=metadata.get("name", ""), namespace=namespace, labels=_labels(metadata)),
    )
    return max(precision(selector, selected) for selector in policy.spec.resource_selectors)


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a manifest; none if a value is not a text."""
    labels = metadata.get("labels") or {}
    return labels if all(isinstance(value, str) for value in labels.values()) else {}


def _listed(rules: Iterable[tuple[OverridePolicy, Overriders]]) -> str:
    """Return applied rules as JSON, in the order of the names of their policies, as Karmada writes them."""
    items = [
        {"policyName": policy.metadata.name, "overriders": _document(overriders)}
        for policy, overriders in sorted(rules, key=lambda item: item[0].metadata.name)
    ]
    text = msgspec.json.encode(items).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _document(overriders: Overriders) -> Document:
    """Return overriders as a document. A value that is not set is written as null where it is an operand of a patch."""
    document: Document = msgspec.to_builtins(compact(overriders), order="deterministic")
    for operation in _operations(document):
        operation["value"] = operation.pop("value", None)  # null as well, and after the other fields
    return document


def _operations(document: Document) -> Iterator[Document]:
    yield from document.get("plaintext", ())
    for field in document.get("fieldOverrider", ()):
        yield from (*field.get("json", ()), *field.get("yaml", ()))

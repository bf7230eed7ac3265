"""One application of the override policies of a template, cluster by cluster, and what is reported about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import Condition, Object, condition, with_condition
from controlplane.apimachinery.names import APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES
from controlplane.engine.decision import Event
from controlplane.kinds.binding import OVERRIDES_APPLIED
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.work import Work
from controlplane.propagation import overrides
from controlplane.propagation.overrides import Failure, Overridden, OverrideFailed

SUCCEED, FAILED = "ApplyOverridePolicySucceed", "ApplyOverridePolicyFailed"

Document = dict[str, Any]


class OverrideRun:
    """Applies policies to the manifest of each cluster, and remembers the results until they are reported."""

    def __init__(self, policies: Sequence[OverridePolicy], clusters: Mapping[str, Cluster]) -> None:
        self._policies = policies
        self._clusters = clusters
        self.failures: list[Failure] = []
        self._applied: dict[str, Overridden] = {}

    def concerns(self, cluster: str) -> bool:
        """Test whether there are policies that may be applied for a cluster, and it is known."""
        return bool(self._policies) and cluster in self._clusters

    def __call__(self, cluster: str, manifest: Document) -> Overridden:
        """Return the manifest for a cluster. Raises OverrideFailed, and remembers each failure once."""
        try:
            result = overrides.apply(self._policies, manifest, self._clusters[cluster])
        except OverrideFailed as error:
            if error.failure not in self.failures:
                self.failures.append(error.failure)
            raise
        self._applied[cluster] = result
        return result

    def conditions(self, before: tuple[Condition, ...], *, now: datetime) -> tuple[Condition, ...]:
        """Return the conditions of a binding with an up-to-date condition OverridesApplied."""
        if self.failures:
            message = "; ".join(map(_explained, self.failures))
            return with_condition(before, Condition(OVERRIDES_APPLIED, "False", FAILED, message), now=now)
        if condition(before, OVERRIDES_APPLIED) is None:
            return before
        current = Condition(OVERRIDES_APPLIED, "True", SUCCEED, "all override policies can be applied")
        return with_condition(before, current, now=now)

    def failed(self, about: Sequence[Object]) -> Iterator[Event]:
        """Yield a Warning for each failure, about the binding and its template."""
        for failure in self.failures:
            message = f"{_applying(failure.policy, failure.cluster)} failed: {failure.message}"
            yield from (Event(obj, FAILED, message, warning=True) for obj in about)

    def succeeded(self, about: Object, changed: Collection[str]) -> Iterator[Event]:
        """Yield an Event for each policy that was applied for one of the clusters whose Work changed."""
        for cluster in sorted(changed):
            result = self._applied.get(cluster)
            policies = {policy.ref: policy for policy, _rule in result.applied} if result is not None else {}
            for policy in policies.values():
                yield Event(about, SUCCEED, f"{_applying(policy, cluster)} succeed.", step=True)


def differs(new: Work, old: Work | None) -> bool:
    """Test whether other override policies, or other rules of them, were applied to a Work than before."""
    names = (APPLIED_OVERRIDES, APPLIED_CLUSTER_OVERRIDES)
    before = {} if old is None else old.metadata.annotations
    return any(new.metadata.annotations.get(name) != before.get(name) for name in names)


def _applying(policy: OverridePolicy, cluster: str) -> str:
    scope = "cluster override policy" if policy.cluster_scoped else "override policy"
    return f"Apply {scope}({policy.shown}) for cluster({cluster})"


def _explained(failure: Failure) -> str:
    """Return a failure, its effect and what to do."""
    policy = failure.policy
    place = "" if policy.cluster_scoped else f" -n {policy.metadata.namespace}"
    return (
        f"cluster {failure.cluster}: {policy.kind} {policy.shown} cannot be applied: {failure.message}. The copy there "
        f"stays as it is. Correct the policy: kubectl edit {policy.kind.lower()} {policy.metadata.name}{place}"
    )

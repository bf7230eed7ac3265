"""Edits and deletions of propagation policies: which workloads are placed again, and where.

A workload that no policy selects any more keeps its placement and its copies [policy-matching].
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.insight.supposed.departures import Outcomes
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.removals import Rescheduler
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds import CLUSTER_PROPAGATION_POLICY, POLICIES, PROPAGATION_POLICY
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, matching
from controlplane.propagation.candidates import NO_CANDIDATES, Candidates
from controlplane.propagation.lazy_activation import LAZY, digest, lazily_active


def plan_policy_edits(
    snapshot: Snapshot, fleet: SupposedFleet, gone: Collection[Ref], outcomes: Outcomes, *, now: datetime
) -> None:
    """Record where the scheduler places the bindings that edited and deleted policies change."""
    if not snapshot.templates:
        return
    edits = _Edits(snapshot, fleet, now)
    rescheduler = Rescheduler(snapshot, fleet, now=now)
    changed = sorted(edits.changed_bindings(gone), key=lambda pair: -pair[1].spec.priority)
    for old, new in changed:
        after = rescheduler.place(new)
        if after is not None:
            outcomes.of(old).is_decided(after, "its policy places it there")


class _Edits:
    """Finds the policy of each workload as `controllers.policies` does, with the edited policies in place."""

    def __init__(self, snapshot: Snapshot, fleet: SupposedFleet, now: datetime) -> None:
        self._snapshot, self._settings, self._now = snapshot, fleet.settings, now
        edited = {ref: policy for ref, policy in snapshot.edited.items() if ref.kind in POLICIES}
        kept = {ref: policy for ref, policy in snapshot.policies.items() if ref not in fleet.deleted}
        self._policies: dict[Ref, Policy] = {**kept, **edited}  # type: ignore[dict-item]  # kinds were tested
        self._candidates: dict[tuple[str, str], Candidates] = {}

    def changed_bindings(self, gone: Collection[Ref]) -> Iterator[tuple[Binding, Binding]]:
        """Yield the bindings that change, before and after. A new binding is yielded without targets on both sides."""
        for template in self._snapshot.templates.values():
            ref = bindings.binding_ref(template.ref)
            old = self._snapshot.bindings.get(ref)
            if ref in gone or template.metadata.deletion_timestamp is not None:
                continue
            if old is not None and (old.metadata.deletion_timestamp or bindings.template_ref(old) != template.ref):
                continue
            policy = self._policy_of(template)
            if policy is None or not self._active(template, policy, old):
                continue
            new = self._bound(template, policy, old)
            if new is not None and new is not old:
                yield old or new, new

    def _bound(self, template: Template, policy: Policy, old: Binding | None) -> Binding | None:
        """Return the binding of a template under a policy. None: its PriorityClass is missing, so nothing changes."""
        name = bindings.priority_class(policy.spec)
        priority = self._snapshot.priorities.get(name) if name else None
        if name and priority is None:
            return None
        gates = self._settings.feature_gates
        if old is None:
            return bindings.create(template, policy, priority=priority, gates=gates, now=self._now)
        return bindings.refresh(old, template, policy, priority=priority, gates=gates)

    def _policy_of(self, template: Template) -> Policy | None:
        claimant = matching.claimant(template)
        claimed: Policy | None = None
        if claimant is not None:
            namespace, name = claimant
            kind = PROPAGATION_POLICY if namespace else CLUSTER_PROPAGATION_POLICY
            claimed = self._policies.get(Ref(kind, namespace, name))
        preemption = self._settings.gate("PropagationPolicyPreemption")
        return matching.choose(self._possible(template), claimed, template, preemption=preemption)

    def _possible(self, template: Template) -> tuple[Policy, ...]:
        key = (template.api_version, template.kind)
        found = self._candidates.get(key, NO_CANDIDATES)
        if found is NO_CANDIDATES:
            selecting = [
                policy
                for policy in self._policies.values()
                if any((one.api_version, one.kind) == key for one in policy.spec.resource_selectors)
            ]
            found = self._candidates[key] = Candidates.of(selecting, *key)
        return found.possible(template)

    def _active(self, template: Template, policy: Policy, old: Binding | None) -> bool:
        """Test whether the policy changes the binding now. A Lazy policy waits until the workload is edited."""
        if policy.spec.activation_preference != LAZY:
            return True
        claimant = (policy.metadata.namespace, policy.metadata.name)
        applied = old is not None and matching.claimant(template) == claimant
        return lazily_active(template, policy, digest(template), applied=applied)

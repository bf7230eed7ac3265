"""Policy release: removes the finalizer of a deleted policy once no template and no binding belongs to it.

An object that is being deleted does not keep a policy. The cleanup of a binding may wait for a lost cluster for hours,
and needs nothing of its policy. Neither does a claim that the policy cannot have made keep it: users may write claims
into objects where `controllers.policies` neither writes nor removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import CLUSTER_PROPAGATION_POLICY_FINALIZER, PROPAGATION_POLICY_FINALIZER
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds, is_propagated_namespace
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.settings import Settings

QUICK_CHECK, SLOW_CHECK = timedelta(seconds=0.5), timedelta(seconds=2)  # while controllers.policies removes claims
REPORT_AFTER = timedelta(seconds=10)  # then an Event names the objects that the policy waits for
MOST_NAMED = 5
_FINALIZERS = (PROPAGATION_POLICY_FINALIZER, CLUSTER_PROPAGATION_POLICY_FINALIZER)


class PolicyReleaseSnapshot(Struct, frozen=True):
    """A policy that is being deleted, and the objects with a claim that the policy may have made."""

    subject: Policy
    claimed: tuple[Ref, ...] = ()


def _policy_deleted(old: Policy | None, new: Policy | None) -> Iterator[Ref]:
    if new is not None and new.metadata.deletion_timestamp is not None:
        yield new.ref


class PolicyRelease(Controller):
    """Key: a policy. Removes its finalizer. Bindings and copies stay [policy-matching]."""

    name: ClassVar[str] = "policy_release"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = kinds.POLICIES
    watches: ClassVar[tuple[Watch, ...]] = tuple(Watch(kind, _policy_deleted) for kind in kinds.POLICIES)
    owns: ClassVar[Ownership] = Ownership(dict.fromkeys(kinds.POLICIES, ("metadata.finalizers",)))
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[PolicyReleaseSnapshot | None]:
        found = state.get(refs)
        deleted = [str(ref) for ref, policy in found.items() if policy.metadata.deletion_timestamp is not None]
        claimed: dict[str, list[Ref]] = {}
        for kind in (*kinds.BINDINGS, *PropagatedKinds()) if deleted else ():
            for name, ones in state.by_index(kind, "policy", deleted).items():
                keeping = [obj.ref for obj in ones if _may_be_claimed(obj, Ref.parse(name))]
                claimed.setdefault(name, []).extend(keeping)
        held = {name: tuple(ones) for name, ones in claimed.items()}
        return [
            PolicyReleaseSnapshot(found[ref], held.get(str(ref), ())) if str(ref) in deleted else None for ref in refs
        ]

    def decide(
        self, snapshot: PolicyReleaseSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        policy = snapshot.subject
        skipped = settings.skipped_propagating_namespaces
        claimed = [ref for ref in snapshot.claimed if is_propagated_namespace(ref.namespace, skipped)]
        if claimed:
            waited = now - (policy.metadata.deletion_timestamp or now)
            if waited < REPORT_AFTER:
                return Decision(wake_at=now + QUICK_CHECK)
            return Decision(events=(_waiting_event(policy, claimed),), wake_at=now + SLOW_CHECK)
        rest = tuple(name for name in policy.metadata.finalizers if name not in _FINALIZERS)
        freed = policy.with_meta(finalizers=rest)
        return NOTHING if freed is policy else Decision(changes=(Put(freed, policy),), reason="PolicyReleased")


def _may_be_claimed(obj: Template | Binding, policy: Ref) -> bool:
    """Test whether the claim on an object keeps the policy: the object stays, and the policy may claim it.

    A PropagationPolicy claims only in its own namespace. A binding counts only under the name that the binding of its
    template has.
    """
    if obj.metadata.deletion_timestamp is not None or (policy.namespace and policy.namespace != obj.metadata.namespace):
        return False
    if not isinstance(obj, Binding):
        return True
    template = bindings.template_ref(obj)
    return template.kind in PropagatedKinds() and bindings.binding_ref(template) == obj.ref


def _waiting_event(policy: Policy, claimed: Sequence[Ref]) -> Event:
    """Return the Event of a deleted policy that names the objects which still belong to it."""
    names = ", ".join(str(ref) for ref in claimed[:MOST_NAMED])
    more = f" and {len(claimed) - MOST_NAMED} more" if len(claimed) > MOST_NAMED else ""
    message = (
        f"the policy is being deleted and waits until these no longer belong to it: {names}{more}; see their Events"
    )
    return Event(policy, "PolicyReleaseWaiting", message, warning=True)

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
PAGE = 1000  # objects that are read at once behind the first ones, if none of those keeps the policy
_FINALIZERS = (PROPAGATION_POLICY_FINALIZER, CLUSTER_PROPAGATION_POLICY_FINALIZER)


class PolicyReleaseSnapshot(Struct, frozen=True):
    """A policy that is being deleted, and the first objects with a claim that the policy may have made."""

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

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[PolicyReleaseSnapshot | None]:
        return self.load(state, refs, skipped=settings.skipped_propagating_namespaces)

    def load(
        self, state: State, refs: Sequence[Ref], *, skipped: tuple[str, ...] = ()
    ) -> Sequence[PolicyReleaseSnapshot | None]:
        """Return the snapshots. `skipped`: namespaces in which nothing is propagated, so that no claim counts there."""
        found = state.get(refs)
        deleted = [str(ref) for ref, policy in found.items() if policy.metadata.deletion_timestamp is not None]
        claimed: dict[str, list[Ref]] = {}
        for kind in (*kinds.BINDINGS, *PropagatedKinds()) if deleted else ():
            for name, ones in state.by_index(kind, "policy", deleted, limit=MOST_NAMED + 1).items():
                claimed.setdefault(name, []).extend(_first_keeping(state, kind, Ref.parse(name), ones, skipped))
        held = {name: tuple(ones) for name, ones in claimed.items()}
        return [
            PolicyReleaseSnapshot(found[ref], held.get(str(ref), ())) if str(ref) in deleted else None for ref in refs
        ]

    def decide(
        self, snapshot: PolicyReleaseSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        policy, claimed = snapshot.subject, snapshot.claimed
        if claimed:
            waited = now - (policy.metadata.deletion_timestamp or now)
            if waited < REPORT_AFTER:
                return Decision(wake_at=now + QUICK_CHECK)
            return Decision(events=(_waiting_event(policy, claimed),), wake_at=now + SLOW_CHECK)
        rest = tuple(name for name in policy.metadata.finalizers if name not in _FINALIZERS)
        freed = policy.with_meta(finalizers=rest)
        return NOTHING if freed is policy else Decision(changes=(Put(freed, policy),), reason="PolicyReleased")


def _first_keeping(
    state: State, kind: str, policy: Ref, first: Sequence[Template | Binding], skipped: tuple[str, ...]
) -> list[Ref]:
    """Return the first objects of a kind that keep a policy. `first`: the first ones that name it.

    If many do and none of these keeps it, those behind them are read, until one does. So a policy of 100,000 workloads
    is not read with all of them at each look.
    """
    limit, page = MOST_NAMED + 1, first
    while True:
        keeping = [
            one.ref
            for one in page
            if is_propagated_namespace(one.metadata.namespace, skipped) and _may_be_claimed(one, policy)
        ]
        if keeping or len(page) < limit:
            return keeping
        limit, last = PAGE, page[-1].ref
        page = state.page_by_index([kind], "policy", [str(policy)], after=last, limit=limit)


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
    more = " and more" if len(claimed) > MOST_NAMED else ""
    message = (
        f"the policy is being deleted and waits until these no longer belong to it: {names}{more}; see their Events"
    )
    return Event(policy, "PolicyReleaseWaiting", message, warning=True)

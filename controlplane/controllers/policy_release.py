"""Policy release: a policy that is being deleted goes once no template and no binding that stays belongs to it.

What is being deleted itself holds no policy back: the cleanup of a binding may wait for a lost cluster for hours, and
needs nothing of its policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.controllers.controller import Controller, Ownership
from controlplane.controllers.policies import TemplateKinds
from controlplane.decision import NOTHING, Decision, Event, Put
from controlplane.kinds.policy import Policy
from controlplane.meta import Ref, Struct
from controlplane.names import CLUSTER_PROPAGATION_POLICY_FINALIZER, PROPAGATION_POLICY_FINALIZER
from controlplane.settings import Settings
from controlplane.state import State, Watch

SOON, WAIT = timedelta(seconds=0.5), timedelta(seconds=2)  # controllers.policies removes claims template by template
PATIENCE = timedelta(seconds=10)  # how long that may take before the policy says what it waits for
MOST_NAMED = 5
_FINALIZERS = (PROPAGATION_POLICY_FINALIZER, CLUSTER_PROPAGATION_POLICY_FINALIZER)


class Leaving(Struct, frozen=True):
    """A policy that is being deleted, how many objects still belong to it, and the first of them."""

    subject: Policy
    count: int = 0
    first: tuple[Ref, ...] = ()


def _deleting(old: Policy | None, new: Policy | None) -> Iterator[Ref]:
    if new is not None and new.metadata.deletion_timestamp is not None:
        yield new.ref


class PolicyRelease(Controller):
    """Key: a policy. Removes its finalizer (semantics 2.14: bindings and copies stay)."""

    name: ClassVar[str] = "policy_release"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = kinds.POLICIES
    watches: ClassVar[tuple[Watch, ...]] = tuple(Watch(kind, _deleting) for kind in kinds.POLICIES)
    owns: ClassVar[Ownership] = Ownership(dict.fromkeys(kinds.POLICIES, ("metadata.finalizers",)))
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Leaving | None]:
        found = state.get(refs)
        leaving = [str(ref) for ref, policy in found.items() if policy.metadata.deletion_timestamp is not None]
        claimed: dict[str, list[Ref]] = {}
        for kind in (*kinds.BINDINGS, *TemplateKinds()) if leaving else ():
            for name, ones in state.by_index(kind, "policy", leaving).items():
                stay = [one.ref for one in ones if one.metadata.deletion_timestamp is None]
                claimed.setdefault(name, []).extend(stay)
        held = {name: tuple(ones) for name, ones in claimed.items()}
        return [
            Leaving(found[ref], len(held.get(str(ref), ())), held.get(str(ref), ())[:MOST_NAMED])
            if str(ref) in leaving
            else None
            for ref in refs
        ]

    def decide(self, snapshot: Leaving, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        policy = snapshot.subject
        if snapshot.count:
            waited = now - (policy.metadata.deletion_timestamp or now)
            if waited < PATIENCE:
                return Decision(wake_at=now + SOON)
            return Decision(events=(_waits(snapshot),), wake_at=now + WAIT)
        rest = tuple(one for one in policy.metadata.finalizers if one not in _FINALIZERS)
        freed = policy.with_meta(finalizers=rest)
        return NOTHING if freed is policy else Decision(changes=(Put(freed, policy),), reason="PolicyReleased")


def _waits(snapshot: Leaving) -> Event:
    """Return what a deleted policy says that is not gone yet, again and again."""
    names = ", ".join(str(ref) for ref in snapshot.first)
    more = f" and {snapshot.count - len(snapshot.first)} more" if snapshot.count > len(snapshot.first) else ""
    message = f"the policy is being deleted and waits until these belong to it no more: {names}{more}; see their Events"
    return Event(snapshot.subject, "PolicyReleaseWaiting", message, warning=True)

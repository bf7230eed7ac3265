"""Policy release: lets a policy that is being deleted go once nothing says any more that it belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.controllers.controller import Controller, Ownership
from controlplane.controllers.policies import TemplateKinds
from controlplane.decision import NOTHING, Decision, Put
from controlplane.kinds.policy import Policy
from controlplane.meta import Ref, Struct
from controlplane.names import CLUSTER_PROPAGATION_POLICY_FINALIZER, PROPAGATION_POLICY_FINALIZER
from controlplane.settings import Settings
from controlplane.state import State, Watch

WAIT = timedelta(seconds=2)  # claims are withdrawn by controllers.policies, template by template
_FINALIZERS = (PROPAGATION_POLICY_FINALIZER, CLUSTER_PROPAGATION_POLICY_FINALIZER)


class Leaving(Struct, frozen=True):
    """A policy that is being deleted, and whether anything still belongs to it."""

    subject: Policy
    claims: bool


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
        claimed: set[str] = set()
        for kind in (*kinds.BINDINGS, *TemplateKinds()) if leaving else ():
            claimed.update(state.by_index(kind, "policy", leaving))
        return [Leaving(found[ref], str(ref) in claimed) if str(ref) in leaving else None for ref in refs]

    def decide(self, snapshot: Leaving, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        policy = snapshot.subject
        if snapshot.claims:
            return Decision(wake_at=now + WAIT)
        rest = tuple(one for one in policy.metadata.finalizers if one not in _FINALIZERS)
        freed = policy.with_meta(finalizers=rest)
        return NOTHING if freed is policy else Decision(changes=(Put(freed, policy),), reason="PolicyReleased")

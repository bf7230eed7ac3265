"""Policies: decides which policy claims a template, and keeps the binding of the template [policy-matching].

A template is any object that users ask to propagate to member clusters. A claim is a set of labels and annotations on
the template that names its policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Final, cast

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref, Struct
from controlplane.apimachinery.names import is_reserved_namespace
from controlplane.controllers.reads.awaited_objects import (
    awaited_overrides,
    missing_class,
    missing_overrides,
    priorities_of,
)
from controlplane.controllers.reads.interpreted_bindings import RULES_CHANGED, bindings_of_kind, is_rules
from controlplane.controllers.reads.namespace_quotas import NO_QUOTAS, NamespaceQuotas, Room, namespace_quotas
from controlplane.controllers.reads.policy_templates import templates_awaiting, templates_of
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds, is_propagated_namespace
from controlplane.controllers.reads.refused_templates import limits_edited, refused_templates
from controlplane.controllers.reads.selecting_policies import selecting_policies
from controlplane.controllers.reads.unjudged_bindings import unjudged_bindings, waits_for_judgement
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.estimate.quota import DENIED, counted_replicas
from controlplane.interpret import InterpretationFailed
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, ended_claims, matching, unselected
from controlplane.propagation.candidates import NO_CANDIDATES, Candidates
from controlplane.propagation.lazy_activation import LAZY, LAZY_ANNOTATION, digest, lazily_active, not_seen
from controlplane.settings import Settings

RETRY = timedelta(seconds=30)  # after an error that a user has to correct
SOON = timedelta(seconds=1)  # while another controller or this process has to catch up first


class PoliciesSnapshot(Struct, frozen=True):
    """A template with its binding, the policy that claims it and all policies that may select it.

    `template` None: it was deleted. `binding` None: there is none yet. `claimed` None: no policy claims the template,
    or the policy that does was deleted. `holder`: the same of the binding, which may still belong to another policy.
    """

    ref: Ref
    template: Template | None
    binding: Binding | None
    claimed: Policy | None = None
    holder: Policy | None = None
    candidates: Candidates = NO_CANDIDATES
    priorities: dict[str, int] = {}  # value of each PriorityClass, by name
    overrides: frozenset[Ref] = frozenset()  # override policies that policies wait for, and that exist
    quotas: NamespaceQuotas = NO_QUOTAS  # of the namespaces of the templates
    unjudged: bool = False  # eviction from a tainted cluster of the binding has still to be decided [judged-once]

    @property
    def subject(self) -> Template | Binding | None:
        return self.template or self.binding


def _template_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A template is due when it was created, deleted or edited by a user, if it can be propagated at all."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    ref = present.ref
    if ref.kind in kinds.NEVER_PROPAGATED or is_reserved_namespace(ref.namespace):
        return
    if old is not None and new is not None and not _edited(old, new):
        return
    yield ref


def _edited(old: Template, new: Template) -> bool:
    """Test whether a change of a template is more than a change of its status."""
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.annotations != after.annotations
        or before.deletion_timestamp != after.deletion_timestamp
        or before.uid != after.uid
        or new.has_other_content_than(old)
    )


def _policy_changed(old: Policy | None, new: Policy | None) -> Iterator[Ref]:
    """All templates that a policy selects or claims are due when the policy was created, edited or deleted."""
    if old is not None and new is not None:
        deleted = old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        if not deleted and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations:
            return
    yield (new or old).ref  # type: ignore[union-attr]  # one side is there


_decided = attrgetter(
    *("placement", "replicas", "replica_requirements", "components", "failover", "resource", "suspension"),
    "propagate_deps",
)


def _override_policy_created(old: OverridePolicy | None, new: OverridePolicy | None) -> Iterator[Ref]:
    """The templates of the policies that wait for an override policy are due when it was created."""
    if old is None and new is not None:
        yield new.ref


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A template is due when its binding was deleted, or when fields that this controller owns were edited."""
    if old is None or bindings.template_ref(old).kind in kinds.NEVER_PROPAGATED:
        return
    if new is not None:
        before, after = old.spec, new.spec
        if before is after or _decided(before) == _decided(after):
            return
    yield bindings.template_ref(old)


AWAITED: Final = "Awaited"
"""The name of the fan-out from override policies that were created."""


class Policies(Controller):
    """Key: a template. Writes the claim of its policy, and creates, updates and deletes its binding."""

    name: ClassVar[str] = "policies"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = PropagatedKinds()
    followed_by: ClassVar[tuple[str, ...]] = ("scheduler", "works")
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("*", _template_changed),
        *(Watch(kind, _policy_changed, fan_out=True) for kind in kinds.POLICIES),
        *(Watch(kind, _override_policy_created, fan_out=True) for kind in kinds.OVERRIDE_POLICIES),
        *(Watch(kind, _binding_changed) for kind in kinds.BINDINGS),
        Watch(kinds.FEDERATED_QUOTA, limits_edited, fan_out=True),
        *RULES_CHANGED,
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            "*": ("metadata.labels", "metadata.annotations"),
            **dict.fromkeys(
                kinds.BINDINGS,
                (
                    "create",
                    "delete",
                    "metadata.labels",
                    "metadata.annotations",
                    "metadata.owner_references",
                    "metadata.finalizers",
                    "spec.resource",
                    "spec.replicas",
                    "spec.replica_requirements",
                    "spec.components",
                    "spec.placement",
                    "spec.propagate_deps",
                    "spec.scheduler_name",
                    "spec.failover",
                    "spec.conflict_resolution",
                    "spec.suspension",
                    "spec.preserve_resources_on_deletion",
                    "spec.schedule_priority",
                    "spec.workload_affinity_groups",
                ),
            ),
        }
    )

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[PoliciesSnapshot | None]:
        return self.load(state, refs, enforcing=settings.gate(ENFORCEMENT_GATE))

    def load(self, state: State, refs: Sequence[Ref], *, enforcing: bool = True) -> Sequence[PoliciesSnapshot | None]:
        """Return the snapshots. `enforcing`: with the quotas of their namespaces."""
        templates = state.get(refs)
        found = state.get([bindings.binding_ref(ref) for ref in refs])
        candidates, known = self._candidates(state, templates.values())
        claims = {ref: matching.claiming_policy(obj) for ref, obj in (*templates.items(), *found.items())}
        missing = {claim for claim in claims.values() if claim is not None and claim not in known}
        claimed = {**known, **(state.get(sorted(missing)) if missing else {})}
        priorities = priorities_of(state, claimed.values())
        overrides = awaited_overrides(state, claimed.values())
        unjudged = unjudged_bindings(state, found)
        quotas = namespace_quotas(state, [one.ref for one in found.values() if enforcing and counted_replicas(one)])
        snapshots: list[PoliciesSnapshot | None] = []
        for ref in refs:
            template, binding = templates.get(ref), found.get(bindings.binding_ref(ref))
            if template is None and binding is None:
                snapshots.append(None)
                continue
            claim, held = claims.get(ref), claims.get(bindings.binding_ref(ref))
            possible = NO_CANDIDATES
            if template is not None:
                possible = candidates.get(f"{template.api_version}/{template.kind}", NO_CANDIDATES)
            policy = claimed.get(claim) if claim is not None else None
            holder = claimed.get(held) if held is not None else None
            waits = binding is not None and binding.ref in unjudged
            snapshots.append(
                PoliciesSnapshot(ref, template, binding, policy, holder, possible, priorities, overrides, quotas, waits)
            )
        return snapshots

    def _candidates(
        self, state: State, templates: Iterable[Template]
    ) -> tuple[dict[str, Candidates], dict[Ref, Policy]]:
        """Return the policies that may select these templates, by "apiVersion/kind" and by reference."""
        listed = list(templates)
        values = {f"{one.api_version}/{one.kind}": (one.api_version, one.kind) for one in listed}
        by_kind = selecting_policies(state, listed)
        known = {policy.ref: policy for policies in by_kind.values() for policy in policies}
        return {value: Candidates.of(policies, *values[value]) for value, policies in by_kind.items()}, known

    def decide(self, snapshot: PoliciesSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        decided = self._decide(snapshot, settings, now=now)
        return _within_quotas(snapshot, decided, snapshot.quotas.room(), settings, now=now)

    def decide_all(
        self, snapshots: Sequence[PoliciesSnapshot], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        """Decide in the given order. What a binding takes of a quota is missing to the next ones."""
        room = snapshots[0].quotas.room() if snapshots else NO_QUOTAS.room()
        decisions: list[Decision | Exception] = []
        for snapshot in snapshots:
            try:
                decided = self._decide(snapshot, settings, now=now)
                decisions.append(_within_quotas(snapshot, decided, room, settings, now=now))
            except Exception as error:  # noqa: BLE001  # an error about one template must not affect the others
                decisions.append(error)
        return decisions

    def _decide(self, snapshot: PoliciesSnapshot, settings: Settings, *, now: datetime) -> Decision:
        template, binding = snapshot.template, snapshot.binding
        if template is None or template.metadata.deletion_timestamp is not None:
            return _without_template(snapshot, now=now)
        if snapshot.ref.kind not in KINDS:
            return Decision(wake_at=now + SOON)  # a new kind that this process has not loaded yet
        if not is_propagated_namespace(template.metadata.namespace, settings.skipped_propagating_namespaces):
            return NOTHING
        possible = snapshot.candidates.possible(template)
        preemption = settings.gate("PropagationPolicyPreemption")
        policy = matching.choose(possible, snapshot.claimed, template, preemption=preemption)
        if binding is not None and binding.metadata.deletion_timestamp is not None:
            return _while_binding_is_deleted(snapshot, template, binding, policy, now=now)
        if binding is not None and bindings.template_ref(binding) != snapshot.ref:
            return _name_taken(template, binding, now=now)
        if policy is None:
            return _without_policy(snapshot, template, binding, now=now)
        try:
            return _with_policy(snapshot, template, policy, settings, now=now)
        except InterpretationFailed:
            released = ended_claims.of_template(template, snapshot.claimed)
            changes = (*released, *ended_claims.of_held(binding, template, snapshot.holder))
            if not changes:
                raise
            return Decision(changes=changes, wake_at=now + SOON, reason="PolicyGone")

    def fan_out_of(self, origin: Ref) -> str:
        """Override policies are expanded together: hundreds are created at once, and few policies wait for one."""
        return AWAITED if origin.kind in kinds.OVERRIDE_POLICIES else str(origin)

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        if origins[0].kind in kinds.OVERRIDE_POLICIES:
            return templates_awaiting(state, origins, after=after, limit=limit)
        return super().expand_all(state, origins, after=after, limit=limit)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        if origin.kind == kinds.FEDERATED_QUOTA:
            return refused_templates(state, origin, after=after, limit=limit)
        if is_rules(origin):
            found, cursor = bindings_of_kind(state, origin, after=after, limit=limit)
            refs = [bindings.template_ref(binding) for binding in found]
            existing = state.get(refs, unopened=True)  # `lifeboat import` writes bindings before their templates
            return [ref for ref in refs if ref in existing], cursor
        return templates_of(state, origin, after=after, limit=limit)


def _within_quotas(
    snapshot: PoliciesSnapshot, decision: Decision, room: Room, settings: Settings, *, now: datetime
) -> Decision:
    """Return a decision that leaves the requests of a binding as they are if new ones would exceed a quota
    [federated-quotas].

    All else of the change is made: a lower number of replicas makes room, and a new placement may rescue a workload. A
    new binding has no clusters yet: the scheduler asks the quota before it places the binding.
    """
    old = snapshot.binding
    if old is None or not settings.gate(ENFORCEMENT_GATE):
        return decision
    change = next((put for put in decision.changes if isinstance(put, Put) and put.old is old), None)
    if change is None:
        return decision
    new = cast(Binding, change.new)
    kept = bindings.with_requests_of(new, old)
    if kept is new or (exceeded := room.take(old, new)) is None:
        return decision if kept is new else replace(decision, quota_guards=room.guards(old, new))
    message = f"{DENIED}{exceeded}. Lower the requests, or raise spec.overall of the FederatedResourceQuota"
    event = Event(snapshot.template or old, "ApplyPolicyFailed", message, warning=True)
    changes = [put for put in decision.changes if put is not change and isinstance(put, Put) and put.old is not None]
    changes = [Put(not_seen(cast(Template, put.new), cast(Template, put.old)), put.old) for put in changes]
    changes = [put for put in (*changes, Put(kept, old)) if put.new != put.old]
    return replace(decision, changes=tuple(changes), events=(*decision.events, event), wake_at=now + RETRY)


def _without_template(snapshot: PoliciesSnapshot, *, now: datetime) -> Decision:
    """Delete the binding of a template that was deleted, which removes the copies from all members."""
    binding = snapshot.binding
    if binding is None or binding.metadata.deletion_timestamp is not None:
        return NOTHING
    if bindings.template_ref(binding) != snapshot.ref:
        return NOTHING
    return Decision(changes=(deleting(binding, now=now),), reason="TemplateGone")


def _without_policy(
    snapshot: PoliciesSnapshot, template: Template, binding: Binding | None, *, now: datetime
) -> Decision:
    """Remove the claim from a template that no policy selects, and from its binding.

    Placement and copies stay as they are. An Event on the template reports it (`propagation.unselected`).
    """
    released = tuple(ended_claims.of_template(template, snapshot.claimed))
    changes = (*released, *ended_claims.of_unselected(binding, template, snapshot.holder, now=now))
    possible = snapshot.candidates.possible(template)
    report = unselected.report(template, binding, possible, lost=bool(released), now=now)
    if not changes and report == unselected.NO_EVENTS:
        return NOTHING
    reason = "PolicyGone" if changes else ""
    return Decision(changes=changes, events=report.events, wake_at=report.wake_at, reason=reason)


def _while_binding_is_deleted(
    snapshot: PoliciesSnapshot, template: Template, binding: Binding, policy: Policy | None, *, now: datetime
) -> Decision:
    """Update the claim of a template whose binding is being deleted. A new binding follows once the old one is gone.

    The claim changes already now. Else a binding whose cleanup waits for a lost cluster would keep a deleted policy
    from going. A Lazy policy claims a template only together with its binding: until then the template has no claim.
    """
    if policy is None:
        decision = _without_policy(snapshot, template, None, now=now)
    elif policy.spec.activation_preference != LAZY:
        claimed, _ = _claimed_template(template, policy)
        changes = (Put(claimed, template),) if claimed is not template else ()
        decision = Decision(changes=changes, reason="ApplyPolicy") if changes else NOTHING
    elif snapshot.claimed is not None and snapshot.claimed.ref != policy.ref:
        decision = Decision(changes=(Put(ended_claims.without_claim(template), template),), reason="ApplyPolicy")
    else:
        decision = NOTHING
    if bindings.template_ref(binding) == snapshot.ref:
        return decision  # due again once the binding is gone
    return replace(decision, wake_at=now + RETRY)


def _with_policy(
    snapshot: PoliciesSnapshot, template: Template, policy: Policy, settings: Settings, *, now: datetime
) -> Decision:
    """Claim a template for its policy, and create or update its binding, unless the policy waits for an object."""
    message = missing_class(policy, snapshot.priorities) or missing_overrides(policy, snapshot.overrides)
    if message:
        return _waiting(snapshot, template, policy, settings, message, now=now)
    priority = snapshot.priorities.get(bindings.priority_class(policy.spec))
    return _following(snapshot, template, policy, settings, priority=priority, now=now)


def _following(
    snapshot: PoliciesSnapshot,
    template: Template,
    policy: Policy,
    settings: Settings,
    *,
    priority: int | None,
    now: datetime,
) -> Decision:
    """Let a template and its binding follow a policy."""
    applied = snapshot.binding is not None and matching.claiming_policy(template) == policy.ref
    claimed, active = _claimed_template(template, policy, applied=applied)
    changes: list[Put | Delete] = [Put(claimed, template)] if claimed is not template else []
    made: Binding | None = None
    if active:
        old, gates = snapshot.binding, settings.feature_gates
        if old is None:
            made = bindings.create(template, policy, priority=priority, gates=gates, now=now)
            changes.append(Put(made, None))
        else:
            new = bindings.refresh(old, template, policy, priority=priority, gates=gates)
            if snapshot.unjudged and waits_for_judgement(old, new, settings):
                return Decision(wake_at=now + SOON)
            if new is not old:
                changes.append(Put(new, old))
    else:
        changes += ended_claims.of_binding(snapshot.binding, template, snapshot.holder, now=now)
    if not changes:
        return NOTHING
    events = tuple(_applied(template, claimed, made)) if active else ()
    return Decision(changes=tuple(changes), events=events, reason="ApplyPolicy")


def _waiting(
    snapshot: PoliciesSnapshot, template: Template, policy: Policy, settings: Settings, message: str, *, now: datetime
) -> Decision:
    """Report that the policy of a template cannot be applied yet. Claims of an earlier policy end if it is gone."""
    event = Event(template, "ApplyPolicyFailed", message, warning=True)
    held = _meanwhile(snapshot, template, policy, settings, now=now)
    if held is not None:
        return replace(held, events=(*held.events, event), wake_at=min(now + RETRY, held.wake_at or now + RETRY))
    released = ended_claims.of_template(template, snapshot.claimed)
    changes = (*released, *ended_claims.of_binding(snapshot.binding, template, snapshot.holder, now=now))
    return Decision(changes=changes, events=(event,), wake_at=now + RETRY, reason="PolicyGone" if changes else "")


def _meanwhile(
    snapshot: PoliciesSnapshot, template: Template, policy: Policy, settings: Settings, *, now: datetime
) -> Decision | None:
    """Return what holds until a policy can be applied. None: nothing.

    The policy from which it takes the template does. If only its PriorityClass was deleted, the policy itself does,
    with the priority that its binding has.
    """
    claimed, binding = snapshot.claimed, snapshot.binding
    if claimed is None or not matching.keeps(claimed, template):
        return None
    if claimed.ref != policy.ref:
        return _with_policy(snapshot, template, claimed, settings, now=now)
    given = None if binding is None else binding.spec.schedule_priority
    if given is None or missing_overrides(policy, snapshot.overrides):
        return None
    return _following(snapshot, template, policy, settings, priority=given.priority, now=now)


def _applied(template: Template, claimed: Template, made: Binding | None) -> Iterator[Event]:
    """Yield the Events of a template that a policy claims for the first time, or takes over from another policy.

    An edit of the policy that already claims the template yields none, because a policy may have 10,000 templates.
    """
    before = matching.claimant(template)
    if made is not None and made.workload:
        message = f"Get replicas({made.spec.replicas}) of resource template succeed."
        yield Event(template, "GetReplicasSucceed", message, step=True)
    if before == matching.claimant(claimed) and made is None:
        return
    message = f"Apply policy({_shown(matching.claimant(claimed))}) succeed"
    yield Event(template, "ApplyPolicySucceed", message, step=True)
    if before is not None and before != matching.claimant(claimed):
        taken = f"{_shown(matching.claimant(claimed))}) preempted propagation policy({_shown(before)}) successfully"
        yield Event(template, "PreemptPolicySucceed", f"Propagation policy({taken}", step=True)


def _shown(claimant: tuple[str, str] | None) -> str:
    """Return "namespace/name" of a policy, or its name if it is cluster-scoped."""
    return "/".join(filter(None, claimant or ()))


def _claimed_template(template: Template, policy: Policy, *, applied: bool = False) -> tuple[Template, bool]:
    """Return the template with the claim of its policy, and whether its binding is to be written now.

    With activationPreference Lazy, the binding is not written before a user edits the template. `applied`: as in
    `lazily_active`.
    """
    labels, annotations = matching.claim(policy)
    old = template.metadata
    active = True
    if policy.spec.activation_preference == LAZY:
        current = digest(template)
        active = lazily_active(template, policy, current, applied=applied)
        annotations[LAZY_ANNOTATION] = current
    elif _has_claim(old, labels, annotations):
        return template, True
    kept_labels, kept_annotations = matching.unclaimed(old.labels, old.annotations)
    kept_annotations.pop(LAZY_ANNOTATION, None)
    claimed = template.with_meta(labels={**kept_labels, **labels}, annotations={**kept_annotations, **annotations})
    return claimed, active


def _has_claim(metadata: ObjectMeta, labels: dict[str, str], annotations: dict[str, str]) -> bool:
    """Test whether an object carries exactly this claim and no other."""
    return all(metadata.labels.get(key) == labels.get(key) for key in matching.CLAIM_LABELS) and all(
        metadata.annotations.get(key) == annotations.get(key) for key in (*matching.CLAIM_ANNOTATIONS, LAZY_ANNOTATION)
    )


def _name_taken(template: Template, binding: Binding, *, now: datetime) -> Decision:
    """Report with an Event, every RETRY, that another template already owns the binding of this name."""
    other = binding.spec.resource
    message = (
        f"binding {binding.metadata.name} already belongs to {other.api_version} {other.kind} {other.name}. "
        "Two objects whose kind and name give the same binding name cannot both be propagated: rename one of them"
    )
    return Decision(events=(Event(template, "ApplyPolicyFailed", message, warning=True),), wake_at=now + RETRY)

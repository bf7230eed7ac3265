"""Policies: which policy a template belongs to, and the binding that follows from it (semantics 2.14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref, Struct, kind_key
from controlplane.apimachinery.names import is_reserved_namespace
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds, is_propagated_namespace
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.eviction.eligibility import has_unjudged_taint
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.kinds.policy import Policy
from controlplane.kinds.rows import Eviction
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, matching, unselected
from controlplane.propagation.lazy_activation import LAZY, LAZY_ANNOTATION, digest, lazily_active
from controlplane.settings import Settings

PRIORITY_CLASS = "scheduling.k8s.io/PriorityClass"
RETRY = timedelta(seconds=30)
NOT_YET = timedelta(seconds=1)


class Candidates(Struct, frozen=True):
    """The policies that select a kind, sorted so that a template meets only those that could mean it."""

    named: dict[tuple[str, str], tuple[Policy, ...]]  # (policy namespace, object name)
    general: dict[str, tuple[Policy, ...]]  # policy namespace, "" cluster-scoped

    @classmethod
    def of(cls, policies: Iterable[Policy], api_version: str, kind: str) -> Candidates:
        named: dict[tuple[str, str], list[Policy]] = {}
        general: dict[str, list[Policy]] = {}
        for policy in policies:
            namespace = policy.metadata.namespace
            about = [
                one for one in policy.spec.resource_selectors if one.kind == kind and one.api_version == api_version
            ]
            if all(one.name for one in about):
                for name in {one.name for one in about}:
                    named.setdefault((namespace, name), []).append(policy)
            else:
                general.setdefault(namespace, []).append(policy)
        return cls(
            {key: tuple(found) for key, found in named.items()}, {key: tuple(one) for key, one in general.items()}
        )

    def facing(self, template: Template) -> tuple[Policy, ...]:
        """Return the policies that may select this template."""
        namespace, name = template.metadata.namespace, template.metadata.name
        found = self.named.get(("", name), ()) + self.general.get("", ())
        if namespace:
            found += self.named.get((namespace, name), ()) + self.general.get(namespace, ())
        return found


NO_CANDIDATES = Candidates({}, {})


class Propagation(Struct, frozen=True):
    """A template (None: gone) with its binding, its policy by claim and all that may select it."""

    ref: Ref
    template: Template | None
    binding: Binding | None
    claimed: Policy | None = None
    candidates: Candidates = NO_CANDIDATES
    priorities: dict[str, int] = {}  # by PriorityClass
    unjudged: bool = False  # a taint that moves workloads is on a cluster of the binding, and not judged yet (D6)

    @property
    def subject(self) -> Template | Binding | None:
        return self.template or self.binding


def _template(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A template is due when its user changed it; reports about it and what can never be propagated are no news."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    ref = present.ref
    if ref.kind in kinds.NEVER_PROPAGATED or is_reserved_namespace(ref.namespace):
        return
    if old is not None and new is not None and not _edited(old, new):
        return
    yield ref


def _edited(old: Template, new: Template) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.annotations != after.annotations
        or before.deletion_timestamp != after.deletion_timestamp
        or before.uid != after.uid
        or old.content != new.content
    )


def _policy(old: Policy | None, new: Policy | None) -> Iterator[Ref]:
    """All templates a policy selects or claims are due when it was edited, made or removed."""
    if old is not None and new is not None:
        deleted = old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        if not deleted and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations:
            return
    yield (new or old).ref  # type: ignore[union-attr]  # one side is there


def _binding(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A template is due when its binding went, or when somebody wrote into it what its policy decides."""
    if old is None or bindings.template_ref(old).kind in kinds.NEVER_PROPAGATED:
        return
    if new is not None:
        before, after = old.spec, new.spec
        ours = ("placement", "replicas", "replica_requirements", "failover", "resource", "suspension", "propagate_deps")
        if all(getattr(before, field) == getattr(after, field) for field in ours):
            return
    yield bindings.template_ref(old)


class Policies(Controller):
    """Key: a template. Claims it for a policy and keeps its binding as the two of them want it."""

    name: ClassVar[str] = "policies"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = PropagatedKinds()
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("*", _template),
        *(Watch(kind, _policy, fan_out=True) for kind in kinds.POLICIES),
        *(Watch(kind, _binding) for kind in kinds.BINDINGS),
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

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Propagation | None]:
        templates = state.get(refs)
        found = state.get([bindings.binding_ref(ref) for ref in refs])
        candidates, known = self._candidates(state, templates.values())
        claims = {ref: _claim(template) for ref, template in templates.items()}
        missing = {claim for claim in claims.values() if claim is not None and claim not in known}
        claimed = {**known, **(state.get(sorted(missing)) if missing else {})}
        priorities = self._priorities(state, claimed.values())
        unjudged = _unjudged(state, found)
        snapshots: list[Propagation | None] = []
        for ref in refs:
            template, binding = templates.get(ref), found.get(bindings.binding_ref(ref))
            if template is None and binding is None:
                snapshots.append(None)
                continue
            claim = claims.get(ref)
            facing = NO_CANDIDATES
            if template is not None:
                facing = candidates.get(f"{template.api_version}/{template.kind}", NO_CANDIDATES)
            policy = claimed.get(claim) if claim is not None else None
            waits = binding is not None and binding.ref in unjudged
            snapshots.append(Propagation(ref, template, binding, policy, facing, priorities, waits))
        return snapshots

    def _candidates(
        self, state: State, templates: Iterable[Template]
    ) -> tuple[dict[str, Candidates], dict[Ref, Policy]]:
        """Return the policies per kind ("apiVersion/kind"), and all of them by reference."""
        values = {f"{one.api_version}/{one.kind}": (one.api_version, one.kind) for one in templates}
        by_kind: dict[str, list[Policy]] = {value: [] for value in values}
        if values:
            for kind in kinds.POLICIES:
                for value, policies in state.by_index(kind, "selects", list(values)).items():
                    by_kind[value].extend(policies)
        known = {policy.ref: policy for policies in by_kind.values() for policy in policies}
        return {value: Candidates.of(policies, *values[value]) for value, policies in by_kind.items()}, known

    def _priorities(self, state: State, policies: Iterable[Policy]) -> dict[str, int]:
        names = {name for policy in policies if (name := bindings.priority_class(policy.spec))}
        found = state.get([Ref(PRIORITY_CLASS, "", name) for name in sorted(names)]) if names else {}
        return {ref.name: int(one.content.get("value", 0)) for ref, one in found.items()}

    def decide(self, snapshot: Propagation, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        template, binding = snapshot.template, snapshot.binding
        if template is None or template.metadata.deletion_timestamp is not None:
            return _without_template(snapshot, now=now)
        if snapshot.ref.kind not in KINDS:
            return Decision(wake_at=now + NOT_YET)  # brought a moment ago: this process hears of it soon
        if not is_propagated_namespace(template.metadata.namespace, settings.skipped_propagating_namespaces):
            return NOTHING
        facing = snapshot.candidates.facing(template)
        preemption = settings.gate("PropagationPolicyPreemption")
        policy = matching.choose(facing, snapshot.claimed, template, preemption=preemption)
        if binding is not None and binding.metadata.deletion_timestamp is not None:
            return _while_binding_goes(snapshot, template, binding, policy, now=now)
        if binding is not None and bindings.template_ref(binding) != snapshot.ref:
            return _name_taken(template, binding, now=now)
        if policy is None:
            return _without_policy(snapshot, template, binding, now=now)
        return _with_policy(snapshot, template, policy, settings, now=now)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the templates that a policy selects, then those that it claims; the cursor is "step|namespace/name".

        If the policy goes, the templates of the bindings that it claims follow: a user may have written such a claim
        into a binding whose template has none.
        """
        policy: Policy | None = state.get([origin]).get(origin)
        goes = policy is None or policy.metadata.deletion_timestamp is not None
        claimed = (*self.keys, *kinds.BINDINGS) if goes else self.keys
        steps = [*_selections(policy), *((kind, "", "", str(origin)) for kind in claimed)]
        step, _, place = after.partition("|")
        index, found = int(step or 0), list[Ref]()
        named = state.get([ref for one in steps[index:] if (ref := _named(*one)) is not None])
        while index < len(steps):
            if len(found) >= limit:
                return found, f"{index}|"
            if (ref := _named(*steps[index])) is not None:
                found += [ref] if ref in named else []
            else:
                kind, namespace, _, claim = steps[index]
                room = limit - len(found)
                page = _page(state, kind, namespace, claim, after=_place(place), limit=room)
                found += _templates(state, page) if kind in kinds.BINDINGS else page
                if len(page) >= room:
                    return found, f"{index}|{page[-1].namespace}/{page[-1].name}"
            index, place = index + 1, ""
        return found, None


def _unjudged(state: State, found: Mapping[Ref, Binding]) -> frozenset[Ref]:
    """Return the bindings for which a taint on one of their clusters has still to be judged."""
    tainted = state.by_index(kinds.CLUSTER, "taint", EVICTING_EFFECTS)
    clusters = {one.metadata.name: one for ones in tainted.values() for one in ones}
    there = [one for one in found.values() if any(target.name in clusters for target in one.spec.clusters)]
    if not there or fleet_state(state).failover_on_since is None:
        return frozenset()
    rows = state.rows(Eviction, "binding", [str(one.ref) for one in there])
    return frozenset(one.ref for one in there if has_unjudged_taint(one.spec, clusters, rows.get(str(one.ref), ())))


def _selections(policy: Policy | None) -> list[tuple[str, str, str, str]]:
    """Return (kind, namespace, name, "") per selector of a policy: where to look for its templates."""
    if policy is None:
        return []
    found: dict[tuple[str, str, str, str], None] = {}
    for one in policy.spec.resource_selectors:
        kind = kind_key(one.api_version, one.kind)
        if kind in Policies.keys:
            found[kind, policy.metadata.namespace or one.namespace, one.name, ""] = None
    return list(found)


def _named(kind: str, namespace: str, name: str, claim: str) -> Ref | None:
    """Return the one template a step is about; None where it is about as many as there are, or of a kind that nobody
    has defined yet, so that it may be of any namespace."""
    known = KINDS.get(kind)
    is_one = name and (namespace or (known is not None and not known.resource.namespaced))
    return Ref(kind, namespace, name) if is_one else None


def _page(state: State, kind: str, namespace: str, claim: str, *, after: tuple[str, str], limit: int) -> list[Ref]:
    if claim:
        return list(state.refs_by_index(kind, "policy", claim, after=after, limit=limit))
    return [one.ref for one in state.list(kind, namespace=namespace, after=after, limit=limit)]


def _templates(state: State, refs: Sequence[Ref]) -> list[Ref]:
    """Return the templates of bindings, as far as a policy may claim these templates."""
    held: Iterable[Binding] = state.get(refs).values()
    return [ref for one in held if (ref := bindings.template_ref(one)).kind in Policies.keys]


def _place(cursor: str) -> tuple[str, str]:
    namespace, _, name = cursor.partition("/")
    return namespace, name


def _claim(template: Template) -> Ref | None:
    """Return the policy a template says it belongs to."""
    claimant = matching.claimant(template)
    if claimant is None:
        return None
    namespace, name = claimant
    return Ref(kinds.PROPAGATION_POLICY if namespace else kinds.CLUSTER_PROPAGATION_POLICY, namespace, name)


def _without_template(snapshot: Propagation, *, now: datetime) -> Decision:
    """Its template is gone: the binding goes, and with it every copy."""
    binding = snapshot.binding
    if binding is None or binding.metadata.deletion_timestamp is not None:
        return NOTHING
    if bindings.template_ref(binding) != snapshot.ref:
        return NOTHING
    return Decision(changes=(deleting(binding, now=now),), reason="TemplateGone")


def _without_policy(snapshot: Propagation, template: Template, binding: Binding | None, *, now: datetime) -> Decision:
    """No policy selects a template: its claims are removed, placement and copies stay as they are, and the template
    says so (`unselected`)."""
    changes = []
    labels, annotations = matching.unclaimed(template.metadata.labels, template.metadata.annotations)
    annotations.pop(LAZY_ANNOTATION, None)
    freed = template.with_meta(labels=labels, annotations=annotations)
    if freed is not template:
        changes.append(Put(freed, template))
    if binding is not None:
        released = bindings.release(binding)
        if released is not binding:
            changes.append(Put(released, binding))
    facing = snapshot.candidates.facing(template)
    told = unselected.told(template, binding, facing, lost=freed is not template, now=now)
    if not changes and told == unselected.SILENT:
        return NOTHING
    reason = "PolicyGone" if changes else ""
    return Decision(changes=tuple(changes), events=told.events, wake_at=told.wake_at, reason=reason)


def _while_binding_goes(
    snapshot: Propagation, template: Template, binding: Binding, policy: Policy | None, *, now: datetime
) -> Decision:
    """The binding of this name is being deleted, and a new one is made once it is gone.

    The template changes its claim meanwhile, so that a binding whose cleanup waits for a lost cluster holds back no
    policy that is deleted. A Lazy policy claims a template together with its binding only: until then the template is
    without a claim.
    """
    if policy is None:
        decision = _without_policy(snapshot, template, None, now=now)
    elif policy.spec.activation_preference != LAZY:
        claimed, _ = _claimed_template(template, policy)
        changes = (Put(claimed, template),) if claimed is not template else ()
        decision = Decision(changes=changes, reason="ApplyPolicy") if changes else NOTHING
    elif snapshot.claimed is not None and snapshot.claimed.ref != policy.ref:
        labels, annotations = matching.unclaimed(template.metadata.labels, template.metadata.annotations)
        annotations.pop(LAZY_ANNOTATION, None)
        freed = template.with_meta(labels=labels, annotations=annotations)
        decision = Decision(changes=(Put(freed, template),), reason="ApplyPolicy")
    else:
        decision = NOTHING
    if bindings.template_ref(binding) == snapshot.ref:
        return decision  # due again once the binding is gone
    return replace(decision, wake_at=now + RETRY)


def _with_policy(
    snapshot: Propagation, template: Template, policy: Policy, settings: Settings, *, now: datetime
) -> Decision:
    wanted_class = bindings.priority_class(policy.spec)
    priority = snapshot.priorities.get(wanted_class) if wanted_class else None
    if wanted_class and priority is None:
        message = f'policy {policy.metadata.name} names PriorityClass "{wanted_class}", which does not exist; create it'
        return Decision(events=(Event(template, "ApplyPolicyFailed", message, warning=True),), wake_at=now + RETRY)
    claimed, active = _claimed_template(template, policy)
    changes = [Put(claimed, template)] if claimed is not template else []
    made: Binding | None = None
    if active:
        old, gates = snapshot.binding, settings.feature_gates
        if old is None:
            made = bindings.create(template, policy, priority=priority, gates=gates, now=now)
            changes.append(Put(made, None))
        else:
            new = bindings.refresh(old, template, policy, priority=priority, gates=gates)
            if snapshot.unjudged and _judged_by(new) != _judged_by(old) and judges(settings):
                return Decision(wake_at=now + NOT_YET)
            if new is not old:
                changes.append(Put(new, old))
    if not changes:
        return NOTHING
    events = tuple(_applied(template, claimed, made)) if active else ()
    return Decision(changes=tuple(changes), events=events, reason="ApplyPolicy")


def _applied(template: Template, claimed: Template, made: Binding | None) -> Iterator[Event]:
    """Yield the Events of a template that a policy claims for the first time, or takes from another policy.

    Edits of a policy that a template follows already are no Event: a policy may have 10,000 templates.
    """
    before = matching.claimant(template)
    if made is not None and made.workload:
        message = f"Get replicas({made.spec.replicas}) of resource template succeed."
        yield Event(template, "GetReplicasSucceed", message, step=True)
    if before == matching.claimant(claimed) and made is None:
        return
    said = f"Apply policy({_shown(matching.claimant(claimed))}) succeed"
    yield Event(template, "ApplyPolicySucceed", said, step=True)
    if before is not None and before != matching.claimant(claimed):
        taken = f"{_shown(matching.claimant(claimed))}) preempted propagation policy({_shown(before)}) successfully"
        yield Event(template, "PreemptPolicySucceed", f"Propagation policy({taken}", step=True)


def _shown(claimant: tuple[str, str] | None) -> str:
    namespace, name = claimant or ("", "")
    return f"{namespace}/{name}" if namespace else name


def _judged_by(binding: Binding) -> tuple[Any, Any]:
    """Return what decides whether a taint moves a binding, and when."""
    placement = binding.spec.placement
    return binding.spec.failover, None if placement is None else placement.cluster_tolerations


def judges(settings: Settings) -> bool:
    """Test whether taints are judged once, when they appear (D6), and somebody does so."""
    return settings.gate("Failover") and settings.runs("eviction_queue") and not settings.eviction.reevaluate_policies


def _claimed_template(template: Template, policy: Policy) -> tuple[Template, bool]:
    """Return the template as its policy claims it, and whether the binding follows now (Lazy waits for an edit)."""
    labels, annotations = matching.claim(policy)
    old = template.metadata
    active = True
    if policy.spec.activation_preference == LAZY:
        said = digest(template)
        active = lazily_active(template, policy, said)
        annotations[LAZY_ANNOTATION] = said
    elif _claimed_so(old, labels, annotations):
        return template, True
    kept_labels, kept_annotations = matching.unclaimed(old.labels, old.annotations)
    kept_annotations.pop(LAZY_ANNOTATION, None)
    claimed = template.with_meta(labels={**kept_labels, **labels}, annotations={**kept_annotations, **annotations})
    return claimed, active


def _claimed_so(metadata: ObjectMeta, labels: dict[str, str], annotations: dict[str, str]) -> bool:
    """Test whether exactly this claim, and none other, is on an object."""
    return all(metadata.labels.get(key) == labels.get(key) for key in matching.CLAIM_LABELS) and all(
        metadata.annotations.get(key) == annotations.get(key) for key in (*matching.CLAIM_ANNOTATIONS, LAZY_ANNOTATION)
    )


def _name_taken(template: Template, binding: Binding, *, now: datetime) -> Decision:
    """The binding of this name is another template's: say so until it is gone."""
    other = binding.spec.resource
    message = (
        f"binding {binding.metadata.name} already belongs to {other.api_version} {other.kind} {other.name}: "
        "two kinds of the same name cannot both be propagated; rename one of the objects"
    )
    return Decision(events=(Event(template, "ApplyPolicyFailed", message, warning=True),), wake_at=now + RETRY)

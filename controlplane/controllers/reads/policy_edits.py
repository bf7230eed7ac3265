"""Reads what a question about edited or deleted policies is answered from (`insight.what_if`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.awaited_objects import priorities_of
from controlplane.controllers.reads.policy_templates import selections
from controlplane.controllers.reads.selecting_policies import selecting_policies
from controlplane.engine.state import State
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.propagation.bindings import template_ref
from controlplane.propagation.matching import policy_precision

PAGE = 2000


class PolicyEdits(NamedTuple):
    """The workloads that edited and deleted policies concern, with their bindings and the policies that claim them.

    `priorities`: the value of each PriorityClass that these policies name, by its name.
    """

    templates: Mapping[Ref, Template]
    bindings: Mapping[Ref, Binding]
    policies: Mapping[Ref, Policy]
    priorities: dict[str, int]


NO_EDITS = PolicyEdits({}, {}, {}, {})


def policy_edits(state: State, edited: Mapping[Ref, Policy], deleted: Collection[Ref]) -> PolicyEdits:
    """Return what the edited and deleted policies concern. No query is made if there are none.

    These are the workloads that the policies have claimed and those that the edited ones select.
    """
    concerned = {*edited, *(ref for ref in deleted if ref.kind in kinds.POLICIES)}
    if not concerned:
        return NO_EDITS
    found: dict[Ref, Binding] = {}
    for kind in kinds.BINDINGS:
        for ones in state.by_index(kind, "policy", [str(ref) for ref in concerned]).values():
            found |= {binding.ref: binding for binding in ones}
    names = {template_ref(binding) for binding in found.values()}
    for policy in edited.values():
        names.update(_selected(state, policy))
    templates: dict[Ref, Template] = state.get(sorted(names), unopened=True)
    others = [ref for name in templates if (ref := bindings.binding_ref(name)) not in found]
    found |= state.get(others)
    policies = _selecting(state, templates.values())
    priorities = priorities_of(state, [*policies.values(), *edited.values()])
    return PolicyEdits(templates, found, policies, priorities)


def _selected(state: State, policy: Policy) -> Iterator[Ref]:
    """Yield the references of all objects that a policy selects, page by page."""
    for search in selections(policy):
        if (ref := search.ref) is not None:
            yield ref
            continue
        after: Ref | None = None
        while page := search.selected(state, after=after, limit=PAGE):
            yield from (ref for ref, item in state.get(page, unopened=True).items() if policy_precision(policy, item))
            after = page[-1]
            if len(page) < PAGE:
                break


def _selecting(state: State, templates: Iterable[Template]) -> dict[Ref, Policy]:
    """Return all policies that may select these templates."""
    return {policy.ref: policy for ones in selecting_policies(state, list(templates)).values() for policy in ones}

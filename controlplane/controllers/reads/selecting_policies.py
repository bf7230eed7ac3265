"""The policies that may select templates. Those of namespaces without one of the templates are not read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import START, State
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template

INDEX: Final = "selects"
PAGE: Final = 5000  # references that one query returns


def selecting_policies(state: State, templates: Collection[Template]) -> dict[str, Sequence[Policy]]:
    """Return the policies that select the kinds of these templates, by "apiVersion/kind".

    Of PropagationPolicies, which select in their own namespace only, these are the policies in the namespaces of the
    templates: a fleet has thousands in all. No query is made without templates.
    """
    values = sorted({f"{template.api_version}/{template.kind}" for template in templates})
    if not values:
        return {}
    stored = state.by_index(CLUSTER_PROPAGATION_POLICY, INDEX, values)
    found: dict[str, list[Policy]] = {value: list(stored.get(value, ())) for value in values}
    namespaces = {template.metadata.namespace for template in templates} - {""}
    refs = [ref for ref in _names(state, values) if ref.namespace in namespaces] if namespaces else []
    policies: dict[Ref, Policy] = state.get(refs) if refs else {}
    for ref, policy in policies.items():
        for value in found.keys() & set(KINDS[ref.kind].index_values(policy, INDEX)):
            found[value].append(policy)
    return dict(found)


def _names(state: State, values: Sequence[str]) -> Iterator[Ref]:
    """Yield the references of all PropagationPolicies that select one of these kinds."""
    after = START
    while page := state.refs_by_index(PROPAGATION_POLICY, INDEX, values, after=after, limit=PAGE):
        yield from page
        if len(page) < PAGE:
            return
        after = (page[-1].namespace, page[-1].name)

"""Reads what a question about edited or deleted override policies is answered from (`insight.what_if`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.override_policies import bindings_of, policies_of, policy_changed
from controlplane.engine.state import State
from controlplane.insight.supposed.override_edits import Copies
from controlplane.kinds.binding import Binding
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.template import Template
from controlplane.propagation.bindings import template_ref

PAGE = 2000


def override_edits(state: State, edited: Mapping[Ref, Any], deleted: Collection[Ref]) -> tuple[Copies, ...]:
    """Return the bindings that edited and deleted override policies select, or selected before.

    No query is made if there are none of these policies.
    """
    found: dict[Ref, Binding] = {}
    refs = concerned(state, edited, deleted)
    if not refs:
        return ()
    found = {ref: one for ref, one in sorted(state.get(refs).items()) if one.metadata.deletion_timestamp is None}
    templates: dict[Ref, Template] = state.get([template_ref(one) for one in found.values()], unopened=True)
    policies = policies_of(state, templates.values())
    return tuple(
        Copies(binding, templates[source], policies.get(source, ()))
        for binding in found.values()
        if (source := template_ref(binding)) in templates
    )


def concerned(state: State, edited: Mapping[Ref, Any], deleted: Collection[Ref], *, limit: int = 0) -> list[Ref]:
    """Return the bindings that edited and deleted override policies may concern. `limit`: about so many; 0: all."""
    new = {ref: one for ref, one in edited.items() if isinstance(one, OverridePolicy)}
    named = [*new, *(ref for ref in deleted if ref.kind in kinds.OVERRIDE_POLICIES)]
    if not named:
        return []
    stored = state.get(named)
    origins = {origin for ref in named for origin in policy_changed(stored.get(ref), new.get(ref))}
    return list(_selected(state, sorted(origins), limit=limit))


def _selected(state: State, origins: Iterable[Ref], *, limit: int) -> dict[Ref, None]:
    found: dict[Ref, None] = {}
    for origin in origins:
        after: str | None = ""
        while after is not None and not 0 < limit <= len(found):
            refs, after = bindings_of(state, origin, after=after, limit=limit or PAGE)
            found |= dict.fromkeys(refs)
    return found

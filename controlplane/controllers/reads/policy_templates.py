"""The templates that a change of a policy concerns, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.selectors import EVERYTHING, LabelSelector
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.state import State
from controlplane.kind import KINDS
from controlplane.kinds.policy import Policy, ResourceSelector
from controlplane.propagation import bindings


class Search(NamedTuple):
    """Where a fan-out from a policy looks for templates: objects that a selector selects, or objects with a claim.

    `name` "": all objects of the kind in the namespace. `any_of`: only those that one of these selectors matches;
    empty: all. `claim`: the policy as text, "" for a selector. `kind` "": all kinds that can be propagated, which only
    a claim has.
    """

    kind: str
    namespace: str = ""
    name: str = ""
    claim: str = ""
    any_of: tuple[LabelSelector, ...] = ()

    @property
    def ref(self) -> Ref | None:
        """The only template to be found here. None: there may be several.

        An object of a kind that is not defined yet may be in any namespace, so that its reference is not known.
        """
        kind = KINDS.get(self.kind)
        is_single = self.name and (self.namespace or (kind is not None and not kind.resource.namespaced))
        return Ref(self.kind, self.namespace, self.name) if is_single else None

    def selected(self, state: State, *, after: Ref | None, limit: int) -> Sequence[Ref]:
        """Return the next objects that a selector selects, behind an object. None: the first ones."""
        begin = (after.namespace, after.name) if after else ("", "")
        return state.refs(
            self.kind, namespace=self.namespace, name=self.name, any_of=self.any_of, after=begin, limit=limit
        )

    def claimed(self, state: State, *, after: Ref | None, limit: int) -> Sequence[Any]:
        """Return the next objects with the claim, behind an object. None: the first ones."""
        listed = (self.kind,) if self.kind else tuple(PropagatedKinds())
        return state.page_by_index(listed, "policy", [self.claim], after=after, limit=limit)


def templates_of(state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the templates that a policy selects, then of those that it claims, and the next cursor.

    If the policy is deleted, the templates of the bindings that it claims follow. A user may have written such a claim
    into a binding whose template has none. The cursor is "number of the search#reference".
    Any other text is the cursor of an earlier version, and the search begins again.
    """
    policy: Policy | None = state.get([origin]).get(origin)
    deleted = policy is None or policy.metadata.deletion_timestamp is not None
    searches = [*selections(policy), *(Search(kind, claim=str(origin)) for kind in ("", *kinds.BINDINGS))]
    if not deleted:
        searches = searches[: -len(kinds.BINDINGS)]
    step, mark, cursor = after.partition("#")
    index, found = int(step) if mark else 0, list[Ref]()
    existing = state.get([ref for search in searches[index:] if (ref := search.ref) is not None], unopened=True)
    while index < len(searches):
        if len(found) >= limit:
            return found, f"{index}#"
        search = searches[index]
        if (ref := search.ref) is not None:
            found += [ref] if ref in existing else []
        else:
            room = limit - len(found)
            page, templates = _next(search, state, after=Ref.parse(cursor) if cursor else None, limit=room)
            found += templates
            if len(page) >= room:
                return found, f"{index}#{page[-1]}"
        index, cursor = index + 1, ""
    return found, None


def templates_awaiting(state: State, origins: Sequence[Ref], *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the templates of all policies that name one of some override policies in their
    dependentOverrides.

    The cursor is "policy>cursor of its templates", which holds for each of the origins alone. One of an earlier version
    begins with a number, and the search begins again.
    """
    waiting: set[Ref] = set()
    for kind, namespaced in ((kinds.PROPAGATION_POLICY, True), (kinds.CLUSTER_PROPAGATION_POLICY, False)):
        values = [f"{origin.namespace}/{origin.name}" for origin in origins if bool(origin.namespace) is namespaced]
        for listed in state.by_index(kind, "awaits", values).values() if values else ():
            waiting.update(policy.ref for policy in listed)
    reached, _, cursor = ("" if after[:1].isdigit() else after).partition(">")
    rest = sorted(ref for ref in waiting if not reached or ref >= Ref.parse(reached))
    if not rest:
        return [], None
    at = str(rest[0])
    found, following = templates_of(state, rest[0], after=cursor if at == reached else "", limit=limit)
    if following is not None:
        return found, f"{at}>{following}"
    return found, f"{rest[1]}>" if len(rest) > 1 else None


def selections(policy: Policy | None) -> list[Search]:
    """Return where to look for the templates that the selectors of a policy may select, without duplicates.

    Selectors that differ in labels only are one search, so that its number in a cursor does not depend on labels.
    """
    found: dict[Search, dict[LabelSelector, None]] = {}
    for selector in () if policy is None else policy.spec.resource_selectors:
        kind = kind_key(selector.api_version, selector.kind)
        if policy is not None and kind in PropagatedKinds():
            place = Search(kind, policy.metadata.namespace or selector.namespace, selector.name)
            found.setdefault(place, {})[_labels(selector)] = None
    return [place if EVERYTHING in labels else place._replace(any_of=tuple(labels)) for place, labels in found.items()]


def _labels(selector: ResourceSelector) -> LabelSelector:
    """Return the labels by which a selector selects. A name beats a labelSelector (`matching.precision`)."""
    return EVERYTHING if selector.name or selector.label_selector is None else selector.label_selector


def _next(search: Search, state: State, *, after: Ref | None, limit: int) -> tuple[Sequence[Ref], Sequence[Ref]]:
    """Return the next objects of a search, and the templates that they stand for.

    An object that the policy does not select is left out, because nothing changes for it: if the policy selected it
    before, and it belongs to the policy, then it has the claim, and the search for claims finds it.
    """
    if not search.claim:
        selected = search.selected(state, after=after, limit=limit)
        return selected, selected
    claimed = search.claimed(state, after=after, limit=limit)
    refs = [item.ref for item in claimed]
    if search.kind not in kinds.BINDINGS:
        return refs, refs
    return refs, [ref for item in claimed if (ref := bindings.template_ref(item)).kind in PropagatedKinds()]

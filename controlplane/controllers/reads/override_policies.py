"""Override policies of templates, and the bindings that a change of a policy or of a cluster concerns.

A change of a policy starts a fan-out for each of its selectors, before and after the change. So the objects that it no
longer selects are due as well, and nothing has to be remembered about a deleted policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from controlplane import kinds
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.controllers.reads.bindings_on_clusters import bindings_on_clusters
from controlplane.controllers.reads.policy_templates import Search
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.controller import cursor_after, page
from controlplane.engine.state import State
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.override_policy.registration import ALL_OBJECTS, READS_CLUSTERS, index_value
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, overrides, works

SELECTION = "OverrideSelection/"
"""Before the kind in the origin of a fan-out to the objects that a selector selects."""
TARGET = "OverrideTarget"
"""Kind of the origin of a fan-out to the bindings on a cluster whose labels, provider, region or zones changed."""
PAGE = 1000  # policies that one query returns
_ON_WORKS = "works|"


def policies_of(state: State, templates: Iterable[Template]) -> dict[Ref, tuple[OverridePolicy, ...]]:
    """Return the override policies that may change the copies of each template. Templates without any are left out."""
    wanted = list(templates)
    selectable = {(template.metadata.namespace, template.api_version, template.kind) for template in wanted}
    values = {value for named in selectable for value in _index_values(*named)}
    if not values:
        return {}
    policies: dict[str, list[OverridePolicy]] = {}  # by namespace, so that a template is compared with few of them
    for policy in _indexed(state, kinds.OVERRIDE_POLICIES, "overrides", sorted(values)):
        policies.setdefault(policy.metadata.namespace, []).append(policy)
    found: dict[Ref, tuple[OverridePolicy, ...]] = {}
    for template in wanted if policies else ():
        places = dict.fromkeys(("", template.metadata.namespace))
        in_scope = [policy for place in places for policy in policies.get(place, ())]
        if listed := overrides.selecting(in_scope, template):
            found[template.ref] = listed
    return found


def _indexed(state: State, listed: Sequence[str], index: str, values: Sequence[str]) -> list[OverridePolicy]:
    """Return the override policies of some kinds under any of the index values: one query for each page of them."""
    policies: list[OverridePolicy] = []
    while True:
        after = policies[-1].ref if policies else None
        found = state.page_by_index(listed, index, values, after=after, limit=PAGE)
        policies += found
        if len(found) < PAGE:
            return policies


def _index_values(namespace: str, api_version: str, kind: str) -> Iterator[str]:
    """Yield the values of the index under which policies for templates of a kind in a namespace are found."""
    for place in {"", namespace}:
        yield index_value(place, f"{api_version}/{kind}")
        yield index_value(place, ALL_OBJECTS)


def policy_changed(old: OverridePolicy | None, new: OverridePolicy | None) -> Iterator[Ref]:
    """Yield the origins of fan-outs to all objects that a policy selects, or selected before the change."""
    if old is not None and new is not None:
        dying = old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        if same(old.spec, new.spec) and not dying:
            return
    origins = {ref for policy in (old, new) if policy is not None for ref in _selections(policy)}
    yield from sorted(origins)


def _selections(policy: OverridePolicy) -> Iterator[Ref]:
    namespace = policy.metadata.namespace
    if not policy.spec.resource_selectors:
        yield Ref(f"{SELECTION}{ALL_OBJECTS}", namespace, "")
    for selector in policy.spec.resource_selectors:
        if not namespace or selector.namespace in ("", namespace):
            kind = kind_key(selector.api_version, selector.kind)
            yield Ref(f"{SELECTION}{kind}", namespace or selector.namespace, selector.name)


def cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """Yield the origin of a fan-out if a policy may choose a cluster differently than before."""
    if old is None or new is None:
        return  # a cluster that joins or leaves makes its bindings due anyway
    before, after = old.spec, new.spec
    if (old.metadata.labels, before.provider, before.region, before.zones) != (
        new.metadata.labels,
        after.provider,
        after.region,
        after.zones,
    ):
        yield Ref(TARGET, "", new.metadata.name)


def bindings_of(state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the bindings that a fan-out from `policy_changed` or `cluster_changed` concerns."""
    if origin.kind == TARGET:
        return _on_cluster(state, origin.name, after=after, limit=limit)
    kind = origin.kind.removeprefix(SELECTION)
    if kind == ALL_OBJECTS:
        return _all_bindings(state, origin.namespace, after=after, limit=limit)
    if kind not in PropagatedKinds():
        return [], None
    search = Search(kind, origin.namespace, origin.name)
    if (ref := search.ref) is not None:
        return [bindings.binding_ref(ref)], None
    last = Ref(kind, *cursor_after(after)) if after else None
    templates, cursor = page(search.selected(state, after=last, limit=limit), limit=limit)
    return [bindings.binding_ref(ref) for ref in templates], cursor


def concerns_namespaces(origin: Ref) -> bool:
    """Test whether a fan-out from `policy_changed` may concern Namespaces."""
    return origin.kind in (f"{SELECTION}{ALL_OBJECTS}", f"{SELECTION}{kinds.NAMESPACE}") and not origin.namespace


def _all_bindings(state: State, namespace: str, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return a page of all bindings, or of those in a namespace. The cursor is "number of the kind|namespace/name"."""
    step, _, cursor = after.partition("|")
    number = int(step or 0)
    listed = (kinds.RESOURCE_BINDING,) if namespace else kinds.BINDINGS
    found = state.refs(listed[number], namespace=namespace, after=cursor_after(cursor), limit=limit)
    refs, following = page(found, limit=limit)
    if following is not None:
        return refs, f"{number}|{following}"
    return refs, f"{number + 1}|" if number + 1 < len(listed) else None


def _on_cluster(state: State, cluster: str, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return a page of the bindings on a cluster that may be selected by a policy whose rules read the cluster.

    Such rules read its labels or fields, so a change of these may change the copies. Bindings that are placed there
    come first, then attached bindings, whose objects other bindings need there.
    """
    policies = _indexed(state, kinds.OVERRIDE_POLICIES, "targets", [READS_CLUSTERS])
    if not policies:
        return [], None
    if not after.startswith(_ON_WORKS):
        refs, cursor = bindings_on_clusters(state, [cluster], index="placed", after=after, limit=limit)
        return _selected(state, refs, policies), _ON_WORKS if cursor is None else cursor
    start = cursor_after(after.removeprefix(_ON_WORKS))
    found = state.refs_by_index(kinds.WORK, "cluster", cluster, after=start, limit=limit)
    owners = [owner for work in state.get(found).values() for owner in works.owner(work, kinds.BINDINGS)]
    refs, cursor = page(found, limit=limit)
    return _selected(state, owners, policies, attached_only=True), None if cursor is None else _ON_WORKS + cursor


def any_reads_clusters(state: State) -> bool:
    """Test whether any ClusterOverridePolicy depends on labels, provider, region or zones of clusters."""
    return bool(state.refs_by_index(kinds.CLUSTER_OVERRIDE_POLICY, "targets", READS_CLUSTERS, limit=1))


def _selected(
    state: State, refs: Sequence[Ref], policies: Sequence[OverridePolicy], *, attached_only: bool = False
) -> list[Ref]:
    """Return the bindings whose templates one of the policies may select. `attached_only`: only those without a
    placement, which others need."""
    found: dict[Ref, Binding] = state.get(refs) if refs else {}
    return [
        ref
        for ref, binding in found.items()
        if not (attached_only and binding.spec.clusters)
        and any(overrides.may_select(policy, binding.spec.resource) for policy in policies)
    ]

"""Edits and deletions of override policies: which copies get another content, and what changes in them.

A copy is rendered twice: under the policies that are stored, and under those that the changes leave. What differs
follows from the edit. Copies are compared where they are placed now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import MANAGED_ANNOTATIONS_ANNOTATION, MANAGED_LABELS_ANNOTATION
from controlplane.clusters import drift
from controlplane.insight.effects import Affected
from controlplane.insight.supposed.departures import workload
from controlplane.interpret import InterpretationFailed, Unanswered
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.template import Template
from controlplane.propagation import overrides, works
from controlplane.propagation.override_run import FAILED, OverrideRun
from controlplane.propagation.overrides import OverrideFailed

CHANGED: Final = "CopyChanged"
_HIDDEN: Final = "it gets another content, which users see who may get the workload"
_LISTS: Final = (MANAGED_ANNOTATIONS_ANNOTATION, MANAGED_LABELS_ANNOTATION)  # they follow from other changes
_NAMESPACE: Final = "v1/Namespace"

Document = dict[str, Any]


class Copies(Struct, frozen=True):
    """A binding with its template, and the stored override policies that may change its copies."""

    binding: Binding
    template: Template
    policies: tuple[OverridePolicy, ...] = ()


def overridden(
    copies: Sequence[Copies],
    edited: Mapping[Ref, Any],
    deleted: frozenset[Ref],
    clusters: Mapping[str, Cluster],
    *,
    now: datetime,
) -> tuple[Affected, ...]:
    """Return the copies that edited and deleted override policies change, one entry for each cluster."""
    new = [one for one in edited.values() if isinstance(one, OverridePolicy)]
    gone = deleted | {one.ref for one in new}
    found: list[Affected] = []
    for one in copies:
        kept = [policy for policy in one.policies if policy.ref not in gone]
        after = (*kept, *overrides.selecting(new, one.template))
        if not same(after, one.policies):
            found += _changed(one, after, clusters, now=now)
    return tuple(found)


def without_fields(found: Sequence[Affected], may_get: Callable[[Affected], bool]) -> tuple[Affected, ...]:
    """Return changed copies without what changes in them, for a reader who may not get their workloads."""
    return tuple(
        one if one.reason != CHANGED or may_get(one) else replace(one, message=f"{', '.join(one.to)}: {_HIDDEN}")
        for one in found
    )


def remarks(edited: Mapping[Ref, Any]) -> tuple[str, ...]:
    """Return what the answer leaves out: copies of Namespaces have no binding, so they are not in any list."""
    named = [one.shown for one in edited.values() if isinstance(one, OverridePolicy) and _selects_namespaces(one)]
    if not named:
        return ()
    return (f"{', '.join(named)} may also change labels and annotations of Namespaces, which are not listed here",)


def _selects_namespaces(policy: OverridePolicy) -> bool:
    selectors = policy.spec.resource_selectors
    kinds = {f"{one.api_version}/{one.kind}" for one in selectors}
    return policy.cluster_scoped and (not selectors or _NAMESPACE in kinds)


def _changed(
    one: Copies, after: Sequence[OverridePolicy], clusters: Mapping[str, Cluster], *, now: datetime
) -> Iterator[Affected]:
    """Yield the clusters whose copy differs under other policies."""
    common = works.rendering(one.binding, one.template)
    for target in works.targets(one.binding):
        if target.name not in clusters:
            continue
        before, _ = _rendered(common, target, OverrideRun(one.policies, clusters), now=now)
        copy, problem = _rendered(common, target, OverrideRun(after, clusters), now=now)
        if copy is None:
            reason, text = FAILED, f"{target.name}: the copy stays as it is, because of {problem}"
        elif before is None:
            reason, text = CHANGED, f"{target.name}: the override policies can be applied again"
        elif differences := _described(before, copy):
            reason, text = CHANGED, f"{target.name}: {differences}"
        else:
            continue
        yield Affected(
            str(one.binding.ref),
            workload(one.binding),
            to={target.name: target.replicas},
            reason=reason,
            message=text,
        )


def _rendered(
    common: works.Rendering, target: TargetCluster, run: OverrideRun, *, now: datetime
) -> tuple[Document | None, str]:
    """Return the manifest of a copy. None: a policy cannot be applied, and why.

    A kind whose script has not answered yet is compared with the replicas of its template.
    """
    try:
        try:
            work = works.render(common, target, override=run, now=now)
        except (Unanswered, InterpretationFailed):
            work = works.render(replace(common, revise=None), target, override=run, now=now)
    except OverrideFailed as error:
        return None, f"{error.failure.policy.kind} {error.failure.policy.shown}: {error.failure.message}"
    (manifest,) = work.spec.workload.manifests
    metadata = manifest["metadata"]
    annotations = {key: text for key, text in metadata["annotations"].items() if key not in _LISTS}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}, ""


def _described(before: Document, after: Document) -> str:
    """Return what differs between two manifests as one text, without values that may be secret. "": nothing."""
    kind = str(before.get("kind", ""))
    texts = [drift.described(found, kind=kind)] if (found := drift.differences(before, after)) else []
    added = [one.path for one in drift.differences(after, before) if one.held is None]
    shown = [f"{path} is added" for path in added[: drift.MOST_SHOWN]]
    more = [f"{len(added) - drift.MOST_SHOWN} more are added"] if len(added) > drift.MOST_SHOWN else []
    return ", ".join((*texts, *shown, *more))

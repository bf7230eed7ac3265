"""The Works of a binding."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.scheduling.completions import split
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(given: Document) -> Document:
    binding, template = typed(given["binding"], Binding), Template.fold(given["object"])
    common = works.rendering(binding, template)
    targets = list(works.targets(binding))
    shares = split(binding, template, targets)
    made = [works.render(common, one, completions=shares.get(one.name), now=NOW) for one in targets]
    return {"works": sorted((_said(work) for work in made), key=lambda one: one["namespace"])}


def _said(work: Work) -> Document:
    place = work.metadata
    return {
        "name": place.name,
        "namespace": place.namespace,
        "labels": place.labels,
        "annotations": {key: value for key, value in place.annotations.items() if key != works.BINDING_ANNOTATION},
        "finalizers": list(place.finalizers),
        "suspendDispatching": work.spec.suspend_dispatching,
        "preserveResourcesOnDeletion": work.spec.preserve_resources_on_deletion,
        "manifest": work.manifest,
    }


def agree(expect: Document, result: Document) -> bool:
    return equivalent(expect, result)


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Override policies change manifests and say so in an annotation of the Work; all else has to agree."""
    if not given["overridePolicies"]:
        return None
    made, wanted = result["works"], expect.get("works") or []
    same = len(made) == len(wanted) and all(
        equivalent(*map(_but_for_overrides, pair)) if OVERRIDDEN in (pair[0].get("annotations") or {}) else False
        for pair in zip(wanted, made, strict=True)
        if not equivalent(*pair)
    )
    return "override policies are not applied yet" if same or expect.get("error") else None


OVERRIDDEN = "policy.karmada.io/applied-overrides"


def _but_for_overrides(work: Document) -> Document:
    notes = {key: value for key, value in (work.get("annotations") or {}).items() if key != OVERRIDDEN}
    return {**work, "manifest": None, "annotations": notes}

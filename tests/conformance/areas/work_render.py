"""The Works of a binding."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.propagation.override_run import OverrideRun
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
    policies = [typed(policy, OverridePolicy) for policy in given["overridePolicies"] or ()]
    clusters = {cluster["metadata"]["name"]: typed(cluster, Cluster) for cluster in given["clusters"]}
    run = OverrideRun(policies, clusters) if policies else None
    made = [works.render(common, one, completions=shares.get(one.name), override=run, now=NOW) for one in targets]
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

"""Flux (toolkit.fluxcd.io): releases, kustomizations and sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from controlplane.interpret.interpreter import Dependency, Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import Items, at, copied, last, listed, needed, reports, status_of, total
from controlplane.interpret.thirdparty.rollout import (
    caught_up,
    is_true,
    merged_conditions,
    with_generations,
)

_RELEASE = ("lastAttemptedRevision", "lastAppliedRevision", "lastAttemptedValuesChecksum", "helmChart")
_FAILURES = ("failures", "upgradeFailures", "installFailures")
_REVISIONS = ("lastAppliedRevision", "lastAttemptedRevision")
_CHART = ("observedChartName", "observedSourceArtifactRevision", "url")


def suspended_kept(desired: Document, observed: Document) -> Document:
    """Return the desired object with the member's spec.suspend, if it is set there."""
    suspend = needed(observed, "spec", "suspend")
    return desired if suspend is None else {**desired, "spec": {**(desired.get("spec") or {}), "suspend": suspend}}


def ready(*reasons: str) -> Callable[[Document], bool]:
    """Return the health rule: the condition Ready is True for one of these reasons."""
    return lambda doc: is_true(doc, "Ready", *reasons)


def release_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return the revisions of the last member and the merged conditions; failures are added up.

    Counters of failures that the template does not have stay unset.
    """
    old = status_of(doc)
    if not items:
        cleared = {**dict.fromkeys((*_RELEASE, "lastReleaseRevision"), ""), **dict.fromkeys(_FAILURES, 0)}
        return {**old, **cleared, "conditions": [], "observedGeneration": caught_up(doc, items)}
    names = {field: last(items, field, old.get(field)) for field in (*_RELEASE, "lastReleaseRevision")}
    failures = {field: total(items, field) for field in _FAILURES if old.get(field) is not None}
    conditions = merged_conditions(items)
    return _present({**old, **names, **failures, "conditions": conditions, "observedGeneration": caught_up(doc, items)})


def kustomization_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return the revisions of the last member and the merged conditions."""
    old = status_of(doc)
    revisions = {field: last(items, field, old.get(field)) if items else "" for field in _REVISIONS}
    conditions = merged_conditions(items)
    return _present({**old, **revisions, "conditions": conditions, "observedGeneration": caught_up(doc, items)})


def source_status(*names: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of sources whose rollout is followed: the last artifact, these texts, the merged conditions."""

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        found = {
            "artifact": _artifact(items),
            **{name: last(items, name, "") for name in names},
            "conditions": merged_conditions(items),
            "observedGeneration": caught_up(doc, items),
        }
        return _present({**status_of(doc), **found})

    return aggregate


def release_needs(doc: Document) -> Sequence[Dependency]:
    """Return the objects that values come from, the Secrets for verification and access, and the ServiceAccount."""
    spec = needed(doc, "spec")
    values = listed(at(spec, "valuesFrom"))
    secrets = [secret for secret in values if secret.get("kind") == "Secret"]
    maps = [entry for entry in values if entry.get("kind") == "ConfigMap"]
    names = {
        "Secret": [pods.secret_name(secret, "spec.valuesFrom") for secret in secrets]
        + [
            pods.secret_name(at(spec, "chart", "spec", "verify", "secretRef"), "spec.chart.spec.verify.secretRef"),
            pods.secret_name(at(spec, "kubeConfig", "secretRef"), "spec.kubeConfig.secretRef"),
        ],
        "ServiceAccount": [needed(doc, "spec", "serviceAccountName")],
        "ConfigMap": [pods.secret_name(entry, "spec.valuesFrom") for entry in maps],
    }
    return pods.named(doc, names)


def secrets_at(*paths: tuple[str, ...], account: bool = False) -> Callable[[Document], Sequence[Dependency]]:
    """Return the dependency rule of kinds that name Secrets at these paths of the spec.

    `account`: they also name a ServiceAccount, in `spec.serviceAccountName`.
    """

    def dependencies(doc: Document) -> Sequence[Dependency]:
        if not isinstance(doc.get("spec"), dict):
            raise ValueError("spec: the field is missing")
        secrets = [pods.secret_name(at(doc, "spec", *path), ".".join(("spec", *path))) for path in paths]
        accounts = [at(doc, "spec", "serviceAccountName")] if account else []
        return pods.named(doc, {"Secret": secrets, "ServiceAccount": accounts})

    return dependencies


def _artifact(items: Items) -> Any:
    found = [report["artifact"] for report in reports(items) if report.get("artifact") is not None]
    return found[-1] if found else None


def _present(status: Document) -> Document:
    return {name: value for name, value in status.items() if value is not None}


HELM_RELEASE = Interpreter(
    healthy=ready("ReconciliationSucceeded"),
    aggregate=release_status,
    retain=suspended_kept,
    reflect=with_generations(copied("conditions", "observedGeneration", *_RELEASE, "lastReleaseRevision", *_FAILURES)),
    dependencies=release_needs,
)
KUSTOMIZATION = Interpreter(
    healthy=ready("ReconciliationSucceeded"),
    aggregate=kustomization_status,
    retain=suspended_kept,
    reflect=with_generations(copied("conditions", *_REVISIONS, "observedGeneration")),
    dependencies=secrets_at(("decryption", "secretRef"), ("kubeConfig", "secretRef"), account=True),
)
BUCKET = Interpreter(
    healthy=ready("Succeeded"),
    aggregate=source_status("url"),
    retain=suspended_kept,
    reflect=with_generations(copied("conditions", "artifact", "observedIgnore", "observedGeneration", "url")),
    dependencies=secrets_at(("secretRef",)),
)
HELM_CHART = Interpreter(
    healthy=ready("Succeeded", "ChartPullSucceeded"),
    aggregate=source_status(*_CHART),
    retain=suspended_kept,
    reflect=with_generations(copied("artifact", "conditions", "observedGeneration", *_CHART)),
    dependencies=secrets_at(("verify", "secretRef")),
)
GIT_REPOSITORY = Interpreter(
    healthy=ready("Succeeded"),
    aggregate=source_status(),
    retain=suspended_kept,
    reflect=with_generations(
        copied("conditions", "artifact", "observedIgnore", "observedRecurseSubmodules", "observedGeneration")
    ),
    dependencies=secrets_at(("secretRef",), ("verify", "secretRef")),
)
OCI_REPOSITORY = Interpreter(
    healthy=ready("Succeeded"),
    aggregate=source_status("url"),
    retain=suspended_kept,
    reflect=with_generations(
        copied("conditions", "artifact", "observedIgnore", "observedLayerSelector", "observedGeneration", "url")
    ),
    dependencies=secrets_at(("secretRef",), ("verify", "secretRef"), ("certSecretRef",), account=True),
)
HELM_REPOSITORY = Interpreter(
    healthy=ready("Succeeded"),
    aggregate=source_status("url"),
    retain=suspended_kept,
    reflect=with_generations(copied("conditions", "artifact", "url", "observedGeneration")),
    dependencies=secrets_at(("secretRef",)),
)

"""A template without what only its own control plane knows: what a member is sent (semantics 4)."""

from __future__ import annotations

from controlplane.interpret.interpreter import Document

# metadata that belongs to the object here, not to its copy there
OWN_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_JOB_LABELS = frozenset(
    {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
)
_JOB_SELECTORS = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})
_TOKEN_SECRET = "kubernetes.io/service-account-token"
_ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid"


def without_own_metadata(doc: Document) -> Document:
    """Return a document without status and the metadata of its own object."""
    metadata = doc.get("metadata") or {}
    kept = {name: value for name, value in metadata.items() if name not in OWN_METADATA}
    return {name: kept if name == "metadata" else value for name, value in doc.items() if name != "status"}


def job(doc: Document) -> Document:
    """A Job loses what its controller generated, unless the user chose the selector, and its time to live.

    Were the copy removed by its own clock, it would only be made again.
    """
    spec = {name: value for name, value in (doc.get("spec") or {}).items() if name != "ttlSecondsAfterFinished"}
    if not spec.get("manualSelector"):
        selector, template = spec.get("selector"), spec.get("template")
        if isinstance(selector, dict):
            spec["selector"] = _without(selector, "matchLabels", _JOB_SELECTORS)
        if isinstance(template, dict) and isinstance(template.get("metadata"), dict):
            spec["template"] = {**template, "metadata": _without(template["metadata"], "labels", _JOB_LABELS)}
    return {**doc, "spec": spec}


def service(doc: Document) -> Document:
    """A Service loses the addresses it was given here; a headless one stays headless."""
    spec = doc.get("spec") or {}
    if spec.get("clusterIP") == "None":
        return doc
    return {**doc, "spec": {name: value for name, value in spec.items() if name not in ("clusterIP", "clusterIPs")}}


def service_account(doc: Document) -> Document:
    """A ServiceAccount loses the token Secrets that were made for it here."""
    secrets = doc.get("secrets")
    if not secrets:
        return doc
    prefix = f"{doc['metadata'].get('name', '')}-token-"
    kept = [one for one in secrets if not str(one.get("name", "")).startswith(prefix)]
    return {**doc, "secrets": kept}


def secret(doc: Document) -> Document:
    """The token of a ServiceAccount is good in one cluster only: the copy is filled in there."""
    if doc.get("type") != _TOKEN_SECRET:
        return doc
    metadata = _without(doc["metadata"], "annotations", frozenset({_ACCOUNT_UID_ANNOTATION}))
    return {name: value for name, value in {**doc, "metadata": metadata}.items() if name != "data"}


def _without(doc: Document, field: str, names: frozenset[str]) -> Document:
    found = doc.get(field)
    if not isinstance(found, dict):
        return doc
    return {**doc, field: {name: value for name, value in found.items() if name not in names}}

"""Prune rules: a template without the fields that only concern the control plane, as a member is sent it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controlplane.interpret.interpreter import Document

# Metadata of the object in the control plane that its copies on members do not get.
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
_REVISIONS = frozenset({"deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"})
_BOUND, _BOUND_BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
_OF_CLAIMS = frozenset(
    {
        *("volume.kubernetes.io/selected-node", _BOUND, _BOUND_BY_CONTROLLER),
        *("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"),
    }
)
_NO_AUTHORITY = ("", "Cg==")  # a line break: generators write it where the authority is to be injected
_OF_ONE_CLAIM = frozenset({"uid", "resourceVersion"})


def without_own_metadata(doc: Document) -> Document:
    """Return a document without its status and the metadata that only concerns the control plane."""
    metadata = doc.get("metadata") or {}
    kept = {name: value for name, value in metadata.items() if name not in OWN_METADATA}
    return {name: kept if name == "metadata" else value for name, value in doc.items() if name != "status"}


def deployment(doc: Document) -> Document:
    """Return a Deployment without its revisions: each member numbers its own, and would change ours back for ever."""
    return {**doc, "metadata": _without(doc["metadata"], "annotations", _REVISIONS)}


def persistent_volume_claim(doc: Document) -> Document:
    """Return a claim without what the cluster that it was read from noted about its binding.

    With the node of another cluster, or the provisioner, it stays Pending; with the mark that it is bound, it is Lost.
    A volume that the author of the claim has chosen stays.
    """
    chosen = _BOUND_BY_CONTROLLER not in (doc["metadata"].get("annotations") or {})
    bare = doc if chosen else _removed(doc, ("spec", "volumeName"))
    return {**bare, "metadata": _without(doc["metadata"], "annotations", _OF_CLAIMS)}


def persistent_volume(doc: Document) -> Document:
    """Return a volume whose claim is named only. With the uid of the claim in one cluster, it is Released in all
    others, where its claim has another uid, and may be reclaimed with its data."""
    spec = doc.get("spec")
    bare = {**doc, "spec": _without(spec, "claimRef", _OF_ONE_CLAIM)} if isinstance(spec, dict) else doc
    return {**bare, "metadata": _without(doc["metadata"], "annotations", frozenset({_BOUND_BY_CONTROLLER}))}


def cluster_role(doc: Document) -> Document:
    """Return an aggregated ClusterRole without its rules: those here are of the roles here, and each member fills in
    its own."""
    return _removed(doc, ("rules",)) if doc.get("aggregationRule") else doc


def job(doc: Document) -> Document:
    """Return a Job without its time to live, and without the selector and labels that its controller generated.

    A selector that the user chose (manualSelector) is kept.
    """
    spec = dict(without_time_to_live(doc).get("spec") or {})
    if not spec.get("manualSelector"):
        selector, template = spec.get("selector"), spec.get("template")
        if isinstance(selector, dict):
            spec["selector"] = _without(selector, "matchLabels", _JOB_SELECTORS)
        if isinstance(template, dict) and isinstance(template.get("metadata"), dict):
            spec["template"] = {**template, "metadata": _without(template["metadata"], "labels", _JOB_LABELS)}
    return {**doc, "spec": spec}


def without_field(*path: str) -> Callable[[Document], Document]:
    """Return the rule of kinds that members get without the field at this path, such as a time to live."""
    return lambda doc: _removed(doc, path)


def _removed(doc: Document, path: Sequence[str]) -> Document:
    name, *rest = path
    if not isinstance(doc.get(name), dict) and rest:
        return doc
    if rest:
        return {**doc, name: _removed(doc[name], rest)}
    return {key: value for key, value in doc.items() if key != name}


def injected_authority(*path: str) -> Callable[[Document], Document]:
    """Return the rule of kinds by which a member calls a webhook or API, with the authority of its certificate in
    `caBundle` of what is at this path.

    An authority that is injected on each member, which is another one there, is left out: so it is neither sent to
    other members nor set back. A rule for each webhook of a list has the path of the list.
    """
    return lambda doc: _without_authority(doc, path, injected=_is_injected(doc))


def _is_injected(doc: Document) -> bool:
    annotations = doc["metadata"].get("annotations") or {}
    return any(name.startswith("cert-manager.io/inject-") for name in annotations)


def _without_authority(part: Any, path: Sequence[str], *, injected: bool) -> Any:
    if isinstance(part, list):
        return [_without_authority(one, path, injected=injected) for one in part]
    if not isinstance(part, dict):
        return part
    if path:
        name, *rest = path
        return {**part, name: _without_authority(part[name], rest, injected=injected)} if name in part else part
    left_out = injected or part.get("caBundle") in _NO_AUTHORITY
    return {name: value for name, value in part.items() if name != "caBundle"} if left_out else part


without_time_to_live = without_field("spec", "ttlSecondsAfterFinished")
"""The rule of Jobs: a copy that a member deleted after its time to live would be created again."""


def service(doc: Document) -> Document:
    """Return a Service without the cluster IPs of the control plane. A headless Service stays headless."""
    spec = doc.get("spec") or {}
    if spec.get("clusterIP") == "None":
        return doc
    return {**doc, "spec": {name: value for name, value in spec.items() if name not in ("clusterIP", "clusterIPs")}}


def service_account(doc: Document) -> Document:
    """Return a ServiceAccount without the token Secrets that were created for it in the control plane."""
    secrets = doc.get("secrets")
    if not secrets:
        return doc
    prefix = f"{doc['metadata'].get('name', '')}-token-"
    kept = [reference for reference in secrets if not str(reference.get("name", "")).startswith(prefix)]
    return {**doc, "secrets": kept}


def secret(doc: Document) -> Document:
    """Return a ServiceAccount token Secret without its data and account uid. Each member fills in its own token."""
    if doc.get("type") != _TOKEN_SECRET:
        return doc
    metadata = _without(doc["metadata"], "annotations", frozenset({_ACCOUNT_UID_ANNOTATION}))
    return {name: value for name, value in {**doc, "metadata": metadata}.items() if name != "data"}


def _without(doc: Document, field: str, names: frozenset[str]) -> Document:
    found = doc.get(field)
    if not isinstance(found, dict):
        return doc
    return {**doc, field: {name: value for name, value in found.items() if name not in names}}

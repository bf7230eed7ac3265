"""Retention rules: fields that a member sets in its copy and that an update from the control plane must keep."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.names import RETAIN_REPLICAS_LABEL, RETAIN_REPLICAS_LABEL_VALUE
from controlplane.interpret.interpreter import Document
from controlplane.interpret.replicas import with_spec

_TOKEN_SECRET = "kubernetes.io/service-account-token"
_ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid"


def leaves_replicas(doc: Document) -> bool:
    """Test whether the label of a workload leaves its number of replicas to the member [scaled-workloads]."""
    labels = (doc.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(RETAIN_REPLICAS_LABEL) == RETAIN_REPLICAS_LABEL_VALUE)


def replicas(desired: Document, observed: Document) -> Document:
    """Return the desired object with the member's replica count, if its label hands scaling over to the member."""
    present = _spec(observed).get("replicas")
    if not leaves_replicas(desired) or present is None:
        return desired
    return with_spec(desired, replicas=present)


def pod(desired: Document, observed: Document) -> Document:
    """Return the desired Pod with the node, ServiceAccount and volumes that the member's admission set."""
    wanted, present = _spec(desired), _spec(observed)
    spec = {name: value for name, value in wanted.items() if name not in ("nodeName", "serviceAccountName", "volumes")}
    spec |= {name: present[name] for name in ("nodeName", "serviceAccountName", "volumes") if present.get(name)}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = _mounted(spec[field], present.get(field) or ())
    return {**desired, "spec": spec}


def job(desired: Document, observed: Document) -> Document:
    """Return the desired Job with the selector and pod labels that the member's controller generated."""
    spec, present = dict(_spec(desired)), _spec(observed)
    if present.get("selector"):
        spec["selector"] = present["selector"]
    labels = ((present.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        template = spec.get("template") or {}
        spec["template"] = {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
    return {**desired, "spec": spec}


def service(desired: Document, observed: Document) -> Document:
    """Return the desired Service with the cluster IP and health check port that the member assigned."""
    present = _spec(observed)
    given = {name: present[name] for name in ("clusterIP", "healthCheckNodePort") if present.get(name)}
    return with_spec(desired, **given) if given else desired


def persistent_volume_claim(desired: Document, observed: Document) -> Document:
    volume = _spec(observed).get("volumeName")
    return with_spec(desired, volumeName=volume) if volume else desired


def persistent_volume(desired: Document, observed: Document) -> Document:
    claim = _spec(observed).get("claimRef")
    return with_spec(desired, claimRef=claim) if claim else desired


def cluster_role(desired: Document, observed: Document) -> Document:
    """Return an aggregated ClusterRole with the rules that the member's controller filled in."""
    if not desired.get("aggregationRule"):
        return desired
    own = {name: value for name, value in desired.items() if name != "rules"}
    rules = observed.get("rules")
    return own if rules is None else {**own, "rules": rules}


def service_account(desired: Document, observed: Document) -> Document:
    """Return the desired ServiceAccount with the Secrets that the member added."""
    out = dict(desired)
    for field in ("secrets", "imagePullSecrets"):
        wanted = list(desired.get(field) or ())
        merged = [*wanted, *(secret for secret in observed.get(field) or () if secret not in wanted)]
        if merged:
            out[field] = merged
    return out


def secret(desired: Document, observed: Document) -> Document:
    """Return the desired ServiceAccount token Secret with the token that the member issued."""
    if desired.get("type") != _TOKEN_SECRET:
        return desired
    out = {**desired, "data": observed.get("data")}
    uid = ((observed.get("metadata") or {}).get("annotations") or {}).get(_ACCOUNT_UID_ANNOTATION)
    if uid:
        metadata = desired.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), _ACCOUNT_UID_ANNOTATION: uid}
        out["metadata"] = {**metadata, "annotations": annotations}
    return out


def _mounted(containers: Any, present: Any) -> list[Document]:
    """Return the containers with their volume mounts replaced by those of the member's container of the same name.

    A container that the member does not have stays as it is.
    """
    mounts = {container.get("name"): container.get("volumeMounts") for container in present}
    return [
        {**container, "volumeMounts": mounts[container.get("name")] or []}
        if container.get("name") in mounts
        else container
        for container in containers
    ]


def _spec(doc: Document) -> Document:
    spec = doc.get("spec")
    return spec if isinstance(spec, dict) else {}

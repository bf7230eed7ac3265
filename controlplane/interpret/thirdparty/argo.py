"""Argo Workflow (argoproj.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.interpret import prune, requirements
from controlplane.interpret.interpreter import Demand, Dependency, Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import at, counted, listed, needed
from controlplane.interpret.thirdparty.rollout import ends_as
from controlplane.kinds.template.pods import referenced_objects


def replicas(doc: Document) -> Demand:
    """Return the parallelism, and the nodes that the workflow's pods need. What pods request is not known."""
    parallelism = needed(doc, "spec", "parallelism")
    claim = {name: at(doc, "spec", name) for name in ("affinity", "nodeSelector", "tolerations")}
    count = 1 if parallelism is None else int(counted(parallelism, "spec.parallelism"))
    return Demand(count, requirements.of_pod({name: value for name, value in claim.items() if value is not None}))


def healthy(doc: Document) -> bool:
    """Test whether a workflow has begun and neither failed nor had an error."""
    return at(doc, "status", "phase") not in (None, "", "Error", "Failed") and at(doc, "status", "failed") != "Error"


def kept(desired: Document, observed: Document) -> Document:
    """Return the desired workflow with the status of the member, and with the member's spec.suspend if it is set."""
    suspend, status = needed(observed, "spec", "suspend"), observed.get("status")
    out = desired if suspend is None else {**desired, "spec": {**(desired.get("spec") or {}), "suspend": suspend}}
    return out if status is None else {**out, "status": status}


def dependencies(doc: Document) -> Sequence[Dependency]:
    """Return what the volumes need, the claims of volumeClaimTemplates, pull secrets and ServiceAccounts."""
    spec = needed(doc, "spec")
    if not isinstance(spec, dict):
        raise ValueError("spec: the field is missing")
    names: dict[str, list[Any]] = {kind: [] for kind in pods.KINDS}
    pod = {"volumes": [_volume(volume) for volume in listed(spec.get("volumes"))]}
    for kind, name in referenced_objects(pod):
        names[kind].append(name)
    names["Secret"] += pods.names_in(spec.get("imagePullSecrets"), "name")
    names["PersistentVolumeClaim"] += [
        needed(claim, "metadata", "name") for claim in listed(spec.get("volumeClaimTemplates"))
    ]
    account = spec.get("serviceAccountName")
    names["ServiceAccount"] += [at(spec, "executor", "serviceAccountName"), None if account == "default" else account]
    return pods.named(doc, names)


def _volume(volume: Document) -> Document:
    """Return a volume. A workflow names the Secret of a volume in `name`, a pod in `secretName`."""
    secret = volume.get("secret")
    return {**volume, "secret": {"secretName": secret.get("name")}} if isinstance(secret, dict) else volume


WORKFLOW = Interpreter(
    replicas=replicas,
    revise=pods.with_field("parallelism"),
    healthy=healthy,
    retain=kept,
    prune=prune.without_field("spec", "ttlStrategy"),
    final=ends_as(("phase",), "Succeeded", "Failed", "Error"),
    dependencies=dependencies,
)

"""What a real API server fills in, for the kinds workloads are made of: what comes back is more than what went in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Document = dict[str, Any]

_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


def defaulted(kind: str, document: Document) -> Document:
    """Return the document with the defaults of its kind (a Resource's key); other kinds as they are."""
    fill = _DEFAULTS.get(kind)
    return document if fill is None else fill(document)


def _with_spec(document: Document, template: str = "", **defaults: Any) -> Document:
    spec = {**defaults, **(document.get("spec") or {})}
    if template and isinstance(spec.get(template), dict):
        spec[template] = {**spec[template], "spec": _pod_spec(spec[template].get("spec") or {}, defaults)}
    return {**document, "spec": spec}


def _pod_spec(spec: Document, around: Document) -> Document:
    filled = {
        "restartPolicy": "Never" if "backoffLimit" in around else "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
    }
    for field in ("containers", "initContainers"):
        if field in filled:
            filled[field] = [_container(container) for container in filled[field]]
    return filled


def _container(container: Document) -> Document:
    image = container.get("image", "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest else "IfNotPresent",
        **container,
    }
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _deployment(document: Document) -> Document:
    strategy = (document.get("spec") or {}).get("strategy") or {}
    kind = strategy.get("type", "RollingUpdate")
    filled = {"type": kind, **strategy}
    if kind == "RollingUpdate":
        filled["rollingUpdate"] = {**_ROLLING, **(strategy.get("rollingUpdate") or {})}
    defaults = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    made = _with_spec(document, "template", **defaults)
    return {**made, "spec": {**made["spec"], "strategy": filled}}


def _stateful_set(document: Document) -> Document:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    more = {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, "updateStrategy": update}
    return _with_spec(document, "template", replicas=1, **more)


def _daemon_set(document: Document) -> Document:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    return _with_spec(document, "template", revisionHistoryLimit=10, updateStrategy=update)


def _job(document: Document) -> Document:
    spec = document.get("spec") or {}
    uid, name = document["metadata"].get("uid", ""), document["metadata"]["name"]
    parallelism = spec.get("parallelism", 1)
    more: Document = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "parallelism": parallelism}
    if "parallelism" not in spec:
        more["completions"] = 1
    if not spec.get("manualSelector"):
        labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name, "job-name": name}
        more["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        template = spec.get("template") or {}
        metadata = template.get("metadata") or {}
        labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
        document = {**document, "spec": {**spec, "template": {**template, "metadata": labelled}}}
    return _with_spec(document, "template", **more)


def _service(document: Document) -> Document:
    spec = document.get("spec") or {}
    filled: Document = {"type": "ClusterIP", "sessionAffinity": "None", **spec}
    if filled["type"] != "ExternalName":
        # A cluster IP is the member's own: what is applied elsewhere must not carry it along.
        address = _cluster_ip(document["metadata"].get("uid", ""))
        filled = {
            "clusterIP": address,
            "clusterIPs": [filled.get("clusterIP", address)],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            **filled,
        }
    if isinstance(spec.get("ports"), list):
        ports = ({"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"])
        filled["ports"] = list(ports)
    return {**document, "spec": filled}


def _cluster_ip(uid: str) -> str:
    number = int(uid[:4] or "0", 16)
    return f"10.96.{number >> 8}.{number & 255}"


def _namespace(document: Document) -> Document:
    metadata = document["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    status = {"phase": "Active", **(document.get("status") or {})}
    made = _with_spec(document, finalizers=["kubernetes"])
    return {**made, "metadata": {**metadata, "labels": labels}, "status": status}


_DEFAULTS: dict[str, Callable[[Document], Document]] = {
    "apps/Deployment": _deployment,
    "apps/ReplicaSet": lambda document: _with_spec(document, "template", replicas=1),
    "apps/StatefulSet": _stateful_set,
    "apps/DaemonSet": _daemon_set,
    "batch/Job": _job,
    "Service": _service,
    "Namespace": _namespace,
    "Pod": lambda document: {**document, "spec": _pod_spec(document.get("spec") or {}, {})},
    "Secret": lambda document: {"type": "Opaque", **document},
    "PersistentVolumeClaim": lambda document: _with_spec(document, volumeMode="Filesystem"),
}

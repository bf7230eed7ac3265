"""The defaults that kube-apiserver adds to workloads, Services, volumes and other built-in kinds."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from apps.simulator.pod_defaults import pod, pod_spec, quantities, quantity

Document = dict[str, Any]

_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}
_RBAC = "rbac.authorization.k8s.io"


def defaulted(kind: str, document: Document) -> Document:
    """Return the document with the defaults of its kind (the key of a Resource). Other kinds are returned unchanged."""
    fill = _DEFAULTS.get(kind)
    return document if fill is None else fill(document)


def _spec_of(document: Document) -> Document:
    spec = document.get("spec")
    return spec if isinstance(spec, dict) else {}


def _with_spec(document: Document, **defaults: Any) -> Document:
    return {**document, "spec": {**defaults, **_spec_of(document)}}


def _with_template(document: Document, *, restarts: str = "Always", **defaults: Any) -> Document:
    made = _with_spec(document, **defaults)
    template = made["spec"].get("template")
    if isinstance(template, dict):
        spec = template.get("spec")
        metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
        filled = pod_spec(spec if isinstance(spec, dict) else {}, restarts=restarts)
        made["spec"]["template"] = {**template, "metadata": metadata, "spec": filled}
    return made


def _deployment(document: Document) -> Document:
    strategy = _spec_of(document).get("strategy") or {}
    kind = strategy.get("type", "RollingUpdate")
    filled = {"type": kind, **strategy}
    if kind == "RollingUpdate":
        filled["rollingUpdate"] = {**_ROLLING, **(strategy.get("rollingUpdate") or {})}
    made = _with_template(document, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    return {**made, "spec": {**made["spec"], "strategy": filled}}


def _stateful_set(document: Document) -> Document:
    given = _spec_of(document)
    update = {"type": "RollingUpdate", **(given.get("updateStrategy") or {})}
    if update["type"] == "RollingUpdate":
        update["rollingUpdate"] = {"partition": 0, **(update.get("rollingUpdate") or {})}
    made = _with_template(
        document, serviceName="", podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10
    )
    retained = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    policy = {**retained, **(given.get("persistentVolumeClaimRetentionPolicy") or {})}
    spec = {**made["spec"], "updateStrategy": update, "persistentVolumeClaimRetentionPolicy": policy}
    if given.get("volumeClaimTemplates"):
        spec["volumeClaimTemplates"] = [_claim_template(claim) for claim in given["volumeClaimTemplates"]]
    return {**made, "spec": {name: value for name, value in spec.items() if value != []}}


def _claim_template(claim: Document) -> Document:
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **_claim(claim), "status": {"phase": "Pending"}}
    metadata = {key: value for key, value in (claim.get("metadata") or {}).items() if value is not None}
    return {**made, "metadata": metadata}


def _daemon_set(document: Document) -> Document:
    update = {"type": "RollingUpdate", **(_spec_of(document).get("updateStrategy") or {})}
    if update["type"] == "RollingUpdate":
        update["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **(update.get("rollingUpdate") or {})}
    made = _with_template(document, revisionHistoryLimit=10)
    return {**made, "spec": {**made["spec"], "updateStrategy": update}}


def _job_spec(given: Document) -> Document:
    parallelism = given.get("parallelism", 1)
    more: Document = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "parallelism": parallelism}
    if "parallelism" not in given:
        more["completions"] = 1
    return more


def _job(document: Document) -> Document:
    spec = _spec_of(document)
    more = {**_job_spec(spec), "podReplacementPolicy": "TerminatingOrFailed"}
    if spec.get("podFailurePolicy"):
        more["podReplacementPolicy"] = "Failed"
    if not spec.get("manualSelector"):
        more["manualSelector"] = False
    made = _with_template(document, restarts="Always", **more)
    for rule in (made["spec"].get("podFailurePolicy") or {}).get("rules") or ():
        if rule.get("onPodConditions"):
            rule["onPodConditions"] = [{"status": "True", **pattern} for pattern in rule["onPodConditions"]]
    labels = ((made["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not made["metadata"].get("labels"):
        made["metadata"] = {**made["metadata"], "labels": labels}
    return made


def _cron_job(document: Document) -> Document:
    more = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    made = _with_spec(document, **more)
    template = made["spec"].get("jobTemplate")
    if isinstance(template, dict):
        inner = _with_template({"spec": template.get("spec") or {}})
        made["spec"]["jobTemplate"] = {"metadata": {}, **template, "spec": inner["spec"]}
    return made


def _service(document: Document) -> Document:
    spec = _spec_of(document)
    filled: Document = {"type": "ClusterIP", "sessionAffinity": "None", **spec}
    if filled["type"] != "ExternalName":
        # Each member chooses cluster IPs of its own; a manifest for several members must not contain one.
        address = _cluster_ip(document["metadata"].get("uid", ""))
        filled = {
            "clusterIP": address,
            "clusterIPs": [filled.get("clusterIP") or address],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            **filled,
        }
    outside = filled["type"] in ("NodePort", "LoadBalancer")
    if outside or filled.get("externalIPs"):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if filled["type"] == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
        if filled["externalTrafficPolicy"] == "Local":
            filled.setdefault("healthCheckNodePort", _node_port(document, "health"))
    if filled["sessionAffinity"] == "ClientIP":
        filled.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    if isinstance(spec.get("ports"), list):
        ports = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"]]
        given = [{"nodePort": _node_port(document, str(port.get("port"))), **port} for port in ports]
        filled["ports"] = given if outside else ports
    return {**document, "spec": {name: value for name, value in filled.items() if value not in ([], None, {})}}


def _node_port(document: Document, what: str) -> int:
    """Return a port from 30086 to 32767 that is very probably unused.

    Ports from 30000 to 30085 are kept for Services that ask for a port, as in kube-apiserver.
    """
    return 30086 + hash((document["metadata"].get("uid", ""), what)) % 2682


def _cluster_ip(uid: str) -> str:
    number = int(uid[:4] or "0", 16) | 0x8000  # the lower half is kept for Services that ask for an address
    return f"10.96.{number >> 8}.{number & 255}"


def _namespace(document: Document) -> Document:
    metadata = document["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    status = {"phase": "Active", **(document.get("status") or {})}
    made = _with_spec(document, finalizers=["kubernetes"])
    return {**made, "metadata": {**metadata, "labels": labels}, "status": status}


def _secret(document: Document) -> Document:
    made = {"type": "Opaque", **document}
    texts = made.pop("stringData", None)
    if texts:
        encoded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        made["data"] = {**(made.get("data") or {}), **encoded}
    return made


def _claim(document: Document) -> Document:
    made = _with_spec(document, volumeMode="Filesystem")
    if isinstance(made["spec"].get("dataSource"), dict):
        made["spec"]["dataSource"] = {"apiGroup": None, **made["spec"]["dataSource"]}
        made["spec"].setdefault("dataSourceRef", made["spec"]["dataSource"])
    resources = made["spec"].get("resources")
    if isinstance(resources, dict):
        made["spec"]["resources"] = {name: quantities(amounts) for name, amounts in resources.items()}
    return made


def _volume(document: Document) -> Document:
    made = _with_spec(document, volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    spec = made["spec"]
    spec["capacity"] = quantities(spec.get("capacity"))
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"] = {"type": "", **spec["hostPath"]}
    return made


def _quota(document: Document) -> Document:
    made = _with_spec(document)
    if isinstance(made["spec"].get("hard"), dict):
        made["spec"]["hard"] = quantities(made["spec"]["hard"])
    return made


def _limits(document: Document) -> Document:
    """Add defaults to container limits: max to `default`, then `default` and min to `defaultRequest`."""
    made = _with_spec(document)
    found = []
    for item in made["spec"].get("limits") or ():
        limit = {name: quantities(value) for name, value in item.items()}
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            requests = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            limit |= {name: value for name, value in (("default", default), ("defaultRequest", requests)) if value}
        found.append(limit)
    made["spec"]["limits"] = found or None
    return made


def _network_policy(document: Document) -> Document:
    made = _with_spec(document, podSelector={})
    spec = made["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for part in ("ingress", "egress"):
        if isinstance(spec.get(part), list):
            spec[part] = [_rule(rule) for rule in spec[part]]
    return made


def _rule(rule: Document) -> Document:
    if not isinstance(rule.get("ports"), list):
        return rule
    return {**rule, "ports": [{"protocol": "TCP", **port} for port in rule["ports"]]}


def _autoscaler(document: Document) -> Document:
    made = _with_spec(document, minReplicas=1)
    spec = made["spec"]
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    spec["metrics"] = [_metric(metric) for metric in spec["metrics"]]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        spec["behavior"] = {part: {**rules, **(behavior.get(part) or {})} for part, rules in _BEHAVIOR.items()}
    return made


_BEHAVIOR: dict[str, Document] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
}


def _metric(metric: Document) -> Document:
    source = metric.get("resource")
    if not isinstance(source, dict):
        return metric
    target = source.get("target")
    if not isinstance(target, dict) or "averageValue" not in target:
        return metric
    return {**metric, "resource": {**source, "target": {**target, "averageValue": quantity(target["averageValue"])}}}


def _role(document: Document) -> Document:
    return {**document, "rules": document.get("rules") or None}


def _priority_class(document: Document) -> Document:
    filled = {"preemptionPolicy": "PreemptLowerPriority", "value": 0, **document}
    return {name: value for name, value in filled.items() if value is not False}


def _binding(document: Document) -> Document:
    made = dict(document)
    if isinstance(made.get("roleRef"), dict):
        made["roleRef"] = {"apiGroup": _RBAC, **made["roleRef"]}
    if isinstance(made.get("subjects"), list):
        people = ("User", "Group")
        made["subjects"] = [
            {"apiGroup": _RBAC, **subject} if subject.get("kind") in people else subject for subject in made["subjects"]
        ]
    return {name: value for name, value in made.items() if value != []}


_DEFAULTS: dict[str, Callable[[Document], Document]] = {
    "apps/Deployment": _deployment,
    "apps/ReplicaSet": lambda document: _with_template(document, replicas=1),
    "apps/StatefulSet": _stateful_set,
    "apps/DaemonSet": _daemon_set,
    "batch/Job": _job,
    "batch/CronJob": _cron_job,
    "Service": _service,
    "Namespace": _namespace,
    "Pod": pod,
    "Secret": _secret,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "ResourceQuota": _quota,
    "LimitRange": _limits,
    "networking.k8s.io/NetworkPolicy": _network_policy,
    "autoscaling/HorizontalPodAutoscaler": _autoscaler,
    "rbac.authorization.k8s.io/RoleBinding": _binding,
    "rbac.authorization.k8s.io/ClusterRoleBinding": _binding,
    "rbac.authorization.k8s.io/ClusterRole": _role,
    "rbac.authorization.k8s.io/Role": _role,
    "scheduling.k8s.io/PriorityClass": _priority_class,
}

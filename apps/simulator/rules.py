"""The validation rules of kube-apiserver for built-in kinds.

`_RULES` has the rules for single fields and lists. Rules for several fields are in `workload_rules` and
`network_rules`, and the rules for immutable fields in `immutable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.simulator import immutable, network_rules, workload_rules
from apps.simulator.checks import (
    Rule,
    between,
    each,
    exceeds,
    found,
    is_not_negative,
    is_positive,
    is_share,
    keys,
    needed,
    one_of,
    selector,
)
from controlplane.apimachinery import causes as words
from controlplane.apimachinery import quantities
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

MAX_DATA = 1024 * 1024  # bytes in a ConfigMap or Secret
MAX_PRIORITY = 1_000_000_000  # maximum of classes that users define
_RBAC = "rbac.authorization.k8s.io"
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SCOPES = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating")
# The required keys of Secrets, by type.
_SECRET_KEYS = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/dockerconfigjson": (".dockerconfigjson",)}
_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"


def causes(key: str, document: Document, old: Document | None) -> list[Cause]:
    """Return the causes to refuse an object. `key` is the key of its Resource; `old` None: it is created."""
    if old is not None and document["metadata"].get("deletionTimestamp") and _same_but_metadata(document, old):
        return []
    made = [cause for rule in _RULES.get(key, ()) for cause in rule(document)]
    if old is not None:
        made += immutable.causes(key, document, old)
    return made


def _same_but_metadata(document: Document, old: Document) -> bool:
    return all(document.get(name) == old.get(name) for name in (document.keys() | old.keys()) - {"metadata"})


def _small(document: Document) -> Iterator[Cause]:
    size = sum(len(str(text)) for part in ("data", "binaryData") for text in (document.get(part) or {}).values())
    if size > MAX_DATA:
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {MAX_DATA} bytes", "")


def _keys_once(document: Document) -> Iterator[Cause]:
    for key in (document.get("data") or {}).keys() & (document.get("binaryData") or {}).keys():
        yield words.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


def _secret(document: Document) -> Iterator[Cause]:
    data, kind = document.get("data") or {}, document.get("type")
    for key in _SECRET_KEYS.get(str(kind), ()):
        if key not in data:
            yield words.required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield words.required("data[username]")
    if kind == _TOKEN and not (document["metadata"].get("annotations") or {}).get(_ACCOUNT):
        yield words.required(f"metadata.annotations[{_ACCOUNT}]")


def _volume(document: Document) -> Iterator[Cause]:
    spec = document.get("spec") or {}
    if not any(name in spec for name in immutable.VOLUME_SOURCES):
        yield words.required("spec", "must specify a volume type")


def _quota(document: Document) -> Iterator[Cause]:
    for name, amount in ((document.get("spec") or {}).get("hard") or {}).items():
        if not is_not_negative(amount):
            yield words.invalid(f"spec.hard[{name}]", amount, "must be greater than or equal to 0")
        elif (name == "pods" or name.startswith("count/")) and quantities.parse(str(amount)).milli_value() % 1000:
            yield words.invalid(f"spec.hard[{name}]", amount, "must be an integer")


def _limits(document: Document) -> Iterator[Cause]:
    for where, limit in found(document, "spec.limits[]"):
        if limit.get("type") == "Pod":
            for field in ("default", "defaultRequest"):
                if limit.get(field):
                    yield words.forbidden(f"{where}.{field}", "may not be specified when `type` is 'Pod'")
        most = limit.get("max") or {}
        for name, least in (limit.get("min") or {}).items():
            if name in most and exceeds(least, most[name]):
                yield words.invalid(f"{where}.min[{name}]", least, f"min value {least} is greater than max value")


def _budget(document: Document) -> Iterator[Cause]:
    spec = document.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield words.invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")


def _role(document: Document) -> Iterator[Cause]:
    for where, rule in found(document, "rules[]"):
        if rule.get("nonResourceURLs"):
            if document.get("kind") == "Role":
                yield words.invalid(f"{where}.nonResourceURLs", "", "namespaced rules cannot apply to them")
        else:
            for field in ("apiGroups", "resources"):
                if not rule.get(field):
                    yield words.required(f"{where}.{field}")


_DATA = (_small, keys("data"))
_SUBJECTS = (needed("subjects[].name", "roleRef.name"), one_of("subjects[].kind", "Group", "ServiceAccount", "User"))
_TEMPLATE = (workload_rules.template, workload_rules.selected, selector("spec.selector"), between("spec.replicas", 0))

_RULES: dict[str, tuple[Rule, ...]] = {
    "apps/Deployment": (*_TEMPLATE, workload_rules.deployment),
    "apps/ReplicaSet": _TEMPLATE,
    "apps/DaemonSet": (*_TEMPLATE, workload_rules.daemon_set),
    "apps/StatefulSet": (
        *_TEMPLATE,
        one_of("spec.podManagementPolicy", "OrderedReady", "Parallel"),
        needed("spec.volumeClaimTemplates[].spec.accessModes"),
        needed("spec.volumeClaimTemplates[].spec.resources.requests.storage"),
        needed("spec.volumeClaimTemplates[].spec.resources.requests"),
    ),
    "batch/Job": (
        workload_rules.template,
        workload_rules.job,
        *(between(f"spec.{field}", 0) for field in ("parallelism", "completions", "backoffLimit")),
        *(between(f"spec.{field}", 0) for field in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")),
        one_of("spec.completionMode", "Indexed", "NonIndexed"),
    ),
    "batch/CronJob": (
        workload_rules.cron_job,
        one_of("spec.concurrencyPolicy", "Allow", "Forbid", "Replace"),
        between("spec.failedJobsHistoryLimit", 0),
        between("spec.successfulJobsHistoryLimit", 0),
        between("spec.startingDeadlineSeconds", 0),
    ),
    "Pod": (workload_rules.alone,),
    "Service": network_rules.SERVICE,
    "networking.k8s.io/Ingress": network_rules.INGRESS,
    "networking.k8s.io/NetworkPolicy": network_rules.NETWORK_POLICY,
    "ConfigMap": (*_DATA, keys("binaryData"), _keys_once),
    "Secret": (*_DATA, _secret),
    "PersistentVolumeClaim": (
        needed("spec.accessModes", "spec.resources.requests", "spec.resources.requests.storage"),
        one_of("spec.accessModes", *_MODES),
        each("spec.resources.requests.storage", is_positive, "must be greater than zero"),
        one_of("spec.volumeMode", "Block", "Filesystem"),
    ),
    "PersistentVolume": (
        _volume,
        needed("spec.accessModes", "spec.capacity"),
        one_of("spec.accessModes", *_MODES),
        one_of("spec.persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain"),
    ),
    "ResourceQuota": (_quota, one_of("spec.scopes", *_SCOPES)),
    "LimitRange": (_limits,),
    "autoscaling/HorizontalPodAutoscaler": (
        needed("spec.scaleTargetRef.kind", "spec.scaleTargetRef.name", "spec.maxReplicas"),
        between("spec.minReplicas", 1),
        between("spec.maxReplicas", 1),
        workload_rules.autoscaler,
    ),
    "policy/PodDisruptionBudget": (
        _budget,
        each("spec.minAvailable", is_share, "must be a number of at least 0 or a percentage"),
        each("spec.maxUnavailable", is_share, "must be a number of at least 0 or a percentage"),
        one_of("spec.unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget"),
        selector("spec.selector"),
    ),
    f"{_RBAC}/Role": (needed("rules[].verbs"), _role),
    f"{_RBAC}/ClusterRole": (needed("rules[].verbs"), _role),
    f"{_RBAC}/RoleBinding": (*_SUBJECTS, one_of("roleRef.kind", "ClusterRole", "Role")),
    f"{_RBAC}/ClusterRoleBinding": (*_SUBJECTS, one_of("roleRef.kind", "ClusterRole")),
    "scheduling.k8s.io/PriorityClass": (
        between("value", -(2**31), MAX_PRIORITY),
        one_of("preemptionPolicy", "Never", "PreemptLowerPriority"),
    ),
}

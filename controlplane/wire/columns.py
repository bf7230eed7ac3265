"""The columns that `kubectl get` prints for built-in kinds. Those of pods and Events are in `pod_columns`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from controlplane.wire.resource import AGE, Column, age, human_duration, parse_time

NONE = "<none>"
UNSET = "<unset>"

Document = dict[str, Any]
Cell = Callable[[Document, datetime], Any]

_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE_LABEL = "node-role.kubernetes.io/"
_MAX_SHOWN = 3  # items of a list that a cell shows


@cache
def _segments(path: str) -> list[str]:
    return path.split(".")


def at(document: Any, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path of the document, or `default` if it is missing or null."""
    for name in _segments(path):
        if not isinstance(document, dict):  # faster than Mapping: a third of a table's time
            return default
        document = document.get(name)
    return default if document is None else document


def field(name: str, path: str, default: Any = "", *, wide: bool = False, kind: str = "string") -> Column:
    """Return a column with the value at `path`."""
    return Column(name, lambda document, now: at(document, path, default), kind, priority=int(wide), is_timed=False)


def number(name: str, path: str, default: int = 0) -> Column:
    """Return a column with the number at `path`; 0 if it is missing."""
    return field(name, path, default, kind="integer")


def moment(name: str, path: str, default: str = "<unknown>") -> Column:
    """Return a column with the time that has passed since the time at `path`."""
    return Column(name, lambda document, now: age(at(document, path), now) if at(document, path) else default)


def computed(name: str, cell: Callable[[Document], Any], *, wide: bool = False, kind: str = "string") -> Column:
    """Return a column that is computed from the document."""
    return Column(name, lambda document, now: cell(document), kind, priority=int(wide), is_timed=False)


def labels(selector: Mapping[str, str] | None) -> str:
    """Return labels as text, sorted: "a=b,c=d"."""
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


def label_selector(selector: Mapping[str, Any] | None) -> str:
    """Return a label selector as text: "app=web,tier in (a,b),!gone"."""
    parts = [f"{key}={value}" for key, value in sorted(at(selector, "matchLabels", {}).items())]
    for term in at(selector, "matchExpressions", []):
        key, operator, values = term.get("key", ""), term.get("operator", ""), ",".join(term.get("values") or ())
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        parts.append(words.get(operator, key))
    return ",".join(parts) or NONE


def shortened(items: list[str], separator: str = ",") -> str:
    """Return the first three items and the number of the others, for example "a,b,c + 2 more..."."""
    more = f" + {len(items) - _MAX_SHOWN} more..." if len(items) > _MAX_SHOWN else ""
    return (separator.join(items[:_MAX_SHOWN]) + more) or NONE


def _containers(template: str, selector: Cell | None = None) -> tuple[Column, ...]:
    path = f"{template}.spec.containers" if template else "spec.containers"

    def names(key: str) -> Callable[[Document], str]:
        return lambda document: ",".join(item.get(key, "") for item in at(document, path, []))

    shown: tuple[Column, ...] = (
        computed("Containers", names("name"), wide=True),
        computed("Images", names("image"), wide=True),
    )
    return (*shown, Column("Selector", selector, priority=1, is_timed=False)) if selector else shown


def _selector(path: str = "spec.selector") -> Cell:
    return lambda document, now: label_selector(at(document, path))


def _ready(document: Document) -> str:
    return f"{at(document, 'status.readyReplicas', 0)}/{at(document, 'spec.replicas', 1)}"


def _replica_columns(selector: Cell) -> tuple[Column, ...]:
    return (
        number("Desired", "spec.replicas", 1),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        *_containers("spec.template", selector),
    )


def _service_external(document: Document) -> str:
    spec = at(document, "spec", {})
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type", "ClusterIP"):
        case "LoadBalancer":
            ingress = at(document, "status.loadBalancer.ingress", [])
            balanced = [entry.get("ip") or entry.get("hostname", "") for entry in ingress]
            return ",".join(balanced + addresses) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", "")) or NONE
        case _:
            return ",".join(addresses) or NONE


def _service_ports(document: Document) -> str:
    def shown(port: Document) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"

    return ",".join(shown(port) for port in at(document, "spec.ports", [])) or NONE


def _endpoints(document: Document) -> str:
    shown: list[str] = []
    for subset in document.get("subsets") or ():
        ports = subset.get("ports") or ()
        for address in subset.get("addresses") or ():
            ip = address.get("ip", "")
            host = f"[{ip}]" if ":" in ip else ip
            shown += [f"{host}:{port.get('port')}" for port in ports] or [ip]
    return shortened(shown)


def _slice_addresses(document: Document) -> str:
    return shortened([address for entry in document.get("endpoints") or () for address in entry.get("addresses") or ()])


def _slice_ports(document: Document) -> str:
    ports = [str(port["port"]) if port.get("port") else "*" for port in document.get("ports") or ()]
    return shortened(ports) if ports else UNSET


def _ingress_hosts(document: Document) -> str:
    hosts = [rule["host"] for rule in at(document, "spec.rules", []) if rule.get("host")]
    return shortened(hosts) if hosts else "*"


def _ingress_address(document: Document) -> str:
    ingress = at(document, "status.loadBalancer.ingress", [])
    return ",".join(entry.get("ip") or entry.get("hostname", "") for entry in ingress)


def _job_status(document: Document) -> str:
    true = {entry.get("type") for entry in at(document, "status.conditions", []) if entry.get("status") == "True"}
    for name in ("Complete", "Failed"):
        if name in true:
            return name
    if at(document, "metadata.deletionTimestamp"):
        return "Terminating"
    return next((name for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if name in true), "Running")


def _job_completions(document: Document) -> str:
    succeeded, wanted = at(document, "status.succeeded", 0), at(document, "spec.completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = at(document, "spec.parallelism", 1)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(document: Document, now: datetime) -> str:
    start = parse_time(at(document, "status.startTime"))
    if start is None:
        return ""
    end = parse_time(at(document, "status.completionTime")) or now
    return human_duration((end - start).total_seconds())


def _node_status(document: Document) -> str:
    ready = next((entry for entry in at(document, "status.conditions", []) if entry.get("type") == "Ready"), None)
    shown = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if at(document, "spec.unschedulable", False) else shown


def _node_roles(document: Document) -> str:
    carried = at(document, "metadata.labels", {})
    roles = {key.removeprefix(_ROLE_LABEL) for key in carried if key.startswith(_ROLE_LABEL)}
    return ",".join(sorted({role for role in roles | {carried.get("kubernetes.io/role", "")} if role})) or NONE


def _node_address(kind: str) -> Callable[[Document], str]:
    def cell(document: Document) -> str:
        addresses = at(document, "status.addresses", [])
        return next((entry.get("address", "") for entry in addresses if entry.get("type") == kind), NONE)

    return cell


def _access_modes(path: str) -> Callable[[Document], str]:
    return lambda document: ",".join(_ACCESS_MODES.get(mode, mode) for mode in at(document, path, []))


def _claim_status(document: Document) -> str:
    return "Terminating" if at(document, "metadata.deletionTimestamp") else at(document, "status.phase", "")


def _volume_claim(document: Document) -> str:
    claim = at(document, "spec.claimRef", {})
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _metric_source(metric: Document) -> tuple[str, Document]:
    kind = metric.get("type", "")
    source = metric.get(kind[:1].lower() + kind[1:], {}) if kind else {}
    return kind, source if isinstance(source, dict) else {}


def _metric_value(value: Document) -> str:
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    if value.get("averageValue") is not None:
        return str(value["averageValue"])
    return str(value.get("value", "<unknown>"))


def _autoscaler_targets(document: Document) -> str:
    wanted = at(document, "spec.metrics", [])
    seen = at(document, "status.currentMetrics", [])
    shown = []
    for index, metric in enumerate(wanted):
        kind, source = _metric_source(metric)
        current = at(_metric_source(seen[index])[1], "current", {}) if index < len(seen) else {}
        value = f"{_metric_value(current)}/{_metric_value(source.get('target', {}))}"
        average = " (avg)" if at(source, "target.type") == "AverageValue" and kind in ("External", "Object") else ""
        shown.append(f"{source['name']}: {value}" if source.get("name") else value + average)
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return (", ".join(shown[:2]) + more) or NONE


def _autoscaler_v1_targets(document: Document) -> str:
    wanted = at(document, "spec.targetCPUUtilizationPercentage")
    if wanted is None:
        return NONE
    current = at(document, "status.currentCPUUtilizationPercentage")
    return f"cpu: {'<unknown>' if current is None else f'{current}%'}/{wanted}%"


def _autoscaler_reference(document: Document) -> str:
    return f"{at(document, 'spec.scaleTargetRef.kind', '')}/{at(document, 'spec.scaleTargetRef.name', '')}"


def _subjects(kind: str) -> Callable[[Document], str]:
    def cell(document: Document) -> str:
        found: Iterable[Document] = (entry for entry in document.get("subjects") or () if entry.get("kind") == kind)
        if kind == "ServiceAccount":
            return ", ".join(f"{entry.get('namespace', '')}/{entry.get('name', '')}" for entry in found)
        return ", ".join(entry.get("name", "") for entry in found)

    return cell


def _quota(kind: str) -> Callable[[Document], str]:
    """Return the cell with the usage of a quota: of its limits, or of everything else."""

    def cell(document: Document) -> str:
        hard, used = at(document, "status.hard", {}), at(document, "status.used", {})
        names = sorted(name for name in hard if name.startswith("limits.") is (kind == "limits"))
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


def _default_mark(annotation: str) -> Column:
    """Return the Name column of a kind of which an annotation marks the default object."""

    def cell(document: Document) -> str:
        name = str(at(document, "metadata.name", ""))
        return f"{name} (default)" if at(document, "metadata.annotations", {}).get(annotation) == "true" else name

    return Column("Name", lambda document, now: cell(document), format="name", is_timed=False)


_CREATED_AT = field("Created At", "metadata.creationTimestamp")
_PARTS = _containers("spec.template", _selector())
_BINDING = (
    computed("Role", lambda d: f"{at(d, 'roleRef.kind', '')}/{at(d, 'roleRef.name', '')}"),
    AGE,
    computed("Users", _subjects("User"), wide=True),
    computed("Groups", _subjects("Group"), wide=True),
    computed("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)
_WEBHOOKS = (computed("Webhooks", lambda d: len(d.get("webhooks") or ()), kind="integer"),)
_AUTOSCALER_SIZES = (
    computed("MinPods", lambda d: str(at(d, "spec.minReplicas", UNSET))),
    number("MaxPods", "spec.maxReplicas"),
    number("Replicas", "status.currentReplicas"),
)


def _request_condition(document: Document) -> str:
    """Return what was decided about a certificate request, and whether its certificate is there, as kubectl does."""
    types = [str(entry.get("type", "")) for entry in at(document, "status.conditions", [])]
    found: list[str] = [word for word in ("Approved", "Denied", "Failed") if word in types] or ["Pending"]
    return ",".join([*found, *(["Issued"] if at(document, "status.certificate") else [])])


def _duration(document: Document) -> str:
    seconds = at(document, "spec.expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


# By "apiVersion/Kind".
COLUMNS: dict[str, tuple[Column, ...]] = {
    "v1/ConfigMap": (
        computed("Data", lambda d: len(d.get("data") or ()) + len(d.get("binaryData") or ()), kind="integer"),
    ),
    "v1/Secret": (
        field("Type", "type", "Opaque"),
        computed("Data", lambda d: len(d.get("data") or ()), kind="integer"),
    ),
    "v1/Namespace": (field("Status", "status.phase", "Active"),),
    "v1/ServiceAccount": (computed("Secrets", lambda d: len(d.get("secrets") or ()), kind="integer"),),
    "v1/Service": (
        field("Type", "spec.type", "ClusterIP"),
        field("Cluster-IP", "spec.clusterIP", NONE),
        computed("External-IP", _service_external),
        computed("Port(s)", _service_ports),
        AGE,
        computed("Selector", lambda d: labels(at(d, "spec.selector")), wide=True),
    ),
    "v1/Endpoints": (computed("Endpoints", _endpoints),),
    "v1/Node": (
        computed("Status", _node_status),
        computed("Roles", _node_roles),
        AGE,
        field("Version", "status.nodeInfo.kubeletVersion"),
        computed("Internal-IP", _node_address("InternalIP"), wide=True),
        computed("External-IP", _node_address("ExternalIP"), wide=True),
        field("OS-Image", "status.nodeInfo.osImage", "<unknown>", wide=True),
        field("Kernel-Version", "status.nodeInfo.kernelVersion", "<unknown>", wide=True),
        field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", wide=True),
    ),
    "v1/PersistentVolumeClaim": (
        computed("Status", _claim_status),
        field("Volume", "spec.volumeName"),
        field("Capacity", "status.capacity.storage"),
        computed("Access Modes", _access_modes("status.accessModes")),
        field("StorageClass", "spec.storageClassName"),
        field("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        field("VolumeMode", "spec.volumeMode", UNSET, wide=True),
    ),
    "v1/PersistentVolume": (
        field("Capacity", "spec.capacity.storage"),
        computed("Access Modes", _access_modes("spec.accessModes")),
        field("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        computed("Status", _claim_status),
        computed("Claim", _volume_claim),
        field("StorageClass", "spec.storageClassName"),
        field("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        field("Reason", "status.reason"),
        AGE,
        field("VolumeMode", "spec.volumeMode", UNSET, wide=True),
    ),
    "v1/ReplicationController": _replica_columns(lambda d, now: labels(at(d, "spec.selector"))),
    "v1/PodTemplate": (
        *(Column(c.name, c.cell, is_timed=False) for c in _containers("template")),
        computed("Pod Labels", lambda d: labels(at(d, "template.metadata.labels"))),
    ),
    "v1/ResourceQuota": (AGE, computed("Request", _quota("requests")), computed("Limit", _quota("limits"))),
    "v1/LimitRange": (_CREATED_AT,),
    "apps/v1/Deployment": (
        computed("Ready", _ready),
        number("Up-to-date", "status.updatedReplicas"),
        number("Available", "status.availableReplicas"),
        AGE,
        *_PARTS,
    ),
    "apps/v1/StatefulSet": (computed("Ready", _ready), AGE, *_containers("spec.template")),
    "apps/v1/ReplicaSet": _replica_columns(_selector()),
    "apps/v1/DaemonSet": (
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        computed("Node Selector", lambda d: labels(at(d, "spec.template.spec.nodeSelector"))),
        AGE,
        *_PARTS,
    ),
    "apps/v1/ControllerRevision": (
        computed("Controller", lambda d: _owner(d)),
        number("Revision", "revision"),
    ),
    "batch/v1/Job": (
        computed("Status", _job_status),
        computed("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_PARTS,
    ),
    "batch/v1/CronJob": (
        field("Schedule", "spec.schedule"),
        field("Timezone", "spec.timeZone", NONE),
        computed("Suspend", lambda d: str(bool(at(d, "spec.suspend", False)))),
        computed("Active", lambda d: len(at(d, "status.active", [])), kind="integer"),
        moment("Last Schedule", "status.lastScheduleTime", NONE),
        AGE,
        *_containers("spec.jobTemplate.spec.template", _selector("spec.jobTemplate.spec.selector")),
    ),
    "autoscaling/v1/HorizontalPodAutoscaler": (
        computed("Reference", _autoscaler_reference),
        computed("Targets", _autoscaler_v1_targets),
        *_AUTOSCALER_SIZES,
    ),
    "autoscaling/v2/HorizontalPodAutoscaler": (
        computed("Reference", _autoscaler_reference),
        computed("Targets", _autoscaler_targets),
        *_AUTOSCALER_SIZES,
    ),
    "certificates.k8s.io/v1/CertificateSigningRequest": (
        AGE,
        field("SignerName", "spec.signerName"),
        field("Requestor", "spec.username"),
        computed("RequestedDuration", _duration),
        computed("Condition", _request_condition),
    ),
    "networking.k8s.io/v1/Ingress": (
        computed("Class", lambda d: at(d, "spec.ingressClassName", NONE)),
        computed("Hosts", _ingress_hosts),
        computed("Address", _ingress_address),
        computed("Ports", lambda d: "80, 443" if at(d, "spec.tls", []) else "80"),
    ),
    "networking.k8s.io/v1/IngressClass": (
        _default_mark("ingressclass.kubernetes.io/is-default-class"),
        field("Controller", "spec.controller"),
        computed("Parameters", lambda d: _parameters(at(d, "spec.parameters", {}))),
    ),
    "networking.k8s.io/v1/NetworkPolicy": (Column("Pod-Selector", _selector("spec.podSelector")),),
    "policy/v1/PodDisruptionBudget": (
        computed("Min Available", lambda d: str(at(d, "spec.minAvailable", "N/A"))),
        computed("Max Unavailable", lambda d: str(at(d, "spec.maxUnavailable", "N/A"))),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
    ),
    "rbac.authorization.k8s.io/v1/Role": (_CREATED_AT,),
    "rbac.authorization.k8s.io/v1/ClusterRole": (_CREATED_AT,),
    "rbac.authorization.k8s.io/v1/RoleBinding": _BINDING,
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": _BINDING,
    "storage.k8s.io/v1/StorageClass": (
        _default_mark("storageclass.kubernetes.io/is-default-class"),
        field("Provisioner", "provisioner"),
        field("ReclaimPolicy", "reclaimPolicy", "Delete"),
        field("VolumeBindingMode", "volumeBindingMode", UNSET),
        field("AllowVolumeExpansion", "allowVolumeExpansion", False, kind="boolean"),
    ),
    "storage.k8s.io/v1/CSINode": (computed("Drivers", lambda d: len(at(d, "spec.drivers", [])), kind="integer"),),
    "coordination.k8s.io/v1/Lease": (field("Holder", "spec.holderIdentity"),),
    "discovery.k8s.io/v1/EndpointSlice": (
        field("AddressType", "addressType"),
        computed("Ports", _slice_ports),
        computed("Endpoints", _slice_addresses),
    ),
    "scheduling.k8s.io/v1/PriorityClass": (
        number("Value", "value"),
        field("Global-Default", "globalDefault", False, kind="boolean"),
        AGE,
        field("PreemptionPolicy", "preemptionPolicy", "PreemptLowerPriority"),
    ),
    "node.k8s.io/v1/RuntimeClass": (field("Handler", "handler"),),
    "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration": _WEBHOOKS,
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration": _WEBHOOKS,
    "apiextensions.k8s.io/v1/CustomResourceDefinition": (_CREATED_AT,),
}


def _owner(document: Document) -> str:
    owner = next((entry for entry in at(document, "metadata.ownerReferences", []) if entry.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = str(owner.get("kind", "")).lower()
    return f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"


def _parameters(parameters: Document) -> str:
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"

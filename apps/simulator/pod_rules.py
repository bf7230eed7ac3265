"""The rules of kube-apiserver for the spec of a Pod or of a pod template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.simulator import checks
from apps.simulator.checks import between, each, is_port_name, needed, one_of, unique
from controlplane.apimachinery import causes, selectors
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_FIELD_PATHS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution[]"
_WEIGHTED = "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm"

_OF_SPEC = (
    one_of("dnsPolicy", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    unique("volumes", "name"),
    needed("volumes[].name"),
    between("topologySpreadConstraints[].maxSkew", 1),
    unique("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"),
    needed("topologySpreadConstraints[].topologyKey"),
    *(
        needed(f"affinity.{kind}.{terms}.topologyKey")
        for kind in ("podAffinity", "podAntiAffinity")
        for terms in (_TERMS, _WEIGHTED)
    ),
)

_OF_CONTAINER = (
    needed("name", "image", "env[].name", "env[].valueFrom.secretKeyRef.name", "env[].valueFrom.configMapKeyRef.name"),
    each("name", lambda name: not selectors.dns1123_label_errors(name), "must be a DNS label"),
    each("env[].valueFrom.fieldRef.fieldPath", lambda path: _is_field(path), "is no field that a container can have"),
    one_of("imagePullPolicy", "Always", "IfNotPresent", "Never"),
    needed("ports[].containerPort"),
    between("ports[].containerPort", 1, 65535),
    one_of("ports[].protocol", "TCP", "UDP", "SCTP"),
    each("ports[].name", is_port_name, "must be a name of at most 15 lower case letters, digits and '-'"),
    unique("ports", "name"),
    *(between(f"{probe}.{field}", 0) for probe in PROBES for field in ("timeoutSeconds", "periodSeconds")),
    *(between(f"{probe}.successThreshold", 1, 1) for probe in PROBES if probe != "readinessProbe"),
)


def pod_causes(spec: Document, at: str, *, restarts: tuple[str, ...], claims: frozenset[str]) -> Iterator[Cause]:
    """Yield the causes to refuse the pod spec at the path `at`.

    restarts: the restart policies that its kind allows. claims: the names of the volumes that the workload adds.
    """
    for rule in _OF_SPEC:
        yield from _under(at, rule(spec))
    if not spec.get("containers"):
        yield causes.required(f"{at}.containers")
    policy = spec.get("restartPolicy")
    if policy not in restarts:
        yield causes.unsupported(f"{at}.restartPolicy", policy, restarts)
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        yield causes.required(f"{at}.dnsConfig.nameservers", "must provide a DNS nameserver where dnsPolicy is None")
    for index, volume in enumerate(spec.get("volumes") or ()):
        if len(set(volume) - {"name"}) > 1:
            yield causes.forbidden(f"{at}.volumes[{index}]", "may not specify more than 1 volume type")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            where = f"{at}.tolerations[{index}].operator"
            yield causes.invalid(where, toleration["value"], "value must be empty when `operator` is 'Exists'")
    yield from _containers(spec, at, {item.get("name") for item in spec.get("volumes") or ()} | claims)


def _containers(spec: Document, at: str, volumes: set[Any]) -> Iterator[Cause]:
    seen = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            where = f"{at}.{part}[{index}]"
            if container.get("name") in seen:
                yield causes.duplicate(f"{where}.name", container.get("name"))
            seen.add(container.get("name"))
            for rule in _OF_CONTAINER:
                yield from _under(where, rule(container))
            yield from _container(container, where, volumes)


def _container(container: Document, at: str, volumes: set[Any]) -> Iterator[Cause]:
    for index, variable in enumerate(container.get("env") or ()):
        if variable.get("value") and variable.get("valueFrom"):
            yield causes.invalid(f"{at}.env[{index}].valueFrom", "", "may not be specified when `value` is not empty")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            yield Cause("FieldValueNotFound", f"Not found: {mount.get('name')!r}", f"{at}.volumeMounts[{index}].name")
    for probe in PROBES:
        if container.get(probe) is not None and len(set(_HANDLERS) & set(container[probe])) != 1:
            yield causes.required(f"{at}.{probe}", "must specify exactly one handler type")
    security = container.get("securityContext") or {}
    if security.get("privileged") and security.get("allowPrivilegeEscalation") is False:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield causes.invalid(f"{at}.securityContext", "", detail)
    yield from _resources(container.get("resources") or {}, f"{at}.resources")


def _resources(resources: Document, at: str) -> Iterator[Cause]:
    """Yield the causes to refuse resources: unknown names, negative amounts, and requests above their limit."""
    limits = resources.get("limits") or {}
    for part in ("limits", "requests"):
        for name, amount in (resources.get(part) or {}).items():
            if not checks.is_not_negative(amount):
                yield causes.invalid(f"{at}.{part}[{name}]", amount, "must be greater than or equal to 0")
            if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
                yield causes.invalid(f"{at}.{part}[{name}]", name, "must be a standard resource or fully qualified")
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and checks.exceeds(amount, limits[name]):
            yield causes.invalid(f"{at}.requests[{name}]", amount, f"must be less than or equal to {name} limit")
        elif name not in limits and "/" in name:
            yield causes.required(f"{at}.limits[{name}]", "limit must be set for non overcommitable resources")


def _is_field(path: str) -> bool:
    return path in _FIELD_PATHS or path.startswith(("metadata.labels['", "metadata.annotations['"))


def _under(at: str, found: Iterator[Cause]) -> Iterator[Cause]:
    for cause in found:
        yield Cause(cause.reason, cause.message, f"{at}.{cause.field}")

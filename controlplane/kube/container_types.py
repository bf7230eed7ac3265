"""Containers: their ports, environment, resources, mounts, probes and security."""

from __future__ import annotations

import re
from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.apimachinery.errors import Cause
from controlplane.kube import rules
from controlplane.kube.rules import (
    MAX_INT32,
    Causes,
    Document,
    Type,
    between,
    config_key_errors,
    dns_label,
    env_name_errors,
    not_negative,
    one_of,
    port,
    port_name_errors,
    port_or_name,
    positive,
    present,
    spelled,
    subdomain,
)

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_RESOURCES = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
FIELD_PATHS = frozenset(
    (
        *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
        *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
    )
)
_OF_FILES = frozenset(
    ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
)
_BY_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_IMAGE = re.compile(
    r"([a-zA-Z0-9.-]+(:\d+)?/|\[[0-9a-fA-F:]+\](:\d+)?/)?"  # a registry
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:\w[\w.-]{0,127})?(@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_IDS = between(0, MAX_INT32)
_PATH_BACKWARDS = "must not contain '..'"


def field_path(known: frozenset[str]) -> rules.Rule:
    """Return the rule that a text names a field of a pod. `known`: those that are supported at this place."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if value == "":
            return
        found = _BY_KEY.fullmatch(value)
        if found:
            errors = selectors.label_key_errors(found[2].lower() if found[1] == "annotations" else found[2])
            out.extend(causes.invalid(at, value, wrong) for wrong in errors)
        elif value not in FIELD_PATHS and value not in _OF_FILES:
            out.append(causes.invalid(at, value, f"error converting fieldPath: field label not supported: {value}"))
        elif value not in known:
            out.append(causes.unsupported(at, value, sorted(known)))

    return rule


FILE_FIELD = field_path(_OF_FILES)


def _variable(value: Document, at: str, out: Causes) -> None:
    source = value.get("valueFrom")
    if source is None:
        return
    found = present(source, _SOURCES)
    if not found:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        out.append(causes.invalid(f"{at}.valueFrom", "", f"must specify one of: {listed}"))
    elif value.get("value"):
        out.append(causes.invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty"))
    elif len(found) > 1:
        out.append(causes.invalid(f"{at}.valueFrom", "", "may not have more than one field specified at a time"))
    for reference in ("secretKeyRef", "configMapKeyRef"):
        _key_reference(source.get(reference), f"{at}.valueFrom.{reference}", out)


def _key_reference(value: Document | None, at: str, out: Causes) -> None:
    if value is None:
        return
    name = value.get("name") or ""
    out.extend(causes.invalid(f"{at}.name", name, wrong) for wrong in selectors.dns1123_subdomain_errors(name))
    if not value.get("key"):
        out.append(causes.required(f"{at}.key"))
    else:
        out.extend(causes.invalid(f"{at}.key", value["key"], wrong) for wrong in config_key_errors(value["key"]))


def _sources(value: Any, at: str, out: Causes) -> None:
    for source in value:
        found = present(source, ("configMapRef", "secretRef"))
        if not found:
            out.append(causes.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            out.append(causes.invalid(at, "", "may not have more than one field specified at a time"))


def _resources(value: Document, at: str, out: Causes) -> None:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{at}.{part}[{name}]"
            resource_name(name, where, out)
            if rules.sign(amount) < 0:
                out.append(causes.invalid(where, amount, "must be greater than or equal to 0"))
    for name, amount in requests.items():
        where = f"{at}.requests"
        if name not in limits:
            if not _overcommits(name):
                out.append(causes.required(f"{at}.limits", "Limit must be set for non overcommitable resources"))
        elif _overcommits(name) and rules.exceeds(amount, limits[name]):
            out.append(causes.invalid(where, amount, f"must be less than or equal to {name} limit of {limits[name]}"))
        elif not _overcommits(name) and rules.exceeds(amount, limits[name]) | rules.exceeds(limits[name], amount):
            out.append(causes.invalid(where, amount, f"must be equal to {name} limit of {limits[name]}"))


def _overcommits(name: str) -> bool:
    """Test whether a resource may be overcommitted. Extended resources and huge pages may not."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


def resource_name(name: str, at: str, out: Causes) -> None:
    """Append the causes against the name of a resource of containers."""
    out.extend(causes.invalid(at, name, wrong) for wrong in selectors.label_key_errors(name))
    if "/" in name or name in _NATIVE or name.startswith("hugepages-"):
        return
    if not selectors.label_key_errors(name):
        out.append(causes.invalid(at, name, "must be a standard resource type or fully qualified"))
    out.append(causes.invalid(at, name, "must be a standard resource for containers"))


def _with_requests(value: Document) -> Document:
    return value if value.get("resources") is not None else {**value, "resources": {}}


def _handler(value: Document, at: str, out: Causes) -> None:
    found = present(value, _HANDLERS)
    if not found:
        out.append(causes.required(at, "must specify a handler type"))
    for name in found[1:]:
        out.append(causes.forbidden(f"{at}.{name}", "may not specify more than 1 handler type"))


def _port_of_handler(value: Document, at: str, out: Causes) -> None:
    if value.get("port") is None:
        out.append(causes.invalid(f"{at}.port", 0, "must be between 1 and 65535, inclusive"))


def _grpc(value: Document, at: str, out: Causes) -> None:
    if not 1 <= (value.get("port") or 0) <= 65535:
        out.append(causes.invalid(f"{at}.port", value.get("port") or 0, "must be between 1 and 65535, inclusive"))


def _headers(value: Any, at: str, out: Causes) -> None:
    for header in value:
        if not _HEADER.fullmatch(header.get("name") or ""):
            words = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name'"
            out.append(
                causes.invalid(at, header.get("name") or "", f"{words}, regex used for validation is '[-A-Za-z0-9]+')")
            )


def probes(container: Document, at: str, out: Causes) -> None:
    """Append the causes against the probes of a container.

    successThreshold of liveness and startup probes must be 1. A readiness probe has no terminationGracePeriodSeconds.
    """
    for name in ("livenessProbe", "startupProbe"):
        probe = container.get(name)
        if probe and probe.get("successThreshold", 1) not in (1, None):
            out.append(causes.invalid(f"{at}.{name}.successThreshold", probe["successThreshold"], "must be 1"))
    probe = container.get("readinessProbe")
    if probe and probe.get("terminationGracePeriodSeconds") is not None:
        where = f"{at}.readinessProbe.terminationGracePeriodSeconds"
        out.append(causes.invalid(where, probe["terminationGracePeriodSeconds"], "must not be set for readinessProbes"))


def _probe_times(value: Document) -> Document:
    """Return a probe whose times are set. Kubernetes takes 0 for unset."""
    times = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    return {**value, **{name: default for name, default in times.items() if not value.get(name)}}


def _security(value: Document, at: str, out: Causes) -> None:
    if value.get("allowPrivilegeEscalation") is False:
        if value.get("privileged"):
            words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            out.append(causes.invalid(at, "", words))
        if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            out.append(causes.invalid(at, "", words))


def _seccomp(value: Document, at: str, out: Causes) -> None:
    kind, profile = value.get("type"), value.get("localhostProfile")
    if not kind:
        out.append(causes.required(f"{at}.type", "type is required when seccompProfile is set"))
    elif kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        out.append(causes.unsupported(f"{at}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined")))
    if kind == "Localhost" and profile is None:
        out.append(causes.required(f"{at}.localhostProfile", "must be set when seccomp type is Localhost"))
    elif kind == "Localhost":
        local_path(profile, f"{at}.localhostProfile", out)
    elif profile is not None:
        out.append(causes.invalid(f"{at}.localhostProfile", profile, "can only be set when seccomp type is Localhost"))


def local_path(value: Any, at: str, out: Causes) -> None:
    """Append a cause if a path is absolute or leads upwards."""
    if str(value).startswith("/"):
        out.append(causes.invalid(at, value, "must be a relative path"))
    if ".." in str(value).split("/"):
        out.append(causes.invalid(at, value, _PATH_BACKWARDS))


def _mounts(value: Any, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, mount in enumerate(value):
        path, where = mount.get("mountPath"), f"{at}[{index}]"
        if path and path in seen:
            out.append(causes.invalid(f"{where}.mountPath", path, "must be unique"))
        seen.add(path)
        if mount.get("subPath") and mount.get("subPathExpr"):
            out.append(
                causes.invalid(
                    f"{where}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
                )
            )
        propagation = mount.get("mountPropagation")
        if propagation is not None and propagation not in ("Bidirectional", "HostToContainer", "None"):
            choices = ("Bidirectional", "HostToContainer", "None")
            out.append(causes.unsupported(f"{at}.mountPropagation", propagation, choices))


def container(value: Document, at: str, out: Causes, volumes: frozenset[Any]) -> None:
    """Append the causes against the parts of a container that refer to others: mounts of unknown volumes."""
    for index, mount in enumerate(value.get("volumeMounts") or ()):
        name = mount.get("name") or ""
        if name not in volumes:
            shown = causes.shown(name)
            out.append(Cause("FieldValueNotFound", f"Not found: {shown}", f"{at}.volumeMounts[{index}].name"))
    for index, device in enumerate(value.get("volumeDevices") or ()):
        name = device.get("name") or ""
        if name not in volumes:
            shown = causes.shown(name)
            out.append(Cause("FieldValueNotFound", f"Not found: {shown}", f"{at}.volumeDevices[{index}].name"))


def is_latest(image: str) -> bool:
    """Test whether an image has the tag latest, or neither a tag nor a digest."""
    if len(image) > 255 or not _IMAGE.fullmatch(image):
        return False  # Kubernetes reads no tag in the name of an image that is misspelt
    name, digest = image.partition("@")[::2]
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag == "latest" or (not tag and not digest)


def _filled(value: Document) -> Document:
    policy = value.get("imagePullPolicy") or ("Always" if is_latest(value.get("image") or "") else "IfNotPresent")
    return {**value, "imagePullPolicy": policy}


def _ports(value: Any, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, item in enumerate(value):
        name = item.get("name")
        if not name:
            continue
        if name in seen and not port_name_errors(name):
            out.append(causes.duplicate(f"{at}[{index}].name", name))
        seen.add(name)


_PULL = ("Always", "IfNotPresent", "Never")
_RESTARTS = ("Always", "Never", "OnFailure")

TYPES = {
    "core.v1.Container": Type(
        required=("name", "image"),
        fields={
            "name": dns_label,
            "imagePullPolicy": one_of(*_PULL),
            "terminationMessagePolicy": one_of("File", "FallbackToLogsOnError"),
            "ports": _ports,
            "envFrom": _sources,
            "volumeMounts": _mounts,
            "restartPolicy": one_of(*_RESTARTS, empty=True),
        },
        whole=(probes,),
        defaults={
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {},
        },
        fill=_filled,
    ),
    "core.v1.ContainerPort": Type(
        required=("containerPort",),
        fields={
            "containerPort": port,
            "hostPort": port,
            "protocol": one_of("SCTP", "TCP", "UDP"),
            "name": spelled(port_name_errors),
        },
        defaults={"protocol": "TCP"},
    ),
    "core.v1.EnvVar": Type(required=("name",), fields={"name": spelled(env_name_errors)}, whole=(_variable,)),
    "core.v1.EnvVarSource": Type(),
    "core.v1.SecretKeySelector": Type(),
    "core.v1.ConfigMapKeySelector": Type(),
    "core.v1.ObjectFieldSelector": Type(defaults={"apiVersion": "v1"}),
    "core.v1.ResourceFieldSelector": Type(defaults={"divisor": "0"}),
    "core.v1.EnvFromSource": Type(fields={"prefix": spelled(env_name_errors)}),
    "core.v1.ConfigMapEnvSource": Type(required=("name",), fields={"name": subdomain}),
    "core.v1.SecretEnvSource": Type(required=("name",), fields={"name": subdomain}),
    "core.v1.ResourceRequirements": Type(whole=(_resources,)),
    "core.v1.VolumeMount": Type(
        required=("name", "mountPath"), fields={"subPath": local_path, "subPathExpr": local_path}
    ),
    "core.v1.VolumeDevice": Type(required=("name", "devicePath")),
    "core.v1.Probe": Type(
        fields={
            **dict.fromkeys(("initialDelaySeconds", "timeoutSeconds", "periodSeconds"), not_negative),
            **dict.fromkeys(("successThreshold", "failureThreshold"), not_negative),
            "terminationGracePeriodSeconds": positive,
        },
        whole=(_handler,),
        fill=_probe_times,
    ),
    "core.v1.LifecycleHandler": Type(whole=(_handler,)),
    "core.v1.ExecAction": Type(required=("command",)),
    "core.v1.HTTPGetAction": Type(
        required=("path",),
        fields={"port": port_or_name, "scheme": one_of("HTTP", "HTTPS"), "httpHeaders": _headers},
        whole=(_port_of_handler,),
        defaults={"path": "/", "scheme": "HTTP"},
    ),
    "core.v1.HTTPHeader": Type(),
    "core.v1.TCPSocketAction": Type(fields={"port": port_or_name}, whole=(_port_of_handler,)),
    "core.v1.GRPCAction": Type(whole=(_grpc,), defaults={"service": ""}),
    "core.v1.SleepAction": Type(),
    "core.v1.SecurityContext": Type(
        fields={"runAsUser": _IDS, "runAsGroup": _IDS, "procMount": one_of("Default", "Unmasked", empty=True)},
        whole=(_security,),
    ),
    "core.v1.SeccompProfile": Type(whole=(_seccomp,)),
    "core.v1.Capabilities": Type(),
}
FIELD_OF_CONTAINER = field_path(FIELD_PATHS)
RESOURCE_OF_CONTAINER = one_of(*_RESOURCES)


def _field(value: Any, at: str, out: Causes) -> None:
    if not value.get("fieldPath"):
        out.append(causes.required(f"{at}.fieldPath"))
    FIELD_OF_CONTAINER(value.get("fieldPath") or "", f"{at}.fieldPath", out)


def _resource(value: Any, at: str, out: Causes) -> None:
    if not value.get("resource"):
        out.append(causes.required(f"{at}.resource"))
    RESOURCE_OF_CONTAINER(value.get("resource") or "", f"{at}.resource", out)


TYPES["core.v1.EnvVarSource"] = Type(fields={"fieldRef": _field, "resourceFieldRef": _resource})

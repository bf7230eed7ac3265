"""Pods and pod templates: everything but containers and volumes."""

from __future__ import annotations

import re
from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube import container_types
from controlplane.kube.rules import (
    MAX_INT32,
    Causes,
    Document,
    Type,
    address_errors,
    annotation_keys,
    between,
    dns_label,
    each,
    labels,
    not_empty,
    one_of,
    qualified,
    spelled,
    subdomain,
    unique,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_RESTARTS = ("Always", "OnFailure", "Never")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCHED = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_BY = "regex used for validation is"
_IDS = between(0, MAX_INT32)


def pod_spec(value: Document, at: str, out: Causes) -> None:
    """Append the causes against the parts of a pod spec that depend on each other."""
    if not value.get("containers"):
        out.append(causes.required(f"{at}.containers"))
    if value.get("dnsPolicy") == "None" and not (value.get("dnsConfig") or {}).get("nameservers"):
        words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        out.append(causes.required(f"{at}.dnsConfig.nameservers", words))
    _containers(value, at, out, _known_volumes(value, at, out))


def _known_volumes(value: Document, at: str, out: Causes) -> frozenset[Any]:
    """Return the names of the volumes that have no cause against them. Mounts of others are not found."""
    listed = f"{at}.volumes["
    refused = {cause.field.removeprefix(listed).partition("]")[0] for cause in out if cause.field.startswith(listed)}
    volumes = enumerate(value.get("volumes") or ())
    return frozenset(volume.get("name") or None for index, volume in volumes if str(index) not in refused)


def _containers(value: Document, at: str, out: Causes, volumes: frozenset[Any]) -> None:
    seen: set[Any] = set()
    ports: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(value.get(part) or ()):
            where, name = f"{at}.{part}[{index}]", container.get("name")
            if name and name in seen and not selectors.dns1123_label_errors(name):
                out.append(causes.duplicate(f"{where}.name", name))
            seen.add(name)
            container_types.container(container, where, out, volumes)
            if part == "containers":
                _host_ports(container, where, ports, out)


def _host_ports(container: Document, at: str, seen: set[str], out: Causes) -> None:
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("hostPort")
        if number:
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
            if key in seen:
                out.append(causes.duplicate(f"{at}.ports[{index}].hostPort", key))
            seen.add(key)


def template(value: Document, at: str, out: Causes) -> None:
    """Append the causes against a pod template: its labels, its annotation keys, and a missing spec.

    Kubernetes leaves `metadata` out of these paths.
    """
    metadata = value.get("metadata") or {}
    labels(metadata.get("labels"), f"{at}.labels", out)
    annotation_keys(metadata.get("annotations"), f"{at}.annotations", out)
    if not value.get("spec"):
        out.append(causes.required(f"{at}.spec.containers"))


def _filled(value: Document) -> Document:
    made = {**value}
    if made.get("securityContext") is None:
        made["securityContext"] = {}
    if made.get("terminationGracePeriodSeconds") is None:
        made["terminationGracePeriodSeconds"] = 30
    account = made.get("serviceAccountName") or made.get("serviceAccount")
    if account:
        made["serviceAccountName"] = made["serviceAccount"] = account
    if made.get("hostNetwork"):
        for part in ("containers", "initContainers"):
            if made.get(part):
                made[part] = [_on_host(container) for container in made[part]]
    return made


def _on_host(container: Document) -> Document:
    """Return a container of a pod on the host's network: its ports are ports of the host."""
    if not container.get("ports"):
        return container
    ports = [
        port if port.get("hostPort") or not port.get("containerPort") else {**port, "hostPort": port["containerPort"]}
        for port in container["ports"]
    ]
    return {**container, "ports": ports}


def filled_pod(value: Document) -> Document:
    """Return a Pod in which requests follow limits, and service links are on unless the user turned them off."""
    spec = value.get("spec")
    if not isinstance(spec, dict):
        return value
    made = {"enableServiceLinks": True, **spec}
    for part in ("containers", "initContainers"):
        if made.get(part):
            made[part] = [_with_requests(container) for container in made[part]]
    return {**value, "spec": made}


def _with_requests(container: Document) -> Document:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def toleration(value: Document, at: str, out: Causes) -> None:
    """Append the causes against a toleration."""
    key, operator, text = value.get("key") or "", value.get("operator") or "", value.get("value") or ""
    if key:
        out.extend(causes.invalid(f"{at}.key", key, wrong) for wrong in selectors.label_key_errors(key))
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        out.append(causes.invalid(f"{at}.operator", operator, words))
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        out.append(causes.invalid(f"{at}.effect", value.get("effect") or "", words))
    if operator in ("", "Equal"):
        wrongs = selectors.label_value_errors(text)
        out.extend(causes.invalid(f"{at}.operator", text, wrong) for wrong in wrongs)
    elif operator == "Exists":
        if text:
            out.append(causes.invalid(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        out.append(causes.unsupported(f"{at}.operator", operator, ("Equal", "Exists")))
    if value.get("effect") and value["effect"] not in EFFECTS:
        out.append(causes.unsupported(f"{at}.effect", value["effect"], EFFECTS))


def _node_requirement(value: Document, at: str, out: Causes) -> None:
    operator, values, key = value.get("operator"), value.get("values") or (), value.get("key") or ""
    if operator in ("In", "NotIn"):
        if not values:
            out.append(causes.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(causes.forbidden(f"{at}.values", words))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            out.append(causes.required(f"{at}.values", words))
    else:
        out.append(causes.invalid(f"{at}.operator", operator or "", "not a valid selector operator"))
    out.extend(causes.invalid(f"{at}.key", key, wrong) for wrong in selectors.label_key_errors(key))
    for index, text in enumerate(values):
        wrongs = selectors.label_value_errors(text)
        out.extend(causes.invalid(f"{at}.values[{index}]", text, wrong) for wrong in wrongs)


def _preferred(value: Document, at: str, out: Causes) -> None:
    if not 1 <= (value.get("weight") or 0) <= 100:
        out.append(causes.invalid(f"{at}.weight", value.get("weight") or 0, "must be in the range 1-100"))


def _affinity_term(value: Document, at: str, out: Causes) -> None:
    key = value.get("topologyKey") or ""
    if not key:
        out.append(causes.required(f"{at}.topologyKey", "can not be empty"))
    out.extend(causes.invalid(f"{at}.topologyKey", key, wrong) for wrong in selectors.label_key_errors(key))
    for index, name in enumerate(value.get("namespaces") or ()):
        wrongs = selectors.dns1123_label_errors(name)
        out.extend(causes.invalid(f"{at}.namespaces[{index}]", name, wrong) for wrong in wrongs)


def _spread(value: Document, at: str, out: Causes) -> None:
    if (value.get("maxSkew") or 0) <= 0:
        out.append(causes.invalid(f"{at}.maxSkew", value.get("maxSkew") or 0, "must be greater than zero"))
    if not value.get("topologyKey"):
        out.append(causes.required(f"{at}.topologyKey", "can not be empty"))
    if value.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
        choices = ("DoNotSchedule", "ScheduleAnyway")
        out.append(causes.unsupported(f"{at}.whenUnsatisfiable", value.get("whenUnsatisfiable") or "", choices))


def _spreads(value: Any, at: str, out: Causes) -> None:
    seen: dict[Any, int] = {}
    for index, item in enumerate(value):
        pair = item.get("topologyKey"), item.get("whenUnsatisfiable")
        if pair in seen:
            where = f"{at}[{seen[pair]}].{{topologyKey, whenUnsatisfiable}}"
            out.append(causes.duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))
        seen.setdefault(pair, index)


def _search(value: Any, at: str, out: Causes) -> None:
    name = value.removesuffix(".") if value != "." else "x"
    if len(name) > 253:
        out.append(causes.invalid(at, value, "must be no more than 253 characters"))
    elif not _SEARCH.fullmatch(name):
        out.append(causes.invalid(at, value, f"{_SEARCHED} (e.g. 'example.com', {_BY} '{_SEARCH.pattern}')"))


def _options(value: Any, at: str, out: Causes) -> None:
    for index, option in enumerate(value):
        if not option.get("name"):
            out.append(causes.required(f"{at}[{index}]", "must not be empty"))


def _sysctls(value: Any, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, item in enumerate(value):
        name = item.get("name")
        if not name:
            out.append(causes.required(f"{at}[{index}].name"))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            words = f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"
            out.append(causes.invalid(f"{at}[{index}].name", name, words))
        elif name in seen:
            out.append(causes.duplicate(f"{at}[{index}].name", name))
        seen.add(name)


def _gate(value: Document, at: str, out: Causes) -> None:
    kind = value.get("conditionType") or ""
    out.extend(causes.invalid(f"{at}.conditionType", kind, wrong) for wrong in selectors.label_key_errors(kind))


TYPES = {
    "core.v1.PodTemplateSpec": Type(whole=(template,), fill=lambda value: {"metadata": {}, **value}),
    "core.v1.PodTemplate": Type(
        whole=(lambda value, at, out: None if value.get("template") else template({}, "template", out),),
    ),
    "core.v1.PodSpec": Type(
        fields={
            "restartPolicy": one_of(*_RESTARTS),
            "dnsPolicy": one_of(*_DNS),
            "activeDeadlineSeconds": between(1, MAX_INT32),
            "serviceAccountName": subdomain,
            "nodeSelector": labels,
            "hostname": dns_label,
            "subdomain": dns_label,
            "priorityClassName": subdomain,
            "runtimeClassName": subdomain,
            "volumes": unique("name"),
            "topologySpreadConstraints": _spreads,
            "preemptionPolicy": one_of("PreemptLowerPriority", "Never"),
        },
        whole=(pod_spec,),
        defaults={"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"},
        fill=_filled,
    ),
    "core.v1.PodSecurityContext": Type(
        fields={
            "runAsUser": _IDS,
            "runAsGroup": _IDS,
            "fsGroup": _IDS,
            "supplementalGroups": each(_IDS),
            "fsGroupChangePolicy": one_of("Always", "OnRootMismatch", empty=True),
            "sysctls": _sysctls,
        }
    ),
    "core.v1.Sysctl": Type(),
    "core.v1.PodDNSConfig": Type(
        fields={
            "nameservers": each(spelled(address_errors, empty=True)),
            "searches": each(_search),
            "options": _options,
        }
    ),
    "core.v1.HostAlias": Type(
        fields={
            "ip": spelled(address_errors, empty=True),
            "hostnames": each(spelled(selectors.dns1123_subdomain_errors, empty=True)),
        }
    ),
    "core.v1.LocalObjectReference": Type(),
    "core.v1.Toleration": Type(whole=(toleration,)),
    "core.v1.TopologySpreadConstraint": Type(whole=(_spread,)),
    "core.v1.NodeSelector": Type(
        required=(),
        whole=(
            lambda value, at, out: not_empty("must have at least one node selector term")(
                value.get("nodeSelectorTerms"), f"{at}.nodeSelectorTerms", out
            ),
        ),
    ),
    "core.v1.NodeSelectorTerm": Type(),
    "core.v1.NodeSelectorRequirement": Type(whole=(_node_requirement,)),
    "core.v1.PreferredSchedulingTerm": Type(whole=(_preferred,)),
    "core.v1.WeightedPodAffinityTerm": Type(whole=(_preferred,)),
    "core.v1.PodAffinityTerm": Type(whole=(_affinity_term,)),
    "core.v1.PodReadinessGate": Type(whole=(_gate,)),
    "core.v1.PodSchedulingGate": Type(required=("name",), fields={"name": qualified}),
}

"""Services, Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.rules import (
    Causes,
    Document,
    Type,
    address_errors,
    dns_label,
    each,
    labels,
    network_errors,
    one_of,
    port_or_name,
    spelled,
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_OUTSIDE = ("NodePort", "LoadBalancer")
MAX_TIMEOUT = 86400
_FAMILIES = ("IPv4", "IPv6")


def _service(value: Document, at: str, out: Causes) -> None:
    kind, ports, address = value.get("type"), value.get("ports") or [], value.get("clusterIP")
    if kind == "ExternalName":
        _external_name(value, at, out)
    elif not ports and address != "None":
        out.append(causes.required(f"{at}.ports"))
    if kind == "LoadBalancer" and address == "None":
        words = "may not be set to 'None' for LoadBalancer services"
        out.append(causes.invalid(f"{at}.clusterIPs[0]", address, words))
    if kind == "NodePort" and address == "None":
        words = "may not be set to 'None' for NodePort services"
        out.append(causes.invalid(f"{at}.clusterIPs[0]", address, words))
    if address not in (None, "", "None") and kind != "ExternalName":
        out.extend(causes.invalid(f"{at}.clusterIPs[0]", address, wrong) for wrong in address_errors(address))
    _ports(value, ports, at, out)
    _policies(value, kind, at, out)
    _balanced(value, kind, at, out)


def _external_name(value: Document, at: str, out: Causes) -> None:
    name = (value.get("externalName") or "").removesuffix(".")
    if value.get("clusterIP"):
        out.append(causes.forbidden(f"{at}.clusterIPs", "may not be set for ExternalName services"))
    if not name:
        out.append(causes.required(f"{at}.externalName"))
    else:
        wrongs = selectors.dns1123_subdomain_errors(name)
        out.extend(causes.invalid(f"{at}.externalName", value["externalName"], wrong) for wrong in wrongs)


def _ports(value: Document, ports: list[Document], at: str, out: Causes) -> None:
    names: set[Any] = set()
    pairs: set[Any] = set()
    for index, port in enumerate(ports):
        where, name, number = f"{at}.ports[{index}]", port.get("name"), port.get("port") or 0
        if not name:
            if len(ports) > 1:
                out.append(causes.required(f"{where}.name"))
        else:
            dns_label(name, f"{where}.name", out)
            if name in names:
                out.append(causes.duplicate(f"{where}.name", name))
            names.add(name)
        if not 1 <= number <= 65535:
            out.append(causes.invalid(f"{where}.port", number, "must be between 1 and 65535, inclusive"))
        if port.get("nodePort") and value.get("type") == "ClusterIP":
            words = "may not be used when `type` is 'ClusterIP'"
            out.append(causes.forbidden(f"{where}.nodePort", words))
        elif port.get("nodePort") and not 1 <= port["nodePort"] <= 65535:
            out.append(causes.invalid(f"{where}.nodePort", port["nodePort"], "must be between 1 and 65535, inclusive"))
        if port.get("targetPort") is None:
            out.append(causes.invalid(f"{where}.targetPort", 0, "must be between 1 and 65535, inclusive"))
        pair = port.get("protocol"), number
        if pair in pairs:
            out.append(causes.duplicate(where, port))
        pairs.add(pair)


def _policies(value: Document, kind: Any, at: str, out: Causes) -> None:
    outside = kind in _OUTSIDE or (kind == "ClusterIP" and bool(value.get("externalIPs")))
    policy = value.get("externalTrafficPolicy")
    if policy and not outside:
        words = "may only be set for externally-accessible services"
        out.append(causes.invalid(f"{at}.externalTrafficPolicy", policy, words))
    elif policy and policy not in _POLICIES:
        out.append(causes.unsupported(f"{at}.externalTrafficPolicy", policy, _POLICIES))
    if value.get("sessionAffinity") == "None" and value.get("sessionAffinityConfig") is not None:
        words = "must not be set when session affinity is None"
        out.append(causes.forbidden(f"{at}.sessionAffinityConfig", words))
    elif value.get("sessionAffinity") == "ClientIP":
        seconds = ((value.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
        if isinstance(seconds, int) and not 0 < seconds <= MAX_TIMEOUT:
            where = f"{at}.sessionAffinityConfig.clientIP.timeoutSeconds"
            out.append(causes.invalid(where, seconds, f"must be greater than 0 and less than {MAX_TIMEOUT}"))


def _balanced(value: Document, kind: Any, at: str, out: Causes) -> None:
    ranges = value.get("loadBalancerSourceRanges") or ()
    words = "may only be used when `type` is 'LoadBalancer'"
    if kind != "LoadBalancer":
        if ranges:
            out.append(causes.forbidden(f"{at}.LoadBalancerSourceRanges", words))
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if value.get(field) is not None:
                out.append(causes.forbidden(f"{at}.{field}", words))
    for index, text in enumerate(ranges):
        where = f"{at}.LoadBalancerSourceRanges[{index}]"
        out.extend(causes.invalid(where, text, wrong) for wrong in network_errors(text.strip()))


def _filled(value: Document) -> Document:
    kind = value.get("type") or "ClusterIP"
    affinity = value.get("sessionAffinity") or "None"
    made = {**value, "type": kind, "sessionAffinity": affinity}
    if affinity == "None":
        made.pop("sessionAffinityConfig", None)
    else:
        config = value.get("sessionAffinityConfig") or {}
        client = config.get("clientIP") or {}
        made["sessionAffinityConfig"] = {**config, "clientIP": {"timeoutSeconds": 10800, **client}}
    if kind != "ExternalName":
        made.setdefault("internalTrafficPolicy", "Cluster")
    outside = kind in _OUTSIDE or (kind == "ClusterIP" and value.get("externalIPs"))
    if outside and not value.get("externalTrafficPolicy"):
        made["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer" and value.get("allocateLoadBalancerNodePorts") is None:
        made["allocateLoadBalancerNodePorts"] = True
    return made


def without_leftovers(value: Document, old: Document) -> Document:
    """Return the spec of an edited Service without what only its former type needed, unless the edit changed it."""
    kind, was = value.get("type") or "ClusterIP", old.get("type")
    made = dict(value)
    if old.get("clusterIP") and not value.get("clusterIP") and "ExternalName" not in (kind, was):
        made["clusterIP"] = old["clusterIP"]
    if was in _OUTSIDE and kind not in _OUTSIDE:
        held = {port.get("nodePort") for port in old.get("ports") or ()}
        ports = value.get("ports") or ()
        kept = [
            {name: inner for name, inner in port.items() if name != "nodePort" or inner not in held} for port in ports
        ]
        if kept:
            made["ports"] = kept
        outside = kind == "ClusterIP" and value.get("externalIPs")
        if not outside and value.get("externalTrafficPolicy") == old.get("externalTrafficPolicy"):
            made.pop("externalTrafficPolicy", None)
    if was == "LoadBalancer" and kind != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"):
            if value.get(field) == old.get(field):
                made.pop(field, None)
    return made


def _targeted(value: Document) -> Document:
    """Return a port of a Service with its target: the same port, unless the user chose another."""
    if value.get("targetPort") in (None, 0, "") and value.get("port") is not None:
        return {**value, "targetPort": value["port"]}
    return value


def _target(value: Any, at: str, out: Causes) -> None:
    if value not in (0, ""):
        port_or_name(value, at, out)
    else:
        out.append(causes.invalid(at, value, "must be between 1 and 65535, inclusive"))


def _endpoint_address(value: Document, at: str, out: Causes) -> None:
    address = value.get("ip") or ""
    out.extend(causes.invalid(f"{at}.ip", address, wrong) for wrong in address_errors(address))


def _subset(value: Document, at: str, out: Causes) -> None:
    if not value.get("addresses") and not value.get("notReadyAddresses"):
        out.append(causes.required(at, "must specify `addresses` or `notReadyAddresses`"))
    ports = value.get("ports") or ()
    for index, port in enumerate(ports):
        where, number = f"{at}.ports[{index}]", port.get("port") or 0
        if not port.get("name") and len(ports) > 1:
            out.append(causes.required(f"{where}.name"))
        if not 1 <= number <= 65535:
            out.append(causes.invalid(f"{where}.port", number, "must be between 1 and 65535, inclusive"))
        if not port.get("protocol"):
            out.append(causes.required(f"{where}.protocol"))


def _slice(value: Document, at: str, out: Causes) -> None:
    kind = value.get("addressType") or ""
    if not kind:
        out.append(causes.required("addressType"))
    elif kind not in ("IPv4", "IPv6", "FQDN"):
        out.append(causes.unsupported("addressType", kind, ("FQDN", "IPv4", "IPv6")))
    for index, endpoint in enumerate(value.get("endpoints") or ()):
        addresses = endpoint.get("addresses") or ()
        where = f"endpoints[{index}].addresses"
        if not addresses:
            out.append(causes.required(where, "must contain at least 1 address"))
        for number, address in enumerate(addresses):
            test = selectors.dns1123_subdomain_errors if kind == "FQDN" else address_errors
            if kind in ("IPv4", "IPv6", "FQDN"):
                out.extend(causes.invalid(f"{where}[{number}]", address, wrong) for wrong in test(address))
    _slice_ports(value, out)


def _slice_ports(value: Document, out: Causes) -> None:
    names: set[Any] = set()
    for index, port in enumerate(value.get("ports") or ()):
        name, where = port.get("name") or "", f"ports[{index}]"
        if name:
            dns_label(name, f"{where}.name", out)
        if name in names:
            out.append(causes.duplicate(f"{where}.name", name))
        names.add(name)


def _hints(value: Any, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, zone in enumerate(value.get("forZones") or ()):
        where, name = f"{at}.forZones[{index}].name", zone.get("name") or ""
        if name in seen:
            out.append(causes.duplicate(where, name))
        seen.add(name)
        out.extend(causes.invalid(where, name, wrong) for wrong in selectors.label_value_errors(name))


TYPES = {
    "core.v1.ServiceSpec": Type(
        fields={
            "type": one_of(*_TYPES),
            "sessionAffinity": one_of("ClientIP", "None"),
            "internalTrafficPolicy": one_of(*_POLICIES, empty=True),
            "ipFamilyPolicy": one_of("SingleStack", "PreferDualStack", "RequireDualStack"),
            "ipFamilies": each(one_of(*_FAMILIES)),
            "externalIPs": each(spelled(address_errors, empty=True)),
            "selector": labels,
            "loadBalancerClass": spelled(selectors.label_key_errors, empty=True),
        },
        whole=(_service,),
        fill=_filled,
    ),
    "core.v1.ServicePort": Type(
        fields={
            "protocol": one_of(*_PROTOCOLS),
            "appProtocol": spelled(selectors.label_key_errors, empty=True),
            "targetPort": _target,
        },
        defaults={"protocol": "TCP"},
        fill=_targeted,
    ),
    "core.v1.EndpointSubset": Type(whole=(_subset,)),
    "core.v1.EndpointAddress": Type(
        fields={"hostname": dns_label, "nodeName": spelled(selectors.dns1123_subdomain_errors, empty=True)},
        whole=(_endpoint_address,),
    ),
    "core.v1.EndpointPort": Type(
        fields={
            "name": dns_label,
            "protocol": one_of(*_PROTOCOLS),
            "appProtocol": spelled(selectors.label_key_errors, empty=True),
        },
        defaults={"protocol": "TCP"},
    ),
    "discovery.v1.EndpointSlice": Type(whole=(_slice,)),
    "discovery.v1.Endpoint": Type(
        fields={
            "hostname": spelled(selectors.dns1123_label_errors, empty=True),
            "nodeName": spelled(selectors.dns1123_subdomain_errors, empty=True),
            "hints": _hints,
        }
    ),
    "discovery.v1.EndpointHints": Type(),
    "discovery.v1.ForZone": Type(),
    "discovery.v1.EndpointPort": Type(
        fields={
            "protocol": one_of(*_PROTOCOLS, empty=True),
            "appProtocol": spelled(selectors.label_key_errors, empty=True),
        },
        fill=lambda value: {"name": "", "protocol": "TCP", **value},
    ),
}

"""Ingresses, their classes, and NetworkPolicies."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.rules import (
    Causes,
    Document,
    Type,
    each,
    network_errors,
    one_of,
    port_name_errors,
    port_or_name,
    spelled,
    subdomain,
    wildcard_errors,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_CONTROLLER = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)


def _ingress(value: Document, at: str, out: Causes) -> None:
    if not value.get("rules") and value.get("defaultBackend") is None:
        out.append(causes.invalid(at, value.get("rules") or [], "either `defaultBackend` or `rules` must be specified"))


def _backend(value: Document, at: str, out: Causes) -> None:
    service, resource = value.get("service"), value.get("resource")
    if service is None and resource is None:
        out.append(causes.invalid(at, "", "resource or service backend is required"))
    elif service is not None and resource is not None:
        out.append(causes.invalid(at, "", "cannot set both resource and service backends"))
    elif service is not None:
        _service(service, at, out)
    else:
        _resource(resource or {}, f"{at}.resource", out)


def _resource(value: Document, at: str, out: Causes) -> None:
    for field in ("kind", "name"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
    group = value.get("apiGroup")
    if group is not None:
        wrongs = selectors.dns1123_subdomain_errors(group)
        out.extend(causes.invalid(f"{at}.apiGroup", group, wrong) for wrong in wrongs)


def _service(value: Document, at: str, out: Causes) -> None:
    name, port = value.get("name"), value.get("port") or {}
    if not name:
        out.append(causes.required(f"{at}.service.name"))
    else:
        wrongs = selectors.dns1123_label_errors(name)
        out.extend(causes.invalid(f"{at}.service.name", name, wrong) for wrong in wrongs)
    number, named = port.get("number"), port.get("name")
    if named and number:
        out.append(causes.invalid(at, "", "cannot set both port name & port number"))
    elif named:
        wrongs = port_name_errors(named)
        out.extend(causes.invalid(f"{at}.service.port.name", named, wrong) for wrong in wrongs)
    elif number:
        if not 1 <= number <= 65535:
            out.append(causes.invalid(f"{at}.service.port.number", number, "must be between 1 and 65535, inclusive"))
    else:
        out.append(causes.required(at, "port name or number is required"))


def _path(value: Document, at: str, out: Causes) -> None:
    kind, path = value.get("pathType"), value.get("path") or ""
    if kind is None:
        out.append(causes.required(f"{at}.pathType", "pathType must be specified"))
    elif kind not in _PATH_TYPES:
        out.append(causes.unsupported(f"{at}.pathType", kind, _PATH_TYPES))
    elif kind == "ImplementationSpecific":
        if path and not path.startswith("/"):
            out.append(causes.invalid(f"{at}.path", path, "must be an absolute path"))
    elif not path.startswith("/"):
        out.append(causes.invalid(f"{at}.path", path, "must be an absolute path"))
    else:
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in path:
                out.append(causes.invalid(f"{at}.path", path, f"must not contain '{part}'"))
    if value.get("backend") is None:
        out.append(causes.invalid(f"{at}.backend", "", "resource or service backend is required"))


def _class_parameters(value: Document, at: str, out: Causes) -> None:
    scope, namespace = value.get("scope"), value.get("namespace")
    for field in ("kind", "name"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
    if scope is None:
        out.append(causes.required(f"{at}.scope"))
    elif scope not in ("Cluster", "Namespace"):
        out.append(causes.unsupported(f"{at}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        if namespace is None:
            out.append(causes.required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            wrongs = selectors.dns1123_label_errors(namespace)
            out.extend(causes.invalid(f"{at}.namespace", namespace, wrong) for wrong in wrongs)
    elif namespace is not None:
        out.append(causes.forbidden(f"{at}.namespace", "`parameters.scope` is set to 'Cluster'"))


def _controller(value: Any, at: str, out: Causes) -> None:
    if len(value) > 250:
        out.append(causes.too_long(at, 250))
    if value and not _CONTROLLER.fullmatch(value):
        out.append(causes.invalid(at, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))


def _peer(value: Document, at: str, out: Causes) -> None:
    block, found = value.get("ipBlock"), [name for name, inner in value.items() if inner is not None]
    if not found:
        out.append(causes.required(at, "must specify a peer"))
    elif block is not None and len(found) > 1:
        out.append(causes.forbidden(at, "may not specify both ipBlock and another peer"))
    if block is not None:
        _block(block, f"{at}.ipBlock", out)


def _block(value: Document, at: str, out: Causes) -> None:
    network = value.get("cidr") or ""
    if not network:
        out.append(causes.required(f"{at}.cidr"))
        return
    wrongs = network_errors(network)
    out.extend(causes.invalid(f"{at}.cidr", network, wrong) for wrong in wrongs)
    for index, inner in enumerate(value.get("except") or ()):
        where = f"{at}.except[{index}]"
        if errors := network_errors(inner):
            out.extend(causes.invalid(where, inner, wrong) for wrong in errors)
        elif not wrongs and not _is_inside(inner, network):
            out.append(causes.invalid(where, inner, "must be a strict subset of `cidr`"))


def _is_inside(inner: str, outer: str) -> bool:
    small, large = ipaddress.ip_network(inner, strict=False), ipaddress.ip_network(outer, strict=False)
    return small != large and small.version == large.version and small.subnet_of(large)  # type: ignore[arg-type]


def _policy_port(value: Document, at: str, out: Causes) -> None:
    first, last = value.get("port"), value.get("endPort")
    if last is None:
        return
    if first is None:
        out.append(causes.invalid(f"{at}.endPort", last, "may not be specified when `port` is not specified"))
    elif not isinstance(first, int):
        out.append(causes.invalid(f"{at}.endPort", last, "may not be specified when `port` is non-numeric"))
    else:
        if last < first:
            out.append(causes.invalid(f"{at}.endPort", last, "must be greater than or equal to `port`"))
        if not 1 <= last <= 65535:
            out.append(causes.invalid(f"{at}.endPort", last, "must be between 1 and 65535, inclusive"))


def _policy_types(value: Any, at: str, out: Causes) -> None:
    if len(value) > 2:
        out.append(causes.invalid(at, value, "may not specify more than two policyTypes"))
        return
    for index, kind in enumerate(value):
        if kind not in ("Ingress", "Egress"):
            out.append(causes.unsupported(f"{at}[{index}]", kind, ("Ingress", "Egress")))


def _policy_filled(value: Document) -> Document:
    made = {"podSelector": {}, **value}
    if not made.get("policyTypes"):
        made["policyTypes"] = ["Ingress", *(["Egress"] if made.get("egress") else [])]
    return made


_HOST = spelled(wildcard_errors)

TYPES = {
    "networking.v1.IngressSpec": Type(
        fields={"ingressClassName": spelled(selectors.dns1123_subdomain_errors, empty=True)}, whole=(_ingress,)
    ),
    "networking.v1.IngressTLS": Type(
        fields={"hosts": each(spelled(wildcard_errors, empty=True)), "secretName": subdomain}
    ),
    "networking.v1.IngressRule": Type(fields={"host": _HOST}),
    "networking.v1.HTTPIngressRuleValue": Type(required=("paths",)),
    "networking.v1.HTTPIngressPath": Type(whole=(_path,)),
    "networking.v1.IngressBackend": Type(whole=(_backend,)),
    "networking.v1.IngressServiceBackend": Type(),
    "networking.v1.IngressClassSpec": Type(required=("controller",), fields={"controller": _controller}),
    "networking.v1.IngressClassParametersReference": Type(
        fields={"apiGroup": spelled(selectors.dns1123_subdomain_errors, empty=True)},
        whole=(_class_parameters,),
        fill=lambda value: {"scope": "Cluster", **value},
    ),
    "networking.v1.NetworkPolicySpec": Type(fields={"policyTypes": _policy_types}, fill=_policy_filled),
    "networking.v1.NetworkPolicyPeer": Type(whole=(_peer,)),
    "networking.v1.IPBlock": Type(),
    "networking.v1.NetworkPolicyPort": Type(
        fields={"protocol": one_of("TCP", "UDP", "SCTP", empty=True), "port": port_or_name},
        whole=(_policy_port,),
        fill=lambda value: {"protocol": "TCP", **value},
    ),
}

"""The rules of kube-apiserver for Services, Ingresses and NetworkPolicies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apps.simulator.checks import (
    between,
    each,
    found,
    is_address,
    is_network,
    is_port,
    is_subdomain,
    needed,
    one_of,
    unique,
)
from controlplane.admission.metadata_rules import label_causes
from controlplane.apimachinery import causes
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_OUTSIDE = ("NodePort", "LoadBalancer")
_PATHS = "spec.rules[].http.paths[]"


def _service(document: Document) -> Iterator[Cause]:
    spec = document.get("spec") or {}
    kind, ports, address = spec.get("type"), spec.get("ports") or [], spec.get("clusterIP")
    if kind == "ExternalName":
        if not is_subdomain(spec.get("externalName") or ""):
            yield causes.invalid("spec.externalName", spec.get("externalName"), "must be a DNS name")
        if address not in (None, "", "None"):
            yield causes.invalid("spec.clusterIPs", address, "may not be set for ExternalName services")
    elif not ports and address != "None":
        yield causes.required("spec.ports")
    if kind not in _OUTSIDE and spec.get("externalTrafficPolicy") and not spec.get("externalIPs"):
        yield causes.invalid("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], "may only be set outside")
    if kind != "LoadBalancer" and spec.get("loadBalancerSourceRanges"):
        yield causes.forbidden("spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'")
    if len(ports) > 1:
        for index, port in enumerate(ports):
            if not port.get("name"):
                yield causes.required(f"spec.ports[{index}].name")
    yield from label_causes(spec.get("selector") or {}, "spec.selector")


def taken(document: Document, old: Document | None, others: Callable[[], Iterable[Document]]) -> Iterator[Cause]:
    """Yield a cause for each address and node port of a Service that another Service has.

    Those that the Service had before (`old`) are not checked.
    """
    mine, ports = _claimed(document)
    if old is not None:
        had, held = _claimed(old)
        mine, ports = "" if mine == had else mine, ports - held
    if not mine and not ports:
        return
    for other in others():
        if _name_of(other) == _name_of(document):
            continue
        theirs, used = _claimed(other)
        if mine and mine == theirs:
            yield causes.invalid("spec.clusterIPs", [mine], "failed to allocate IP: provided IP is already allocated")
        for port in ports & used:
            yield causes.invalid("spec.ports[].nodePort", port, "provided port is already allocated")


def _name_of(document: Document) -> tuple[str, str]:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _claimed(document: Document) -> tuple[str, set[int]]:
    spec = document.get("spec") or {}
    address = spec.get("clusterIP") or ""
    return "" if address == "None" else address, {
        port["nodePort"] for port in spec.get("ports") or () if "nodePort" in port
    }


def _ingress(document: Document) -> Iterator[Cause]:
    spec = document.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield causes.invalid("spec", "", "either `defaultBackend` or `rules` must be specified")
    for where, path in found(document, _PATHS):
        kind, text = path.get("pathType"), path.get("path")
        if kind in ("Exact", "Prefix") and not str(text or "").startswith("/"):
            yield causes.invalid(f"{where}.path", text, "must be an absolute path")
    for where, service in (
        *found(document, "spec.defaultBackend.service"),
        *found(document, f"{_PATHS}.backend.service"),
    ):
        port = (service or {}).get("port") or {}
        if service and bool(port.get("name")) == bool(port.get("number")):
            yield causes.required(f"{where}.port", "port name or number is required, and not both")


def _is_host(host: str) -> bool:
    return is_subdomain(host.removeprefix("*."))


def _policy(document: Document) -> Iterator[Cause]:
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for where, peer in found(document, f"spec.{way}[].{peers}[]"):
            if not peer:
                yield causes.required(where, "must specify a peer")
            block = peer.get("ipBlock") or {}
            for cidr in [block["cidr"], *(block.get("except") or ())] if block else ():
                if not is_network(cidr):
                    yield causes.invalid(f"{where}.ipBlock.cidr", cidr, "must be a network like 10.9.8.0/24")
        for where, port in found(document, f"spec.{way}[].ports[]"):
            first, last = port.get("port"), port.get("endPort")
            if last is not None and isinstance(first, int) and last < first:
                yield causes.invalid(f"{where}.endPort", last, "must be greater than or equal to `port`")


SERVICE = (
    _service,
    one_of("spec.type", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    one_of("spec.sessionAffinity", "ClientIP", "None"),
    one_of("spec.ipFamilies", "IPv4"),  # simulated members have only IPv4
    one_of("spec.ports[].protocol", *_PROTOCOLS),
    needed("spec.ports[].port"),
    between("spec.ports[].port", 1, 65535),
    between("spec.ports[].nodePort", 30000, 32767),
    each("spec.ports[].targetPort", is_port, "must be a port or the name of one"),
    each("spec.clusterIP", lambda value: value in ("", "None") or is_address(value), "must be empty, None or an IP"),
    each("spec.externalIPs", is_address, "must be an IP address"),
    unique("spec.ports", "name"),
    unique("spec.ports", "protocol", "port"),
)
INGRESS = (
    _ingress,
    needed(f"{_PATHS}.pathType"),
    one_of(f"{_PATHS}.pathType", "Exact", "ImplementationSpecific", "Prefix"),
    each("spec.ingressClassName", is_subdomain, "must be a DNS name"),
    each("spec.rules[].host", _is_host, "must be a DNS name, whose first label may be *"),
)
NETWORK_POLICY = (_policy, one_of("spec.policyTypes", "Egress", "Ingress"))

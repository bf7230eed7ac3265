"""The defaults that kube-apiserver adds to Pods and to the pod templates of workloads."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.quantities import QuantityError, parse

Document = dict[str, Any]

_MODE = 420  # mode 0644 of files in volumes
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_TIMES = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
_PLAIN_BOOLEANS = ("hostIPC", "hostNetwork", "hostPID")  # removed if false; other booleans are kept
_LIMITED = "kubernetes.io/limit-ranger"
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def pod_spec(spec: Document, *, restarts: str = "Always") -> Document:
    """Return the spec of a pod template with its defaults. `restarts` is the default restart policy."""
    filled = {
        "restartPolicy": restarts,
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
    }
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        filled |= {"serviceAccountName": account, "serviceAccount": account}
    for field in ("containers", "initContainers"):
        if isinstance(filled.get(field), list):
            filled[field] = [_container(container) for container in filled[field]]
    if isinstance(filled.get("volumes"), list):
        filled["volumes"] = [_volume(volume) for volume in filled["volumes"]]
    for field in _PLAIN_BOOLEANS:
        if not filled.get(field):
            filled.pop(field, None)
    return {name: value for name, value in filled.items() if value is not None and value != []}


def pod(document: Document) -> Document:
    """Return a Pod with its defaults, and with the tolerations that admission adds on every write."""
    spec = {"enableServiceLinks": True, **pod_spec(document.get("spec") or {})}
    held = [toleration for toleration in spec.get("tolerations") or () if isinstance(toleration, dict)]
    missing = [toleration for toleration in _TOLERATIONS if not any(_tolerates(other, toleration) for other in held)]
    spec["tolerations"] = [*held, *missing]
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_with_requests(container) for container in spec[part]]
            if spec.get("hostNetwork"):
                spec[part] = [_on_host(container) for container in spec[part]]
    return {**document, "spec": spec}


def _on_host(container: Document) -> Document:
    """Return a container of a Pod with hostNetwork, with hostPort set. Templates get no hostPort."""
    if not container.get("ports"):
        return container
    ports = [
        {"hostPort": port["containerPort"], **port} if "containerPort" in port else port for port in container["ports"]
    ]
    return {**container, "ports": ports}


def limited(document: Document, limit_ranges: list[Document]) -> Document:
    """Return a new Pod with the default requests and limits from the LimitRanges of its namespace."""
    added_texts: list[str] = []
    spec = dict(document.get("spec") or {})
    items = [item for limit_range in limit_ranges for item in (limit_range.get("spec") or {}).get("limits") or ()]
    ranges = [item for item in items if item.get("type") == "Container"]
    for part, word in (("initContainers", "init container"), ("containers", "container")):
        if ranges and spec.get(part):
            spec[part] = [_limited(container, word, ranges, added_texts) for container in spec[part]]
    if not added_texts:
        return document
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _LIMITED: f"LimitRanger plugin set: {'; '.join(added_texts)}"}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _limited(container: Document, word: str, ranges: list[Document], added_texts: list[str]) -> Document:
    resources = dict(_with_requests(container).get("resources") or {})
    for field, default, kind in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        given = resources.get(field) or {}
        added: Document = {}
        for limit_range in ranges:
            added = {**(limit_range.get(default) or {}), **added}
        added = {name: amount for name, amount in added.items() if name not in given}
        if added:
            resources[field] = {**given, **added}
            added_texts.append(f"{', '.join(sorted(added))} {kind} for {word} {container.get('name')}")
    return {**container, "resources": resources}


def new_pod(document: Document) -> Document:
    """Return a new Pod with the service account and the token volume that admission adds."""
    spec = document.get("spec") or {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec = {
        "preemptionPolicy": "PreemptLowerPriority",
        **spec,
        "serviceAccountName": account,
        "serviceAccount": account,
    }
    if spec.get("automountServiceAccountToken") is not False:
        spec = _with_token(spec)
    return {**document, "spec": spec}


def _tolerates(toleration: Document, default: Document) -> bool:
    key, effect = toleration.get("key", ""), toleration.get("effect", "")
    return (key == default["key"] or not key) and effect in ("", "NoExecute")


def _with_requests(container: Document) -> Document:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def _with_token(spec: Document) -> Document:
    """Return the spec with the volume of the service account token, mounted in every container."""
    if any(str(volume.get("name", "")).startswith("kube-api-access-") for volume in spec.get("volumes") or ()):
        return spec
    name = "kube-api-access-aaaaa"
    root = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    sources = [token, root, {"downwardAPI": {"items": [field]}}]
    mount = {"name": name, "readOnly": True, "mountPath": _TOKEN}
    made = {
        **spec,
        "volumes": [
            *(spec.get("volumes") or ()),
            {"name": name, "projected": {"sources": sources, "defaultMode": _MODE}},
        ],
    }
    for part in ("containers", "initContainers"):
        if part in spec:
            made[part] = [
                {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
                for container in spec[part]
            ]
    return made


def _container(container: Document) -> Document:
    filled = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if _is_latest(container.get("image", "")) else "IfNotPresent",
        **container,
    }
    filled["resources"] = resources(filled["resources"] or {})
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    if filled.get("env"):
        filled["env"] = [_env(variable) for variable in filled["env"]]
    for probe in _PROBES:
        if isinstance(filled.get(probe), dict):
            given = {name: value for name, value in filled[probe].items() if value != 0 or name not in _PROBE_TIMES}
            filled[probe] = {**_PROBE_TIMES, **_handler(given)}
    if isinstance(filled.get("lifecycle"), dict):
        filled["lifecycle"] = {name: _handler(handler) for name, handler in filled["lifecycle"].items()}
    return {name: value for name, value in filled.items() if value != [] and value != ""}


def _is_latest(image: str) -> bool:
    if image != image.strip():  # an invalid image name has no tag
        return False
    name, digest = image.partition("@")[::2]
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag == "latest" or (not tag and not digest)


def resources(given: Document) -> Document:
    """Return resources with their quantities in canonical form."""
    return {name: quantities(amounts) if name in ("limits", "requests") else amounts for name, amounts in given.items()}


def quantities(given: Any) -> Any:
    """Return a map of quantities in canonical form."""
    return {name: quantity(amount) for name, amount in given.items()} if isinstance(given, dict) else given


def quantity(given: Any) -> Any:
    """Return a quantity in canonical form. An invalid quantity is returned unchanged; validation refuses it."""
    try:
        return str(parse(str(given)))
    except QuantityError:
        return given


def _env(variable: Document) -> Document:
    source = variable.get("valueFrom")
    filled = {name: value for name, value in variable.items() if value != ""}
    if not isinstance(source, dict):
        return filled
    made = dict(source)
    if isinstance(source.get("fieldRef"), dict):
        made["fieldRef"] = {"apiVersion": "v1", **source["fieldRef"]}
    if isinstance(source.get("resourceFieldRef"), dict):
        made["resourceFieldRef"] = {"divisor": "0", **source["resourceFieldRef"]}
    return {**filled, "valueFrom": made}


def _handler(handler: Any) -> Any:
    if not isinstance(handler, dict):
        return handler
    made = dict(handler)
    if isinstance(handler.get("httpGet"), dict):
        made["httpGet"] = {"path": "/", "scheme": "HTTP", **handler["httpGet"]}
    if isinstance(handler.get("grpc"), dict):
        made["grpc"] = {"service": "", **handler["grpc"]}
    return made


def _volume(volume: Document) -> Document:
    if not set(volume) - {"name"}:
        return {**volume, "emptyDir": {}}
    made = dict(volume)
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(kind), dict):
            made[kind] = _items({"defaultMode": _MODE, **volume[kind]})
    if isinstance(volume.get("projected"), dict):
        made["projected"]["sources"] = [_source(source) for source in volume["projected"].get("sources") or ()]
    if isinstance(volume.get("hostPath"), dict):
        made["hostPath"] = {"type": "", **volume["hostPath"]}
    if isinstance(volume.get("ephemeral"), dict):
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        spec = {"volumeMode": "Filesystem", **(template.get("spec") or {})}
        made["ephemeral"] = {"volumeClaimTemplate": {"metadata": {}, **template, "spec": spec}}
    return made


def _source(source: Document) -> Document:
    made = {name: _items(part) for name, part in source.items()}
    if isinstance(source.get("serviceAccountToken"), dict):
        made["serviceAccountToken"] = {"expirationSeconds": 3600, **source["serviceAccountToken"]}
    return made


def _items(source: Document) -> Document:
    if not isinstance(source.get("items"), list):
        return source
    items = [
        {**item, "fieldRef": {"apiVersion": "v1", **item["fieldRef"]}}
        if isinstance(item.get("fieldRef"), dict)
        else item
        for item in source["items"]
    ]
    return {**source, "items": items}

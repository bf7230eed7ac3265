"""ConfigMaps, Secrets, quotas, limits, nodes and namespaces."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, quantities, selectors
from controlplane.kube.pod_types import EFFECTS
from controlplane.kube.rules import Causes, Document, Type, exceeds, network_errors

MAX_DATA = 1024 * 1024  # bytes in a ConfigMap or Secret
# The required keys of Secrets, by type.
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_QUOTA = frozenset(
    (
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"),
        *("requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "services"),
        *("replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"),
        *("services.nodeports", "services.loadbalancers"),
    )
)
_INTEGERS = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)
_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_LIMITED = ("Container", "Pod", "PersistentVolumeClaim")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _size(value: Document, at: str, out: Causes) -> None:
    parts = (value.get("data") or {}, value.get("binaryData") or {})
    if sum(len(str(text)) for part in parts for text in part.values()) > MAX_DATA:
        out.append(causes.too_long("", MAX_DATA))


def _secret(value: Document, at: str, out: Causes) -> None:
    data, kind = value.get("data") or {}, str(value.get("type"))
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            out.append(causes.required(f"data[{key}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        out += [causes.required("data[username]"), causes.required("data[password]")]
    if kind == _TOKEN and not ((value.get("metadata") or {}).get("annotations") or {}).get(_ACCOUNT):
        out.append(causes.required(f"metadata.annotations[{_ACCOUNT}]"))


def _quota(value: Document, at: str, out: Causes) -> None:
    _quota_amounts(value.get("hard") or {}, f"{at}.hard", out)
    for scope in value.get("scopes") or ():
        if scope not in _SCOPES:
            out.append(causes.invalid(f"{at}.scopes", value["scopes"], "unsupported scope"))
    for requirement in (value.get("scopeSelector") or {}).get("matchExpressions") or ():
        _scope(requirement, f"{at}.scopeSelector.matchExpressions", out)


def quota_causes(hard: Document, at: str) -> Causes:
    """Return every cause to refuse the limits of a quota, by resource, at a path."""
    out: Causes = []
    _quota_amounts(hard, at, out)
    return out


def _quota_amounts(hard: Document, at: str, out: Causes) -> None:
    for name, amount in hard.items():
        where = f"{at}[{name}]"
        _resource(name, where, _QUOTA, "quota", out)
        try:
            quantity = quantities.parse(str(amount))
        except quantities.QuantityError as error:
            out.append(causes.invalid(where, amount, str(error)))
            continue
        if quantity.sign() < 0:
            out.append(causes.invalid(where, amount, "must be greater than or equal to 0"))
        elif _is_whole(name) and quantity.milli_value() % 1000:
            out.append(causes.invalid(where, amount, "must be an integer"))


def _is_whole(name: str) -> bool:
    """Test whether amounts of a resource are whole numbers: counts of objects, and extended resources."""
    if name in _INTEGERS or name.startswith("count/"):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _scope(value: Document, at: str, out: Causes) -> None:
    scope, operator, values = value.get("scopeName") or "", value.get("operator") or "", value.get("values") or ()
    if scope not in _SCOPES:
        out.append(causes.invalid(f"{at}.scopeName", scope, "unsupported scope"))
    elif scope != "PriorityClass" and operator != "Exists":
        words = (
            "must be 'Exist' only operator when scope is any of BestEffort, NotBestEffort, Terminating, NotTerminating"
        )
        out.append(causes.invalid(f"{at}.operator", operator, words))
    if operator in ("In", "NotIn"):
        if not values:
            words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            out.append(causes.required(f"{at}.values", words))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            out.append(causes.invalid(f"{at}.values", values, words))
    else:
        out.append(causes.invalid(f"{at}.operator", operator, "not a valid selector operator"))


def _resource(name: str, at: str, known: Any, what: str, out: Causes) -> None:
    wrongs = selectors.label_key_errors(name)
    out.extend(causes.invalid(at, name, wrong) for wrong in wrongs)
    if "/" in name or name in known:
        return
    if not wrongs:
        out.append(causes.invalid(at, name, "must be a standard resource type or fully qualified"))
    out.append(causes.invalid(at, name, f"must be a standard resource for {what}"))


def _limits(value: Document, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, limit in enumerate(value.get("limits") or ()):
        kind, where = limit.get("type") or "", f"{at}.limits[{index}]"
        wrongs = selectors.label_key_errors(kind)
        out.extend(causes.invalid(f"{where}.type", kind, wrong) for wrong in wrongs)
        if not wrongs and "/" not in kind and kind not in _LIMITED:
            out.append(causes.invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            out.append(causes.duplicate(f"{where}.type", kind))
        seen.add(kind)
        _limit(limit, kind, where, out)


def _limit(limit: Document, kind: str, at: str, out: Causes) -> None:
    for part in _AMOUNTS if kind != "Pod" else ("max", "min", "maxLimitRequestRatio"):
        for name in limit.get(part) or ():
            if kind not in ("Container", "Pod"):
                _claimed(name, f"{at}.{part}[{name}]", out)
            else:
                _resource(name, f"{at}.{part}[{name}]", _CONTAINERS, "containers", out)
    for field in ("default", "defaultRequest"):
        if kind == "Pod" and limit.get(field):
            out.append(causes.forbidden(f"{at}.{field}", "may not be specified when `type` is 'Pod'"))
    unlimited = not any("storage" in (limit.get(part) or {}) for part in ("max", "min"))
    if kind == "PersistentVolumeClaim" and unlimited:
        words = "either minimum or maximum storage value is required, but neither was provided"
        out.append(causes.required(f"{at}.limits", words))
    _ordered(limit, at, out)


def _claimed(name: str, at: str, out: Causes) -> None:
    wrongs = selectors.label_key_errors(name)
    out.extend(causes.invalid(at, name, wrong) for wrong in wrongs)
    if not wrongs and "/" not in name and name != "storage" and name not in _QUOTA:
        out.append(causes.invalid(at, name, "must be a standard resource type or fully qualified"))


def _ordered(limit: Document, at: str, out: Causes) -> None:
    """Append a cause for each amount above the one that must not be below it."""
    amounts = {part: limit.get(part) or {} for part in _AMOUNTS}
    names = [name for part in _AMOUNTS[:4] for name in amounts[part]]
    for name in dict.fromkeys(names):
        for low, high, field in _ORDER:
            small, large = amounts[low].get(name), amounts[high].get(name)
            if small is not None and large is not None and exceeds(small, large):
                words = f"{low} value {small} is greater than {high} value {large}"
                out.append(causes.invalid(f"{at}.{field}[{name}]", small, words))
    for name, ratio in amounts["maxLimitRequestRatio"].items():
        where = f"{at}.maxLimitRequestRatio[{name}]"
        least, most = amounts["min"].get(name), amounts["max"].get(name)
        if least is None and most is None:
            continue
        if not exceeds(ratio, "1") and str(ratio) != "1":
            out.append(causes.invalid(where, ratio, f"ratio {ratio} is less than 1"))


_ORDER = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)


def _limit_filled(value: Document) -> Document:
    """Return a limit of containers: max becomes `default`, and this and min become `defaultRequest`."""
    if value.get("type") != "Container":
        return value
    default = {**(value.get("max") or {}), **(value.get("default") or {})}
    requests = {**(value.get("min") or {}), **default, **(value.get("defaultRequest") or {})}
    made = {**value, "default": default, "defaultRequest": requests}
    return {name: inner for name, inner in made.items() if inner or name not in ("default", "defaultRequest")}


def _node(value: Document, at: str, out: Causes) -> None:
    networks = value.get("podCIDRs") or ([value["podCIDR"]] if value.get("podCIDR") else [])
    for index, network in enumerate(networks):
        wrongs = network_errors(network)
        out.extend(causes.invalid(f"{at}.podCIDRs[{index}]", network, wrong) for wrong in wrongs)
    if len(networks) > 1 and len({":" in network for network in networks}) == 1:
        out.append(causes.invalid(f"{at}.podCIDRs", networks, "may specify no more than one CIDR for each IP family"))
    pairs: set[Any] = set()
    for index, taint in enumerate(value.get("taints") or ()):
        _taint(taint, f"metadata.taints[{index}]", out)
        pair = taint.get("key"), taint.get("effect")
        if pair in pairs:
            rule = "taints must be unique by key and effect pair"
            out.append(causes.duplicate(f"metadata.taints[{index}]", taint, rule))
        pairs.add(pair)


def _taint(value: Document, at: str, out: Causes) -> None:
    key, effect, text = value.get("key") or "", value.get("effect") or "", value.get("value") or ""
    out.extend(causes.invalid(f"{at}.key", key, wrong) for wrong in selectors.label_key_errors(key))
    out.extend(causes.invalid(f"{at}.value", text, wrong) for wrong in selectors.label_value_errors(text))
    if not effect:
        out.append(causes.required(f"{at}.effect"))
    elif effect not in EFFECTS:
        out.append(causes.unsupported(f"{at}.effect", effect, EFFECTS))


def _node_filled(value: Document) -> Document:
    cidr, cidrs = value.get("podCIDR"), value.get("podCIDRs")
    if cidr and (not cidrs or cidrs[0] != cidr):
        return {**value, "podCIDRs": [cidr]}
    return {**value, "podCIDR": cidrs[0]} if cidrs and not cidr else value


TYPES = {
    "core.v1.ConfigMap": Type(whole=(_size,)),
    "core.v1.Secret": Type(whole=(_size, _secret), defaults={"type": "Opaque"}),
    "core.v1.ResourceQuotaSpec": Type(whole=(_quota,)),
    "core.v1.ScopedResourceSelectorRequirement": Type(),
    "core.v1.LimitRangeSpec": Type(whole=(_limits,)),
    "core.v1.LimitRangeItem": Type(fill=_limit_filled),
    "core.v1.NodeSpec": Type(whole=(_node,), fill=_node_filled),
    "core.v1.Taint": Type(),
    "events.v1.Event": Type(),
    **dict.fromkeys(
        ("rbac.v1.RoleBinding", "rbac.v1.ClusterRoleBinding", "rbac.v1.RoleRef", "rbac.v1.Subject"), Type()
    ),
}

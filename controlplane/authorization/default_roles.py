"""The roles and bindings of a new installation: those of Kubernetes, with the kinds of this product in them.

`admin`, `edit` and `view` are aggregated: a ClusterRole with the label
`rbac.authorization.k8s.io/aggregate-to-view: "true"` adds its rules to `view`, and through it to `edit` and `admin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from controlplane.authorization.aggregation import aggregated_rules
from controlplane.authorization.attributes import ADMINISTRATORS, AUTHENTICATED, UNAUTHENTICATED
from controlplane.authorization.policy import GROUP

Document = dict[str, Any]

API_VERSION: Final = f"{GROUP}/v1"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_BOOTSTRAPPING: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE: Final = {f"{GROUP}/autoupdate": "true"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_LIFEBOAT: Final = "failover.lifeboat.io"

# Kinds of a namespace, by API group. Secrets and roles are not among them: `view` may not read either.
_NAMESPACED: Final = (
    (
        "",
        *("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "services"),
        *("replicationcontrollers/scale", "serviceaccounts"),
    ),
    (
        "apps",
        *("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale"),
        *("statefulsets", "statefulsets/scale"),
    ),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs", "jobs"),
    ("networking.k8s.io", "ingresses", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("policy.karmada.io", "propagationpolicies", "overridepolicies"),
)
# What a reader of a namespace sees in addition: results, status and questions.
_SEEN: Final = (
    (
        "",
        "bindings",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "pods/log",
        "pods/status",
    ),
    ("", "persistentvolumeclaims/status", "replicationcontrollers/status", "resourcequotas"),
    ("", "resourcequotas/status", "services/status"),
    ("apps", "controllerrevisions", "daemonsets/status", "deployments/status", "replicasets/status"),
    ("apps", "statefulsets/status"),
    ("autoscaling", "horizontalpodautoscalers/status"),
    ("batch", "cronjobs/status", "jobs/status"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("networking.k8s.io", "ingresses/status"),
    ("policy", "poddisruptionbudgets/status"),
    ("policy.karmada.io", "federatedresourcequotas", "federatedresourcequotas/status"),
    ("work.karmada.io", "resourcebindings", "resourcebindings/status"),
    ("work.karmada.io", "resourcebindings/explain", "resourcebindings/readiness"),
    (_LIFEBOAT, "evictions", "failoverrecords"),
)

# The pages of the console. What they show of objects needs the right to read the objects.
_CONSOLE: Final = (
    *("/", "/stream", "/clusters", "/clusters/*", "/queue", "/queue/*", "/bindings/*", "/workloads/*", "/records"),
    *("/records/*", "/what-if", "/what-if/*", "/readiness", "/readiness.csv", "/drills", "/drills/*"),
)


def documents() -> list[Document]:
    """Return the default roles and bindings. Aggregated roles contain their rules."""
    roles = [*_system_roles(), *_user_roles()]
    for role in roles:
        rules = aggregated_rules(role, roles)
        if rules is not None:
            role["rules"] = rules
    return [*roles, *_bindings()]


def _system_roles() -> list[Document]:
    discovery = (
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
    )
    public = ("/healthz", "/livez", "/readyz", "/version", "/version/")
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    everything = (_rule(("*",), "*", "*"), {"nonResourceURLs": ["*"], "verbs": ["*"]})
    return [
        _role("cluster-admin", everything),
        _role("system:discovery", [_urls((*discovery, "/version/", "/"))]),
        _role("system:public-info-viewer", [_urls(public)]),
        _role(
            "system:basic-user",
            (
                _rule(("create",), "authorization.k8s.io", *reviews),
                _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
                _rule(("create",), _LIFEBOAT, "placementreviews"),
                _rule(("delete", "get", "list"), "identity.lifeboat.io", "credentials"),
            ),
        ),
        _role(
            "system:monitoring",
            [_urls(("/metrics", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*"))],
        ),
    ]


def _user_roles() -> list[Document]:
    view = [_rule(_READ, *row) for row in (*_NAMESPACED, *_SEEN)]
    edit = [_rule(_WRITE, *row) for row in _NAMESPACED]
    edit += [_rule(_READ, "", "secrets"), _rule(_WRITE, "", "secrets"), _rule(("create",), "", "serviceaccounts/token")]
    edit += [_rule(("create",), "policy", "evictions"), _rule(_WRITE, "", "events")]
    edit += [_rule((*_READ, *_WRITE), "coordination.k8s.io", "leases")]
    admin = [
        _rule((*_READ, *_WRITE), GROUP, "roles", "rolebindings"),
        _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    ]
    return [
        _aggregated("view"),
        _aggregated("edit"),
        _aggregated("admin"),
        _role(
            "system:aggregate-to-view",
            view,
            **{f"{_AGGREGATE}view": "true", f"{_AGGREGATE}edit": "true", f"{_AGGREGATE}admin": "true"},
        ),
        _role("system:aggregate-to-edit", edit, **{f"{_AGGREGATE}edit": "true", f"{_AGGREGATE}admin": "true"}),
        _role("system:aggregate-to-admin", admin, **{f"{_AGGREGATE}admin": "true"}),
        *_operators(),
    ]


def _operators() -> list[Document]:
    """Return the roles about the whole fleet: `lifeboat:viewer` reads it, `lifeboat:operator` handles outages."""
    fleet = (
        _rule(_READ, "cluster.karmada.io", "clusters", "clusters/status"),
        _rule(_READ, "policy.karmada.io", "*"),
        # Not */status: the status of a Work is read as the whole Work, which may contain a Secret.
        *(
            _rule(_READ, "work.karmada.io", kind, f"{kind}/status", f"{kind}/explain", f"{kind}/readiness")
            for kind in ("resourcebindings", "clusterresourcebindings")
        ),
        _rule(_READ, "apps.karmada.io", "*"),
        _rule(_READ, _LIFEBOAT, "*"),
        _rule(("create",), _LIFEBOAT, "interpretations", "placementreviews", "whatifs"),
        _rule(_READ, "", "namespaces", "nodes", "events"),
        _rule(_READ, "apiextensions.k8s.io", "customresourcedefinitions"),
        _urls(("/metrics", "/debug/controllers", *_CONSOLE)),
    )
    handling = (
        _rule((*_READ, *_WRITE), _LIFEBOAT, "*"),
        _rule(("create",), _LIFEBOAT, "*/hold", "*/release", "*/skip", "*/expedite"),
        _rule(("patch", "update"), "cluster.karmada.io", "clusters"),
        _rule(("create",), "cluster.karmada.io", "clusters/fence"),
        _rule(_WRITE, "policy.karmada.io", "clustertaintpolicies"),
        _rule(("patch", "update"), "work.karmada.io", "resourcebindings", "clusterresourcebindings"),
        _rule(("create",), "work.karmada.io", "*/revert"),
        _rule(_WRITE, "apps.karmada.io", "workloadrebalancers"),
    )
    return [_role("lifeboat:viewer", fleet), _role("lifeboat:operator", (*fleet, *handling))]


def _bindings() -> list[Document]:
    return [
        _binding("cluster-admin", ADMINISTRATORS),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:basic-user", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
        _binding("system:monitoring", "system:monitoring"),
    ]


def _role(name: str, rules: Iterable[Document], **labels: str) -> Document:
    return {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": _metadata(name, labels), "rules": [*rules]}


def _aggregated(name: str) -> Document:
    selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
    return {**_role(name, ()), "aggregationRule": {"clusterRoleSelectors": selectors}}


def _binding(role: str, *groups: str) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(role, {}),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _metadata(name: str, labels: dict[str, str]) -> Document:
    return {"name": name, "labels": {**_BOOTSTRAPPING, **labels}, "annotations": {**_AUTOUPDATE}}


def _rule(verbs: Iterable[str], group: str, *resources: str) -> Document:
    return {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}


def _urls(urls: Iterable[str]) -> Document:
    return {"nonResourceURLs": [*urls], "verbs": ["get"]}

"""Validation of roles and of their bindings, with the rules and texts of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import dns1123_subdomain_errors
from controlplane.kube.meta_types import is_selector
from controlplane.settings import Settings

GROUP = "rbac.authorization.k8s.io"
_ROLES = {"RoleBinding": ("Role", "ClusterRole"), "ClusterRoleBinding": ("ClusterRole",)}
_SUBJECTS = ("ServiceAccount", "User", "Group")
_NO_SELECTOR = "at least one clusterRoleSelector required if aggregationRule is non-nil"

Document = dict[str, Any]


def validate_role(new: Any, old: Any, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a Role or ClusterRole."""
    rules = new.content.get("rules") or ()
    found = [cause for index, rule in enumerate(rules) for cause in _rule(rule, f"rules[{index}]", new.kind == "Role")]
    aggregation = new.content.get("aggregationRule")
    return found if aggregation is None else [*found, *_aggregation(aggregation)]


def _aggregation(rule: Document) -> Iterator[Cause]:
    chosen = rule.get("clusterRoleSelectors") or ()
    if not chosen:
        yield required("aggregationRule.clusterRoleSelectors", _NO_SELECTOR)
    for index, selector in enumerate(chosen):
        if not is_selector(selector):
            yield invalid(f"aggregationRule.clusterRoleSelectors[{index}]", selector, "invalid label selector.")


def _rule(rule: Document, path: str, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            yield invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            both = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, both)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def normalise_binding(doc: Document) -> list[str]:
    """Set the API groups that a binding may leave out, in place. Return no warnings."""
    ref = doc.get("roleRef")
    if isinstance(ref, dict):
        ref["apiGroup"] = ref.get("apiGroup") or GROUP
    subjects = doc.get("subjects")
    for subject in subjects if isinstance(subjects, list) else ():
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or GROUP
    return []


def validate_binding(new: Any, old: Any, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a RoleBinding or ClusterRoleBinding. Its roleRef never changes."""
    ref: Document = new.content.get("roleRef") or {}
    causes = []
    if ref and ref.get("apiGroup") != GROUP:
        causes.append(unsupported("roleRef.apiGroup", ref.get("apiGroup"), (GROUP,)))
    if ref.get("kind") not in _ROLES[new.kind]:
        causes.append(unsupported("roleRef.kind", ref.get("kind") or "", _ROLES[new.kind]))
    if not ref.get("name"):
        causes.append(required("roleRef.name", ""))
    if old is not None and old.content.get("roleRef") != ref:
        causes.append(invalid("roleRef", ref, "cannot change roleRef"))
    for index, subject in enumerate(new.content.get("subjects") or ()):
        causes += _subject(subject, f"subjects[{index}]", namespaced=new.kind == "RoleBinding")
    return causes


def _subject(subject: Document, path: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, group = subject.get("kind"), subject.get("apiGroup") or ""
    if not subject.get("name"):
        yield required(f"{path}.name", "")
    if kind not in _SUBJECTS:
        yield unsupported(f"{path}.kind", kind, _SUBJECTS)
    elif kind == "ServiceAccount":
        for wrong in dns1123_subdomain_errors(subject.get("name") or "x"):
            yield invalid(f"{path}.name", subject["name"], wrong)
        if group:
            yield unsupported(f"{path}.apiGroup", group, ("",))
        if not subject.get("namespace") and not namespaced:
            yield required(f"{path}.namespace", "")
    elif group != GROUP:
        yield unsupported(f"{path}.apiGroup", group, (GROUP,))

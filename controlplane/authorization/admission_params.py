"""Who may let an admission policy read parameters: users who may read them [parameter-rights].

Expressions of a policy read its parameters with the rights of the control plane, and messages carry what they read to
every user who writes. So the author needs the rights that a kube-apiserver asks for.
"""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.causes import forbidden
from controlplane.apimachinery.errors import Invalid
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.policy import Policy
from controlplane.authorization.rules import ALL
from controlplane.kind import KINDS
from controlplane.kinds.template.admission_kinds import GROUP

Document = dict[str, Any]


def check_policy(policy: Policy, caller: Caller, new: Document, old: Document | None) -> None:
    """Raise Invalid if a user writes a policy whose parameters are of a kind that the user may not get everywhere.

    A write that leaves `spec.paramKind` as it is needs no rights.
    """
    stated = _spec(new).get("paramKind")
    if not stated or stated == _spec(old or {}).get("paramKind"):
        return
    if not policy.authorize(caller, _request("get", stated)).allowed:
        kind, api_version = stated.get("kind", ""), stated.get("apiVersion", "")
        raise _refused(
            new,
            "spec.paramKind",
            f'user {caller.name} must have "get" permission on all objects of the referenced paramKind (kind {kind}, '
            f"apiVersion {api_version})",
        )


def check_binding(
    policy: Policy, caller: Caller, new: Document, old: Document | None, bound: Document | None = None
) -> None:
    """Raise Invalid if a user binds a policy to parameters that the user may not read.

    `bound`: the policy of the binding; None: there is none yet, so its parameters may be of any kind. A write that
    leaves `spec.paramRef` and `spec.policyName` as they are needs no rights.
    """
    spec, before = _spec(new), _spec(old or {})
    ref = spec.get("paramRef")
    if not ref or all(spec.get(field) == before.get(field) for field in ("paramRef", "policyName")):
        return
    name, namespace = str(ref.get("name") or ""), str(ref.get("namespace") or "")
    verb = "get" if name else "list"
    asked = _request(verb, _spec(bound or {}).get("paramKind") or {}, namespace=namespace, name=name)
    if policy.authorize(caller, asked).allowed:
        return
    why = f'user {caller.name} does not have "{verb}" permission on the object referenced by paramRef'
    if asked.api_group == ALL:
        why = (
            f"the kind of the parameters of policy {spec.get('policyName')} is not known, and user {caller.name} does "
            f'not have "{verb}" permission for all groups, versions and resources'
        )
    raise _refused(new, "spec.paramRef", why)


def _request(verb: str, stated: Document, *, namespace: str = "", name: str = "") -> Request:
    """Return what is attempted with objects of a kind. A kind that is not known may be any kind of its group."""
    api_version = str(stated.get("apiVersion") or "")
    kind = KINDS.of_version(api_version, str(stated.get("kind") or ""))
    group = api_version.rpartition("/")[0] if api_version else ALL
    return Request(verb, group, ALL if kind is None else kind.resource.plural, "", namespace, name)


def _spec(document: Document) -> Document:
    return document.get("spec") or {}


def _refused(document: Document, field: str, why: str) -> Invalid:
    return Invalid.of(document["kind"], document["metadata"]["name"], [forbidden(field, why)], group=GROUP)

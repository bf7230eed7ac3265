"""Which roles and bindings a user may write: a user grants at most what the user has [no-escalation]."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.errors import Forbidden, qualified
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.policy import CLUSTER_ROLE, GROUP, ROLE, ROLE_BINDING, Policy
from controlplane.authorization.rules import EVERYTHING, Rule, rules_in, spelled, uncovered

Document = dict[str, Any]
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles", "RoleBinding": "rolebindings"}
MOST_NAMED = 20  # missing rules that a message names


def check_role(policy: Policy, caller: Caller, new: Document, old: Document | None) -> None:
    """Raise Forbidden if a user writes a Role or ClusterRole with more rights than the user has.

    The verb `escalate` on the role allows it. A write that changes no rule needs no rights, unless it changes the
    labels of a ClusterRole: aggregated roles choose by them, so a label can give the rules of the role to the users of
    another one. A ClusterRole with an aggregationRule may become anything, so it needs the right to everything.
    """
    if old is not None and _grants(new) == _grants(old):
        return
    namespace, name = _named(new)
    plural = _PLURALS[new["kind"]]
    if policy.authorize(caller, Request("escalate", GROUP, plural, "", namespace, name)).allowed:
        return
    aggregated = EVERYTHING if new.get("aggregationRule") else ()
    _check(policy, caller, new, (*rules_in(new), *aggregated), within=namespace)


def _grants(role: Document) -> tuple[Any, ...]:
    """Return what decides which rules a role gives, and to which aggregated roles."""
    labels = role["metadata"].get("labels") if role["kind"] == "ClusterRole" else None
    return role.get("rules"), role.get("aggregationRule"), labels or {}


def check_binding(policy: Policy, caller: Caller, new: Document, old: Document | None) -> None:
    """Raise Forbidden if a user binds a role that has more rights than the user has.

    The verb `bind` on the role allows it. A write that changes neither subjects nor role needs no rights.
    """
    if old is not None and all(new.get(field) == old.get(field) for field in ("subjects", "roleRef")):
        return
    namespace, _ = _named(new)
    ref = new.get("roleRef") or {}
    kind, role = str(ref.get("kind", "")), str(ref.get("name", ""))
    if policy.authorize(caller, Request("bind", GROUP, _PLURALS.get(kind, ""), "", namespace, role)).allowed:
        return
    rules = policy.rules_of_role(ROLE if kind == "Role" else CLUSTER_ROLE, namespace, role)
    if rules is None:
        plural = _PLURALS.get(kind, "clusterroles")
        raise _forbidden(new, f'{qualified(plural, GROUP)} "{role}" not found; create the role before its binding')
    _check(policy, caller, new, rules, within=namespace)


def _check(policy: Policy, caller: Caller, written: Document, rules: tuple[Rule, ...], *, within: str) -> None:
    missing = uncovered(policy.rules_of(caller, within), rules)
    if not missing:
        return
    groups = " ".join(f'"{group}"' for group in caller.groups)
    lines = "\n".join(spelled(rule) for rule in missing[:MOST_NAMED])
    more = f"\nand {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    raise _forbidden(
        written,
        f'user "{caller.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
        f"{lines}{more}",
    )


def _forbidden(document: Document, why: str) -> Forbidden:
    _, name = _named(document)
    plural = f"{document['kind'].lower()}s"
    return Forbidden(f'{qualified(plural, GROUP)} "{name}" is forbidden: {why}', kind=plural, group=GROUP, name=name)


def _named(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


CHECKS = {
    ROLE: check_role,
    CLUSTER_ROLE: check_role,
    ROLE_BINDING: check_binding,
    f"{GROUP}/ClusterRoleBinding": check_binding,
}
"""The check of each kind: what a write of it may grant."""

"""Who may use the proxy to a member, and what the member's impersonator may therefore do [proxy-rights]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from controlplane.authorization.rules import ALL, Rule, rules_in

CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
"""The key of the extra value that callers with the token of a ServiceAccount have."""

_GROUP, _RESOURCE = "cluster.karmada.io", "clusters/proxy"

Document = dict[str, Any]


class Subjects(msgspec.Struct, frozen=True):
    """Names of users, groups and ServiceAccounts, each in order and without duplicates."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()


def subjects(cluster: str, roles: Iterable[Document], bindings: Iterable[Document]) -> Subjects:
    """Return the subjects whom ClusterRoles and ClusterRoleBindings allow the proxy of a cluster, with any verb."""
    allowing = {role["metadata"]["name"] for role in roles if any(_concerns(rule, cluster) for rule in rules_in(role))}
    found: dict[str, set[str]] = {"User": set(), "Group": set(), "ServiceAccount": set()}
    for binding in bindings:
        ref = binding.get("roleRef") or {}
        if ref.get("kind") != "ClusterRole" or ref.get("name") not in allowing:
            continue
        for subject in binding.get("subjects") or ():
            if subject.get("kind") in found and subject.get("name"):
                found[subject["kind"]].add(str(subject["name"]))
    return Subjects(*(tuple(sorted(found[kind])) for kind in ("User", "Group", "ServiceAccount")))


def _concerns(rule: Rule, cluster: str) -> bool:
    return (
        (_GROUP in rule.api_groups or ALL in rule.api_groups)
        and any(resource in (ALL, _RESOURCE, "*/proxy") for resource in rule.resources)
        and (not rule.resource_names or cluster in rule.resource_names)
    )


def impersonation_rules(allowed: Subjects) -> list[Document]:
    """Return the rules of the impersonator in a member.

    Groups are always named. The users of a group cannot be listed, because logins of other systems belong to it. If a
    group is named, the impersonator may therefore act as any user and ServiceAccount, but with the named groups only.
    """
    rules = []
    any_user = bool(allowed.groups)
    for resource, names in (("users", allowed.users), ("serviceaccounts", allowed.service_accounts)):
        if names or any_user:
            rules.append(_rule("", resource, () if any_user else names))
    if allowed.groups:
        rules.append(_rule("", "groups", allowed.groups))
    if rules:
        rules.append(_rule("authentication.k8s.io", "uids"))
        rules.append(_rule("authentication.k8s.io", f"userextras/{CREDENTIAL}"))
    return rules


def _rule(group: str, resource: str, names: tuple[str, ...] = ()) -> Document:
    rule: Document = {"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"]}
    return rule | ({"resourceNames": [*names]} if names else {})

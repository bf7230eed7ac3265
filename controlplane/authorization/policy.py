"""The policy in force: all roles and bindings, compiled so that a question costs no reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from controlplane.authorization.attributes import ADMINISTRATORS, SERVICE_ACCOUNT, Caller, Request
from controlplane.authorization.rules import EVERYTHING, Rule, allows, rules_in

GROUP = "rbac.authorization.k8s.io"
ROLE, CLUSTER_ROLE = f"{GROUP}/Role", f"{GROUP}/ClusterRole"
ROLE_BINDING, CLUSTER_ROLE_BINDING = f"{GROUP}/RoleBinding", f"{GROUP}/ClusterRoleBinding"
KINDS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)

Document = dict[str, Any]


class Verdict(NamedTuple):
    """Whether a request is allowed, and the rule that decided, as a sentence."""

    allowed: bool
    reason: str


class Grant(msgspec.Struct, frozen=True):
    """A binding of a role: `namespace` "" grants its rules everywhere. `source` names the binding in reasons."""

    namespace: str
    source: str
    rules: tuple[Rule, ...]


class Policy:
    """Who may do what, compiled from the documents of roles and bindings by kind.

    A subject that cannot be read and a binding of a role that does not exist grant nothing.
    """

    def __init__(self, documents: Mapping[str, Iterable[Document]]) -> None:
        roles = {_name(role): rules_in(role) for role in documents.get(ROLE, ())}
        cluster_roles = {_name(role): rules_in(role) for role in documents.get(CLUSTER_ROLE, ())}
        self._by_user: dict[str, list[Grant]] = {}
        self._by_group: dict[str, list[Grant]] = {}
        for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
            for binding in documents.get(kind, ()):
                self._bind(binding, roles, cluster_roles)
        self._rules = {**{(ROLE, *key): rules for key, rules in roles.items()}}
        self._rules |= {(CLUSTER_ROLE, *key): rules for key, rules in cluster_roles.items()}

    def _bind(
        self,
        binding: Document,
        roles: Mapping[tuple[str, str], tuple[Rule, ...]],
        cluster_roles: Mapping[tuple[str, str], tuple[Rule, ...]],
    ) -> None:
        namespace, name = _name(binding)
        ref = binding.get("roleRef") or {}
        role = str(ref.get("name", ""))
        of_namespace = ref.get("kind") == "Role"
        rules = roles.get((namespace, role)) if of_namespace else cluster_roles.get(("", role))
        if not rules:
            return
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        text = f'{kind} "{namespace}/{name}"' if namespace else f'{kind} "{name}"'
        source = f'{text} of {"Role" if of_namespace else "ClusterRole"} "{role}"'
        for subject in binding.get("subjects") or ():
            table, key = self._subject(subject, namespace)
            if table is not None:
                table.setdefault(key, []).append(Grant(namespace, f"{source} to {_spelled(subject)}", rules))

    def _subject(self, subject: Document, namespace: str) -> tuple[dict[str, list[Grant]] | None, str]:
        """Return the table of a subject and its key there. (None, ""): the subject's kind is unknown."""
        kind, name = subject.get("kind"), str(subject.get("name", ""))
        if kind == "User":
            return self._by_user, name
        if kind == "Group":
            return self._by_group, name
        if kind == "ServiceAccount":
            return self._by_user, f"{SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{name}"
        return None, ""

    def _grants(self, caller: Caller, namespace: str) -> Iterator[Grant]:
        """Yield what is granted to a caller in a namespace: grants for all namespaces, and those of this namespace."""
        tables = [self._by_user.get(caller.name, ()), *(self._by_group.get(group, ()) for group in caller.groups)]
        for grants in tables:
            for grant in grants:
                if not grant.namespace or grant.namespace == namespace:
                    yield grant

    def authorize(self, caller: Caller, request: Request) -> Verdict:
        """Return whether the caller may do this. What no rule allows is refused.

        Members of system:masters may do everything, so that wrong roles lock no administrator out.
        """
        if ADMINISTRATORS in caller.groups:
            return Verdict(True, f"members of {ADMINISTRATORS} may do everything")
        for grant in self._grants(caller, request.namespace):
            if any(allows(rule, request) for rule in grant.rules):
                return Verdict(True, f"RBAC: allowed by {grant.source}")
        return Verdict(False, "")

    def rules_of(self, caller: Caller, namespace: str) -> tuple[Rule, ...]:
        """Return all rules of a caller in a namespace; "": only those that hold everywhere."""
        if ADMINISTRATORS in caller.groups:
            return EVERYTHING
        return tuple(dict.fromkeys(rule for grant in self._grants(caller, namespace) for rule in grant.rules))

    def rules_of_role(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """Return the rules of a Role or ClusterRole; None: it does not exist."""
        return self._rules.get((kind, "" if kind == CLUSTER_ROLE else namespace, name))


def _name(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _spelled(subject: Document) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace', '')}"
    return f'{subject.get("kind")} "{name}"'

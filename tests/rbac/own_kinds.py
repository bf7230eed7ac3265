"""The rights of each role on the kinds of this product, as a table that people review: `own_kinds.txt`.

`python -m tests.rbac.own_kinds` writes the table from the roles of a new installation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from controlplane.authorization.attributes import AUTHENTICATED, Caller, Request
from controlplane.authorization.default_roles import documents
from controlplane.authorization.policy import GROUP, KINDS, Policy
from controlplane.kinds import KINDS as SERVED
from tests.rbac.questions import DEFAULT_KINDS, VERBS, Document

TABLE = Path(__file__).with_name("own_kinds.txt")
ROLES = ("cluster-admin", "admin", "edit", "view", "lifeboat:viewer", "lifeboat:operator", "none")
# Letters of the table, in the order of VERBS: get, list, watch, create, update, patch, delete, deletecollection.
LETTERS = dict(zip(VERBS[:-1], "glwcupdx", strict=True))
# Kinds that answer a question and are not stored.
QUESTIONS = (
    ("failover.lifeboat.io", "failoverrecords", ""),
    ("failover.lifeboat.io", "fleetreadinesses", ""),
    ("failover.lifeboat.io", "fleetstatuses", ""),
    ("failover.lifeboat.io", "interpretations", ""),
    ("failover.lifeboat.io", "placementreviews", ""),
    ("failover.lifeboat.io", "whatifs", ""),
    ("identity.lifeboat.io", "credentials", ""),
)


def own() -> list[tuple[str, str, str]]:
    """Return group, resource and subresource of each kind of this product."""
    of_kinds = [
        (kind.resource.group, kind.resource.plural, subresource)
        for kind in SERVED
        if kind.resource.group.endswith(("karmada.io", "lifeboat.io"))
        for subresource in ("", *kind.resource.subresources)
    ]
    return sorted({*of_kinds, *QUESTIONS})


def served() -> set[tuple[str, str, str]]:
    """Return group, resource and subresource of each kind that is served, and what the kube-apiserver was asked."""
    return {
        (kind.resource.group, kind.resource.plural, sub) for kind in SERVED for sub in ("", *kind.resource.subresources)
    }


def asked() -> set[tuple[str, str, str]]:
    """Return what the tables cover: the answers of a kube-apiserver, and this one."""
    return {*DEFAULT_KINDS, *own()}


@cache
def policy() -> Policy:
    """Return the policy of a new installation with a user of each role, bound everywhere."""
    found: dict[str, list[Document]] = {kind: [] for kind in KINDS}
    bindings = [
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"test-{role}"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": role, "apiGroup": GROUP}],
        }
        for role in ROLES
    ]
    for document in (*documents(), *bindings):
        found[f"{GROUP}/{document['kind']}"].append(document)
    return Policy(found)


def allowed(role: str, kind: tuple[str, str, str]) -> str:
    """Return the letters of the verbs that a role allows on a kind everywhere; "-": none."""
    group, resource, subresource = kind
    caller = Caller(role, (AUTHENTICATED,))
    letters = (
        letter
        for verb, letter in LETTERS.items()
        if policy().authorize(caller, Request(verb, group, resource, subresource)).allowed
    )
    return "".join(letters) or "-"


def rows() -> Iterator[str]:
    """Yield the lines of the table: a heading, and a line for each kind."""
    yield _line("", ROLES)
    for group, resource, subresource in own():
        name = f"{resource}.{group}" + (f"/{subresource}" if subresource else "")
        yield _line(name, [allowed(role, (group, resource, subresource)) for role in ROLES])


def _line(first: str, cells: tuple[str, ...] | list[str]) -> str:
    return (f"{first:<64}" + "".join(f"{cell:<19}" for cell in cells)).rstrip()


if __name__ == "__main__":
    TABLE.write_text("\n".join(rows()) + "\n")

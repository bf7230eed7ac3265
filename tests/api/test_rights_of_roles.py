"""The tables of roles hold over HTTP: a sample of kinds for each role, asked as a user who has that role."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from controlplane.kinds import KINDS
from tests.api.roles import ACCESS, bind
from tests.api.server import Answer, Client
from tests.processes import until
from tests.rbac.own_kinds import ROLES, allowed

SEED, SAMPLE = 20261123, 6
VERBS = {"GET": "l", "DELETE": "x", "POST": "c"}


def asked(api: Client, role: str, method: str, path: str, body: bytes | None = None) -> Answer:
    headers: Mapping[str, str] = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json",
        "Impersonate-User": f"rights-{role}",
        "Impersonate-Group": "system:authenticated",
    }
    return api.send(method, path, body, headers)


@pytest.fixture(scope="module")
def bound() -> set[str]:
    """The roles that are bound already."""
    return set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_what_its_table_says_and_nothing_else(
    api: Client, namespace: str, role: str, bound: set[str]
) -> None:
    if role != "none" and role not in bound:
        bind(api, f"rights-{role.replace(':', '-')}", to={"kind": "User", "name": f"rights-{role}"}, roles=(role,))
        bound.add(role)
        group, resource = ("policy.karmada.io", "overridepolicies")
        question = b'{"spec":{"resourceAttributes":{"verb":"list","group":"%s","resource":"%s"}}}'
        spec = question % (group.encode(), resource.encode())
        until(lambda: asked(api, role, "POST", ACCESS, spec).document["status"]["allowed"], within=10)
    chance = random.Random(f"{SEED} {role}")
    own = [one.resource for one in KINDS if one.resource.group.endswith(("karmada.io", "lifeboat.io"))]
    for resource in chance.sample(own, SAMPLE):
        letters = allowed(role, (resource.group, resource.plural, ""))
        place = f"namespaces/{namespace}/" if resource.namespaced else ""
        for method, letter in VERBS.items():
            path = f"/apis/{resource.api_version}/{place}{resource.plural}?dryRun=All"
            answer = asked(api, role, method, path, b"{}" if method == "POST" else None)
            assert (answer.status == 403) is (letter not in letters), (role, method, path, answer.body)

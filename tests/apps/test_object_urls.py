"""The URL of an object on a member is about this object only, whatever its name is."""

from __future__ import annotations

from typing import Any

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from controlplane.clusters.questions import NOT_FOUND, Compare, Discard, Ensure, Target
from tests.apps.test_client import WIDGET_DEFINITION, on_a_fleet, target
from tests.apps.test_removing import manifest

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"


def role(name: str) -> dict[str, Any]:
    made = manifest("Role", name, namespace="default")
    return {**made, "apiVersion": "rbac.authorization.k8s.io/v1", "rules": []}


@on_a_fleet
async def test_the_name_of_an_object_leads_to_no_other_namespace(fleet: Fleet, client: MemberClient) -> None:
    """An override policy, or a Work that a user writes, may give an object any name."""
    member, theirs = target(fleet), manifest("ConfigMap", "settings", namespace="shop")
    for made in (manifest("Namespace", "shop"), theirs):
        assert (await client.ensure(Ensure(member, made, False))).ok

    for name in ("../../shop/configmaps/settings", "..", ".", "a%2Fb", "a/b"):
        odd = manifest("ConfigMap", name, namespace="default")
        written = await client.ensure(Ensure(member, odd, True))
        compared = await client.compare(Compare(Ensure(member, odd, True)))
        removed = await client.discard(Discard(member, odd))
        released = await client.discard(Discard(member, odd, release=True))

        assert written.problem == compared.problem == f'"{name}" cannot be the name of an object'
        assert [(one.code, one.reason) for one in (removed, released)] == [(404, NOT_FOUND)] * 2

    kept = await client.call(member, "GET", "/api/v1/namespaces/shop/configmaps/settings")
    assert (kept.code, "deletionTimestamp" in kept.body["metadata"]) == (200, False)
    assert "karmada.io/managed" in kept.body["metadata"]["labels"]


@on_a_fleet
async def test_an_odd_name_of_a_kind_whose_definition_is_gone_keeps_no_work_from_being_removed(
    fleet: Fleet, client: MemberClient
) -> None:
    """The member is asked for the URL of such a kind. Each removal failed with an error of the program, for ever."""
    member, definitions = target(fleet), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client.call(member, "POST", definitions, body=WIDGET_DEFINITION)).ok

    for metadata in ({"name": "..", "namespace": "default"}, {"name": "one", "namespace": "../.."}):
        answer = await client.discard(
            Discard(member, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": metadata})
        )

        assert (answer.code, answer.reason) == (404, NOT_FOUND)


@on_a_fleet
async def test_a_namespace_that_is_no_text_is_refused_by_name(fleet: Fleet, client: MemberClient) -> None:
    """A ClusterOverridePolicy may write any value there."""
    answer = await client.ensure(Ensure(target(fleet), manifest("ConfigMap", "settings", namespace=5), True))

    assert answer.problem == '"5" cannot be the name of an object'


@on_a_fleet
async def test_the_namespace_of_an_object_leads_nowhere_else(fleet: Fleet, client: MemberClient) -> None:
    odd = manifest("ConfigMap", "settings", namespace="../secrets")

    answer = await client.ensure(Ensure(target(fleet), odd, True))

    assert answer.problem == '"../secrets" cannot be the name of an object'


@on_a_fleet
async def test_roles_with_signs_of_urls_in_their_names_are_written_and_removed_themselves(
    fleet: Fleet, client: MemberClient
) -> None:
    """Without it the removal of web#old would remove web."""
    member, odd = target(fleet), ["web#old", "web?old", "system:web", "web old"]
    for name in ("web", *odd):
        assert (await client.ensure(Ensure(member, role(name), False))).ok, name

    written = await names(client, member)
    removed = [(await client.discard(Discard(member, role(name)))).code for name in odd]

    assert written == sorted(["web", *odd])
    assert removed == [404] * len(odd)  # gone
    assert await names(client, member) == ["web"]


async def names(client: MemberClient, member: Target) -> list[str]:
    return sorted(item["metadata"]["name"] for item in (await client.call(member, "GET", ROLES)).body["items"])

"""Deletions that a member finishes later, and Namespaces that it had before."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from controlplane.apimachinery.names import MANAGED_LABEL, MANAGED_LABEL_VALUE, WORK_NAMESPACE_ANNOTATION
from controlplane.clusters.questions import NOT_OURS, REMOVING, Compare, Discard, Ensure
from tests.apps.test_client import on_a_fleet, target


def manifest(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    ours = {MANAGED_LABEL: MANAGED_LABEL_VALUE}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": ours, **metadata}}


@on_a_fleet
async def test_a_deletion_that_finalizers_hold_back_says_which(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    held = manifest("ConfigMap", "held", namespace="default", finalizers=["lab.example.io/held"])
    assert (await client.ensure(Ensure(member, held, False))).ok

    for _ in range(2):
        answer = await client.discard(Discard(member, held))

        assert (answer.code, answer.problem) == (REMOVING, "")
        assert "finalizers lab.example.io/held" in answer.note


@on_a_fleet
async def test_a_namespace_of_the_member_is_distinguished_from_a_failure(fleet: Fleet, client: MemberClient) -> None:
    member, shop = target(fleet), manifest("Namespace", "shop")
    theirs = {"metadata": {"name": "shop"}}
    assert (await client.call(member, "POST", "/api/v1/namespaces", body=theirs)).ok

    refused = await client.ensure(Ensure(member, shop, False))
    left = await client.discard(Discard(member, shop))

    assert (refused.code, refused.reason, left.code) == (409, NOT_OURS, 404)
    assert (await client.call(member, "GET", "/api/v1/namespaces/shop")).body["status"]["phase"] == "Active"


@on_a_fleet
async def test_a_cluster_that_is_joined_twice_loses_nothing_when_one_of_the_two_is_unjoined(
    fleet: Fleet, client: MemberClient
) -> None:
    """Each Namespace has a Work on every cluster, so that on the second name removed the Namespaces of the first."""
    first = target(fleet)
    second = replace(first, cluster="again")
    for kind, name, place in (("Namespace", "shop", {}), ("ConfigMap", "settings", {"namespace": "default"})):
        made, other = (
            manifest(kind, name, annotations={WORK_NAMESPACE_ANNOTATION: f"karmada-es-{cluster}"}, **place)
            for cluster in ("member1", "again")
        )
        assert (await client.ensure(Ensure(first, made, False))).ok

        refused = await client.ensure(Ensure(second, other, False))
        compared = await client.compare(Compare(Ensure(second, other, False)))
        left = [await client.discard(Discard(second, other, release=release)) for release in (False, True)]

        assert [one.reason for one in (refused, compared, *left)] == [NOT_OURS] * 4
        assert (refused.code, [one.code for one in left]) == (409, [404, 404])
        assert "belongs to cluster member1 of Lifeboat (is the same cluster joined twice?)" in refused.problem
        taken = await client.ensure(Ensure(second, other, True))
        assert taken.body["metadata"]["annotations"] == {WORK_NAMESPACE_ANNOTATION: "karmada-es-again"}
        assert (await client.discard(Discard(first, made))).code == 404

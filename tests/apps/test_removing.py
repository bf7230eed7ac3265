"""Deletions that a member finishes later, and Namespaces that it had before."""

from __future__ import annotations

from typing import Any

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from controlplane.apimachinery.names import MANAGED_LABEL, MANAGED_LABEL_VALUE
from controlplane.clusters.questions import NOT_OURS, REMOVING, Discard, Ensure
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

"""What an apply would change on a member is found by a dry run, which changes nothing."""

from __future__ import annotations

from apps.clusters.client import MemberClient
from controlplane.clusters.questions import DIFFERENT, MISSING, NOT_OURS, SAME, Compare, Ensure
from tests.apps.test_client import Fleet, on_a_fleet, target, workload

WHERE = "/apis/apps/v1/namespaces/default/deployments/web"


@on_a_fleet
async def test_a_comparison_asks_the_member_and_changes_nothing(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    missing = await client.compare(Compare(Ensure(member, workload("web:1"), False)))
    assert (await client.call(member, "GET", WHERE)).code == 404
    assert (await client.ensure(Ensure(member, workload("web:1"), False))).ok
    before = (await client.call(member, "GET", WHERE)).body["metadata"]["resourceVersion"]

    same = await client.compare(Compare(Ensure(member, workload("web:1"), False)))
    other = await client.compare(Compare(Ensure(member, workload("web:2"), False)))

    assert [one.reason for one in (missing, same, other)] == [MISSING, SAME, DIFFERENT]
    assert other.note == "An apply would change spec.template.spec.containers[0].image."
    assert (await client.call(member, "GET", WHERE)).body["metadata"]["resourceVersion"] == before


@on_a_fleet
async def test_an_object_of_others_is_not_compared(fleet: Fleet, client: MemberClient) -> None:
    member, theirs = target(fleet), workload("web:1")
    theirs["metadata"]["labels"] = {}
    assert (await client.call(member, "POST", WHERE.rpartition("/")[0], body=theirs)).ok

    refused = await client.compare(Compare(Ensure(member, workload("web:1"), False)))

    assert (refused.ok, refused.reason) == (False, NOT_OURS)

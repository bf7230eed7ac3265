"""An apply says which object it is made for: one request is enough, and an object of others is never written over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.clusters.client import MemberClient
from apps.simulator.member import Member
from apps.simulator.objects import Writer
from controlplane.apimachinery.names import RETAIN_REPLICAS_LABEL, RETAIN_REPLICAS_LABEL_VALUE
from controlplane.clusters.questions import Ensure
from tests.apps.test_client import Fleet, on_a_fleet, target, workload

WHERE = "/apis/apps/v1/namespaces/default/deployments/web"
MERGE = "application/merge-patch+json"


def asked(fleet: Fleet) -> list[tuple[str, int]]:
    """Return method and status of each request since the last call."""
    log = fleet["member1"].requests
    found = [(entry["method"], entry["status"]) for entry in log.entries()]
    log.clear()
    return found


@on_a_fleet
async def test_an_object_is_created_and_updated_with_one_request_each(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    asked(fleet)

    made = await client.ensure(Ensure(member, workload("web:1"), False))
    assert (made.code, asked(fleet)) == (201, [("PATCH", 201)])
    changed = await client.ensure(Ensure(member, workload("web:2"), False), made.body)

    assert (changed.code, asked(fleet)) == (200, [("PATCH", 200)])


@on_a_fleet
async def test_a_status_that_was_reported_meanwhile_costs_no_second_request(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    known = (await client.ensure(Ensure(member, workload("web:1"), False))).body
    reported = {"status": {"observedGeneration": 1, "replicas": 0}}
    assert (await client.call(member, "PATCH", f"{WHERE}/status", body=reported, content_type=MERGE)).ok
    asked(fleet)

    assert (await client.ensure(Ensure(member, workload("web:2"), False), known)).ok

    assert asked(fleet) == [("PATCH", 200)]


@on_a_fleet
async def test_an_object_that_the_watch_has_not_reported_yet_is_read_and_updated(
    fleet: Fleet, client: MemberClient
) -> None:
    member = target(fleet)
    assert (await client.ensure(Ensure(member, workload("web:1"), False))).ok
    asked(fleet)

    again = await client.ensure(Ensure(member, workload("web:2"), False))

    assert (again.code, asked(fleet)) == (200, [("PATCH", 409), ("GET", 200), ("PATCH", 200)])


@on_a_fleet
async def test_an_object_that_others_made_in_place_of_ours_is_not_written_over(
    fleet: Fleet, client: MemberClient
) -> None:
    """The watch has not reported yet that our object is gone."""
    member, theirs = target(fleet), workload("theirs:1")
    theirs["metadata"]["labels"] = {}
    known = (await client.ensure(Ensure(member, workload("web:1"), False))).body
    assert (await client.call(member, "DELETE", WHERE)).ok
    assert (await client.call(member, "POST", WHERE.rpartition("/")[0], body=theirs)).ok

    refused = await client.ensure(Ensure(member, workload("web:2"), False), known)

    assert (refused.code, refused.reason) == (409, "NotOurs")
    assert _image(await client.call(member, "GET", WHERE)) == "theirs:1"


@on_a_fleet
async def test_an_object_that_is_gone_is_created_again(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    known = (await client.ensure(Ensure(member, workload("web:1"), False))).body
    assert (await client.call(member, "DELETE", WHERE)).ok

    again = await client.ensure(Ensure(member, workload("web:2"), False), known)

    assert (again.code, _image(again)) == (201, "web:2")


@on_a_fleet
async def test_replicas_that_the_member_has_set_since_the_last_report_are_kept(
    fleet: Fleet, client: MemberClient
) -> None:
    member = target(fleet)
    labels = {RETAIN_REPLICAS_LABEL: RETAIN_REPLICAS_LABEL_VALUE}
    known = (await client.ensure(Ensure(member, workload("web:1", **labels), False))).body
    assert (await client.call(member, "PATCH", WHERE, body={"spec": {"replicas": 7}}, content_type=MERGE)).ok

    applied = await client.ensure(Ensure(member, workload("web:2", **labels), False), known)

    assert (applied.body["spec"]["replicas"], _image(applied)) == (7, "web:2")


def meanwhile(fleet: Fleet, act: Callable[[Member], None], *, after: int) -> None:
    """Let others act on the member once it has answered `after` requests, before it carries out the next one."""
    member = fleet["member1"]
    begin, left = member.requests.begin, [after]

    def begun(**request: Any) -> dict[str, Any]:
        left[0] -= 1
        if left[0] == -1:
            act(member)
        return begin(**request)

    member.requests.begin = begun  # type: ignore[method-assign]


@on_a_fleet
async def test_an_object_that_others_create_after_the_member_was_read_is_not_written_over(
    fleet: Fleet, client: MemberClient
) -> None:
    """The watch has not reported that ours is gone: the apply is refused, the member is read, then theirs comes."""

    def create(member: Member) -> None:
        theirs = workload("theirs:1")
        theirs["metadata"]["labels"] = {}
        member.objects.create(member.objects.catalogue.by_key("apps/Deployment"), theirs, Writer("kubectl"))

    member = target(fleet)
    known = (await client.ensure(Ensure(member, workload("web:1"), False))).body
    assert (await client.call(member, "DELETE", WHERE)).ok
    meanwhile(fleet, create, after=2)

    refused = await client.ensure(Ensure(member, workload("web:2"), False), known)

    assert (refused.code, refused.reason) == (409, "NotOurs")
    assert _image(await client.call(member, "GET", WHERE)) == "theirs:1"


@on_a_fleet
async def test_replicas_that_the_member_sets_after_it_was_read_are_kept(fleet: Fleet, client: MemberClient) -> None:
    def scale(member: Member) -> None:
        resource = member.objects.catalogue.by_key("apps/Deployment")
        live = member.objects.find(resource, "default", "web")
        scaled = {**live.document, "spec": {**live.document["spec"], "replicas": 9}}
        member.objects.update(resource, live, scaled, Writer("autoscaler"))

    member = target(fleet)
    labels = {RETAIN_REPLICAS_LABEL: RETAIN_REPLICAS_LABEL_VALUE}
    known = (await client.ensure(Ensure(member, workload("web:1", **labels), False))).body
    assert (await client.call(member, "PATCH", WHERE, body={"spec": {"replicas": 7}}, content_type=MERGE)).ok
    meanwhile(fleet, scale, after=2)

    applied = await client.ensure(Ensure(member, workload("web:2", **labels), False), known)

    assert (applied.body["spec"]["replicas"], _image(applied)) == (9, "web:2")


def _image(answer: Any) -> str:
    image: str = answer.body["spec"]["template"]["spec"]["containers"][0]["image"]
    return image

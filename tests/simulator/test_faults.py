"""Faults of a member: each does what its name says, to that member only, and ends when a test says."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest

from controlplane.apimachinery.errors import BadRequest
from tests.simulator.cluster import CONFIGMAPS, DEPLOYMENTS, Cluster, configmap, simulated, workload

TWO = ("member1", "member2")


async def other_is_well(cluster: Cluster) -> bool:
    """Tell whether member2 answers as ever."""
    other = cluster.fleet["member2"]
    headers = {"Authorization": f"Bearer {other.config.token}"}
    async with cluster.session.get(other.url + "/api/v1/nodes", headers=headers) as response:
        return response.status == 200


@simulated(members=TWO)
async def test_down_refuses_connections_on_a_port_that_comes_back(cluster: Cluster) -> None:
    url = cluster.member.url
    await cluster.make(CONFIGMAPS, configmap("settings"))

    await cluster.fleet.set_fault("member1", "down")
    with pytest.raises(aiohttp.ClientConnectorError):
        await cluster.get("/readyz")
    assert await other_is_well(cluster)

    await cluster.fleet.set_fault("member1", "none")
    assert cluster.member.url == url
    assert (await cluster.get(f"{CONFIGMAPS}/settings"))["metadata"]["name"] == "settings"


@simulated()
async def test_down_cuts_watches_that_are_open(cluster: Cluster) -> None:
    async with aclosing(cluster.watch(f"{CONFIGMAPS}?watch=true")) as stream:
        await cluster.make(CONFIGMAPS, configmap("a"))
        assert (await anext(stream))["object"]["metadata"]["name"] == "a"

        await cluster.fleet.set_fault("member1", "down")

        with pytest.raises(aiohttp.ClientError):
            await anext(stream)


@simulated(members=TWO)
async def test_a_black_hole_takes_connections_and_never_answers(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "blackhole")

    with pytest.raises(asyncio.TimeoutError):
        await cluster.ask("GET", "/readyz", timeout=0.2)
    assert await other_is_well(cluster)


@simulated()
async def test_what_a_client_gave_up_on_in_a_black_hole_never_happens(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "blackhole")
    with pytest.raises(asyncio.TimeoutError):
        await cluster.ask("POST", CONFIGMAPS, configmap("late"), timeout=0.2)

    await cluster.fleet.set_fault("member1", "none")

    assert (await cluster.get(CONFIGMAPS))["items"] == []


@simulated()
async def test_a_request_that_waits_out_a_black_hole_is_answered(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "blackhole")
    waiting = asyncio.create_task(cluster.ask("GET", "/readyz"))
    while not cluster.member.requests.entries():
        await asyncio.sleep(0)

    await cluster.fleet.set_fault("member1", "none")

    assert (await waiting).status == 200


@simulated()
async def test_a_watch_falls_silent_in_a_black_hole_and_catches_up_after_it(cluster: Cluster) -> None:
    async with aclosing(cluster.watch(f"{CONFIGMAPS}?watch=true")) as stream:
        await cluster.make(CONFIGMAPS, configmap("a"))
        await anext(stream)
        await cluster.fleet.set_fault("member1", "blackhole")
        resource = cluster.member.objects.catalogue.by_key("ConfigMap")
        cluster.member.store.put(resource, {"metadata": {"name": "b", "namespace": "default", "uid": "u"}})
        following = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait({following}, timeout=0.2)
        assert not done

        await cluster.fleet.set_fault("member1", "none")

        assert (await following)["object"]["metadata"]["name"] == "b"


@simulated()
async def test_slow_answers_that_late(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    await cluster.fleet.set_fault("member1", "slow", seconds=0.3)

    began = loop.time()
    assert (await cluster.ask("GET", "/readyz")).status == 200

    assert loop.time() - began >= 0.3


@simulated(members=TWO)
async def test_unauthorized_answers_401_to_everything(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "unauthorized")

    for path in ("/readyz", "/version", CONFIGMAPS):
        assert (await cluster.ask("GET", path)).status == 401
    assert await other_is_well(cluster)


@simulated()
async def test_unhealthy_says_so_and_works_on(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "unhealthy")

    assert (await cluster.ask("GET", "/readyz")).status == 503
    assert (await cluster.ask("GET", CONFIGMAPS)).status == 200


@simulated()
async def test_not_ready_keeps_new_pods_from_becoming_ready_until_it_ends(cluster: Cluster) -> None:
    await cluster.fleet.set_fault("member1", "notready")
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=1))
    await cluster.until(DEPLOYMENTS, lambda one: one.get("status", {}).get("replicas") == 1, name="web")
    assert (await cluster.ask("GET", "/readyz")).status == 200
    assert "readyReplicas" not in (await cluster.get(f"{DEPLOYMENTS}/web"))["status"]

    await cluster.fleet.set_fault("member1", "none")

    await cluster.until(DEPLOYMENTS, lambda one: one["status"].get("readyReplicas") == 1, name="web")


@simulated()
async def test_the_request_log_names_who_asked_what_and_can_be_cleared(cluster: Cluster) -> None:
    await cluster.ask("GET", f"{CONFIGMAPS}?limit=5")
    await cluster.ask("POST", CONFIGMAPS, b"{")

    reported = [
        (one["method"], one["path"], one["status"], one["userAgent"]) for one in cluster.member.requests.entries()
    ]
    assert reported == [
        ("GET", f"{CONFIGMAPS}?limit=5", 200, "tester/1.0"),
        ("POST", CONFIGMAPS, 400, "tester/1.0"),
    ]

    cluster.member.requests.clear()
    assert cluster.member.requests.entries() == []


async def control(cluster: Cluster, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with cluster.session.request(method, cluster.fleet.control_url + path, json=body) as response:
        return response.status, await response.json()


@simulated()
async def test_the_control_port_orders_and_shows(cluster: Cluster) -> None:
    status, shown = await control(cluster, "PUT", "/members/member1/fault", {"fault": "slow", "seconds": 0.0})
    assert (status, shown["fault"], shown["seconds"]) == (200, "slow", 0.0)

    _, shown = await control(cluster, "PUT", "/members/member1/settings", {"readyAfter": 2.5})
    assert shown["readyAfter"] == 2.5

    await control(cluster, "PUT", "/members/member1/nodes/member1-node-1", {"ready": False})
    node = await cluster.get("/api/v1/nodes/member1-node-1")
    assert [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["False"]

    _, logged = await control(cluster, "GET", "/members/member1/requests")
    assert [one["path"] for one in logged["requests"]] == ["/api/v1/nodes/member1-node-1"]
    await control(cluster, "DELETE", "/members/member1/requests")
    assert (await control(cluster, "GET", "/members/member1/requests"))[1] == {"requests": []}

    _, listed = await control(cluster, "GET", "/members")
    assert listed["members"][0]["objects"]["Node"] == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "/members/member9/fault", {"fault": "down"}, 404, "there are member1"),
        ("PUT", "/members/member1/fault", {"fault": "gone"}, 400, "blackhole"),
        ("PUT", "/members/member1/fault", {"fault": "slow", "seconds": "x"}, 400, "seconds"),
        ("PUT", "/members/member1/fault", [], 400, "JSON object"),
        ("PUT", "/members/member1/settings", {"readyAfter": -1}, 400, "readyAfter"),
        ("PUT", "/members/member1/nodes/nope", {"ready": True}, 404, "nope"),
        ("PUT", "/members/member1/nodes/member1-node-1", {}, 400, "ready"),
    ],
)
@simulated()
async def test_the_control_port_refuses_what_it_does_not_understand(
    cluster: Cluster, method: str, path: str, body: Any, status: int, words: str
) -> None:
    found, shown = await control(cluster, method, path, body)

    assert (found, words in shown["message"]) == (status, True)


@simulated(tls=True)
async def test_a_certificate_that_has_expired_is_shown_on_the_same_port_and_a_good_one_again(cluster: Cluster) -> None:
    trusting = ssl.create_default_context(cadata=cluster.fleet.authority.decode())
    url = f"{cluster.member.url}/readyz"

    await cluster.fleet.set_fault("member1", "expired")
    with pytest.raises(aiohttp.ClientConnectorCertificateError, match="certificate has expired"):
        await cluster.session.get(url, ssl=trusting)

    await cluster.fleet.set_fault("member1", "none")
    async with cluster.session.get(url, ssl=trusting) as response:
        assert response.status == 200


@simulated()
async def test_plain_http_has_no_certificate_that_could_expire(cluster: Cluster) -> None:
    with pytest.raises(BadRequest, match="start it with --tls"):
        await cluster.fleet.set_fault("member1", "expired")

    assert (await cluster.ask("GET", "/readyz")).status == 200

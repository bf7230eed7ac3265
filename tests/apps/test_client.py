"""How members are reached: certificates, proxies, and what trouble with them means."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from apps.worker.clock import monotonic_seconds
from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.apimachinery.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    RETAIN_REPLICAS_LABEL,
    RETAIN_REPLICAS_LABEL_VALUE,
)
from controlplane.clusters.drift import differences
from controlplane.clusters.questions import Answer, Discard, Ensure, Probe, Target, retaining
from controlplane.controllers import CONTROLLERS
from controlplane.engine import run
from controlplane.engine.controller import Controller
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.cluster import SecretReference
from tests.apps.proxies import ANYWHERE, HOST, http_proxy, socks_proxy
from tests.builders.objects import START, cluster
from tests.builders.templates import secret
from tests.core.fleet_story import FAILOVER

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DETECTING = ("cluster_status", "fleet", "cluster_taints", "probes")


def on_a_fleet(test: Callable[[Fleet, MemberClient], Awaitable[None]]) -> Callable[[], None]:
    """Run a test with one member that serves https, and a client."""

    async def within() -> None:
        async with Fleet(members=("member1",), ready_after=0.0, tls=True) as fleet:
            client = MemberClient(ANYWHERE)
            try:
                await test(fleet, client)
            finally:
                await client.close()

    def run_it() -> None:
        asyncio.run(within())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__  # its parameters are none: pytest sees no fixtures
    return run_it


def target(fleet: Fleet, **more: Any) -> Target:
    member = fleet["member1"]
    return Target("member1", member.url, member.config.token, fleet.authority.decode(), **more)


class Detection:
    """Probes over HTTP and what they lead to, in a store of memory."""

    def __init__(self, fleet: Fleet, client: MemberClient) -> None:
        self.now = START
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.controllers: list[Controller] = [one for one in CONTROLLERS if one.name in DETECTING]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        member = fleet["member1"]
        data = {"token": member.config.token, "caBundle": fleet.authority.decode()}
        credentials = secret("member1", data, namespace="karmada-cluster")
        reference = SecretReference("karmada-cluster", "member1")
        joined = cluster("member1", ready="", established=False).with_spec(
            api_endpoint=member.url, secret_ref=reference
        )
        self.store.create(credentials, joined)

    def _answer(self, questions: Any) -> list[Answer | None]:
        async def probe(question: Probe | None) -> Answer | None:
            return None if question is None else await self.client.probe(question)

        async def all_of_them() -> list[Answer | None]:
            return await asyncio.gather(*map(probe, questions))

        return asyncio.run_coroutine_threadsafe(all_of_them(), self.loop).result(30)

    async def seconds(self, seconds: int) -> None:
        """Let time pass, second by second."""
        world = run.World(answer=self._answer)
        for _ in range(seconds):
            self.now += timedelta(seconds=1)
            await asyncio.to_thread(run.run_until_idle, self.controllers, self.store, FAILOVER, world=world)

    def said(self, type_: str) -> tuple[str, str, str]:
        found = condition(self.cluster.status.conditions, type_)
        assert found is not None, f"nothing is said about {type_}"
        return found.status, found.reason, found.message

    @property
    def cluster(self) -> Any:
        ref = Ref(kinds.CLUSTER, "", "member1")
        return self.store.get([ref])[ref]


@on_a_fleet
async def test_a_late_answer_counts_until_the_probes_time_is_over(fleet: Fleet, client: MemberClient) -> None:
    await fleet.set_fault("member1", "slow", seconds=0.4)

    slow = await client.probe(Probe(target(fleet), seconds=20))
    hanging = await client.probe(Probe(target(fleet), seconds=0.1))

    assert slow.code == 200
    assert (hanging.code, hanging.problem) == (0, "no answer within 0.1 s")


@on_a_fleet
async def test_credentials_that_change_break_off_no_request_that_is_under_way(
    fleet: Fleet, client: MemberClient
) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    now = target(fleet)
    for later in (replace(now, token="renewed"), replace(now, ca="", insecure=True)):
        await fleet.set_fault("member1", "slow", seconds=0.4)
        under_way = [asyncio.create_task(client.ensure(Ensure(now, manifest, overwrite=True))) for _ in range(2)]
        await asyncio.sleep(0.1)

        after = await client.ensure(Ensure(later, manifest, overwrite=True))

        assert [answer.problem for answer in await asyncio.gather(*under_way) if not answer.ok] == []
        assert after.code == (401 if later.token != now.token else 200), after.problem
        await fleet.set_fault("member1", "none")


@on_a_fleet
async def test_hundreds_that_never_answer_are_asked_at_once_and_delay_no_other(
    fleet: Fleet, client: MemberClient
) -> None:
    """A round of them takes as long as one, and who answers is heard while they are silent."""
    silent, seconds, patience = 200, 3.0, 600.0
    done = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    hole = await asyncio.start_server(say_nothing, HOST, backlog=silent)
    port = hole.sockets[0].getsockname()[1]
    lost = [Target(f"lost{n}", f"http://{HOST}:{port}", "token") for n in range(silent)]
    waiting = [asyncio.create_task(client.probe(Probe(one, seconds=patience))) for one in lost]

    well = await client.probe(Probe(target(fleet), seconds=patience))
    heard_before = not any(one.done() for one in waiting)
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    asked_at = monotonic_seconds()
    answers = await asyncio.gather(*(client.probe(Probe(one, seconds=seconds)) for one in lost))

    done.set()
    hole.close()
    assert (well.code, heard_before) == (200, True)
    assert {(one.code, one.problem) for one in answers} == {(0, "no answer within 3 s")}
    assert monotonic_seconds() - asked_at < 10 * seconds, "not one after the other"


async def _closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.close()


async def _resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


@on_a_fleet
async def test_why_a_member_is_not_reached_is_said_in_words(fleet: Fleet, client: MemberClient) -> None:
    async def problem(endpoint: str) -> str:
        return (await client.probe(Probe(Target("member1", endpoint, "token"), seconds=20))).problem

    async with (
        await asyncio.start_server(_closes, HOST) as closing,
        await asyncio.start_server(_resets, HOST) as resetting,
    ):
        ports = [one.sockets[0].getsockname()[1] for one in (closing, resetting)]
        closed, was_reset = [await problem(f"http://{HOST}:{port}") for port in ports]

    assert closed == "the member closed the connection without an answer"
    assert was_reset == "the member reset the connection"
    assert await problem(f"http://{HOST}:{ports[0]}") == f"the connection was refused by {HOST}:{ports[0]}"
    assert await problem("http://member1.invalid:6443") == "the host name member1.invalid cannot be resolved"


@on_a_fleet
async def test_a_member_whose_certificate_has_expired_is_not_lost_and_says_what_is_wrong(
    fleet: Fleet, client: MemberClient
) -> None:
    detection = Detection(fleet, client)
    await detection.seconds(2)
    assert detection.said("Ready")[:2] == ("True", "ClusterReady")

    await fleet.set_fault("member1", "expired")
    await detection.seconds(120)

    status, reason, message = detection.said("Ready")
    assert (status, reason) == ("True", "CertificateExpired")
    assert "the certificate of the member has expired" in message
    assert detection.said("AccessLost")[:2] == ("True", "CertificateExpired")
    effects = {(one.key, one.effect) for one in detection.cluster.spec.taints}
    assert effects == {("failover.lifeboat.io/access-lost", "NoSchedule")}
    reported = [one for one in detection.store.list("Event") if one.reason == "CertificateExpired"]
    assert [one.type for one in reported] == ["Warning"]

    await fleet.set_fault("member1", "none")
    await detection.seconds(15)
    assert detection.said("Ready")[:2] == ("True", "ClusterReady")
    assert detection.said("AccessLost")[0] == "False"
    assert detection.cluster.spec.taints == ()


@on_a_fleet
async def test_a_certificate_of_another_authority_is_refused(fleet: Fleet, client: MemberClient) -> None:
    async with Fleet(members=("other",), tls=True) as other:
        stranger = Target("member1", fleet["member1"].url, ca=other.authority.decode())

        answer = await client.probe(Probe(stranger))

    assert (answer.code, answer.access, answer.reason) == (0, True, "CertificateRefused")


@on_a_fleet
async def test_an_http_proxy_gets_the_headers_and_the_member_is_reached(fleet: Fleet, client: MemberClient) -> None:
    async with http_proxy() as proxy:
        headers = {"X-Tenant": "blue", "Proxy-Authorization": "Bearer abc"}
        behind = target(fleet, proxy=f"http://{HOST}:{proxy.port}", proxy_headers=headers)

        probed = await client.probe(Probe(behind))
        listed = await client.list(behind, CONFIG_MAPS)
        assert not isinstance(listed, Answer), listed
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
        assert (await client.call(behind, "POST", CONFIG_MAPS, body=body)).code == 201
        async with aclosing(client.watch(behind, CONFIG_MAPS, since=listed[1], selector="")) as events:
            event, seen = await anext(events)

    assert probed.code == 200
    assert (event, seen["metadata"]["name"]) == ("ADDED", "one")
    assert len(proxy.asked) >= 3  # probes, work and watches have connections of their own
    for place, reported in proxy.asked:
        assert f"https://{place}" == fleet["member1"].url
        assert (reported["x-tenant"], reported["proxy-authorization"]) == ("blue", "Bearer abc")


@on_a_fleet
async def test_a_proxy_never_sees_what_lets_us_into_the_member(fleet: Fleet, client: MemberClient) -> None:
    async with http_proxy() as proxy:
        behind = target(fleet, proxy=f"http://{HOST}:{proxy.port}")

        answer = await client.call(behind, "GET", CONFIG_MAPS)

    assert answer.code == 200
    assert proxy.asked
    assert not [reported for _, reported in proxy.asked if behind.token in str(reported)]


@on_a_fleet
async def test_a_proxy_that_refuses_us_is_lost_access_and_one_that_cannot_connect_is_not(
    fleet: Fleet, client: MemberClient
) -> None:
    found = {}
    for said in ("407 Proxy Authentication Required", "403 Forbidden", "502 Bad Gateway"):
        async with http_proxy(answer=said) as proxy:
            answer = await client.probe(Probe(target(fleet, proxy=f"http://{HOST}:{proxy.port}")))
            found[said[:3]] = (answer.code, answer.access)
            assert said in answer.problem
    gone = await client.probe(Probe(target(fleet, proxy=f"http://{HOST}:{proxy.port}")))

    assert found == {"407": (0, True), "403": (0, True), "502": (0, False)}
    assert (gone.code, gone.access) == (0, False)


@on_a_fleet
async def test_a_socks_proxy_leads_to_the_member(fleet: Fleet, client: MemberClient) -> None:
    async with socks_proxy() as proxy:
        behind = target(fleet, proxy=f"socks5://{HOST}:{proxy.port}")

        answer = await client.probe(Probe(behind))

    assert answer.code == 200, answer
    assert [f"https://{place}" for place, _ in proxy.asked] == [fleet["member1"].url]
    gone = await client.probe(Probe(target(fleet, proxy=f"socks5://{HOST}:{proxy.port}", insecure=True)))
    assert (gone.code, gone.access) == (0, False)


def workload(image: str, **labels: str) -> dict[str, Any]:
    """Two replicas of something of ours, as a Work has it."""
    app = {"app": "web"}
    template = {"metadata": {"labels": app}, "spec": {"containers": [{"name": "web", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE, **labels}},
        "spec": {"replicas": 2, "selector": {"matchLabels": app}, "template": template},
    }


@on_a_fleet
async def test_a_workload_the_member_scales_keeps_its_replicas_where_its_label_says_so(
    fleet: Fleet, client: MemberClient
) -> None:
    member, where = target(fleet), "/apis/apps/v1/namespaces/default/deployments/web"
    for overwrite in (False, True):
        for labels, replicas in (({RETAIN_REPLICAS_LABEL: RETAIN_REPLICAS_LABEL_VALUE}, 5), ({}, 2)):
            first = await client.ensure(Ensure(member, workload("web:1", **labels), overwrite))
            assert first.ok, first.problem
            scaled = {"spec": {"replicas": 5}}
            patched = "application/merge-patch+json"
            assert (await client.call(member, "PATCH", f"{where}/scale", body=scaled, content_type=patched)).ok

            again = await client.ensure(Ensure(member, workload("web:2", **labels), overwrite))

            spec = again.body["spec"]
            assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (replicas, "web:2")
            await client.discard(Discard(member, workload("web:2")))


@on_a_fleet
async def test_whatever_kind_of_workload_an_autoscaler_scales_keeps_its_replicas(
    fleet: Fleet, client: MemberClient
) -> None:
    """Autoscalers scale StatefulSets as well. Each of their decisions would be put back."""
    member, where = target(fleet), "/apis/apps/v1/namespaces/default/statefulsets/web"
    made = workload("web:1", **{RETAIN_REPLICAS_LABEL: RETAIN_REPLICAS_LABEL_VALUE})
    database = {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": "web"}}
    for overwrite in (False, True):
        assert (await client.ensure(Ensure(member, database, overwrite))).ok
        patched = await client.call(
            member, "PATCH", where, body={"spec": {"replicas": 5}}, content_type="application/merge-patch+json"
        )
        assert not differences(retaining(database, patched.body), patched.body)

        again = await client.ensure(Ensure(member, database, overwrite))

        assert again.body["spec"]["replicas"] == 5
        await client.discard(Discard(member, database))


WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"


@on_a_fleet
async def test_an_object_is_removed_although_lifeboat_no_longer_has_the_definition_of_its_kind(
    fleet: Fleet, client: MemberClient
) -> None:
    member = target(fleet)
    metadata = {"name": "one", "namespace": "default", "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE}}
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": metadata}
    no_kind = await client.discard(Discard(member, widget))
    assert (no_kind.code, no_kind.ok) == (404, False)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client.call(member, "POST", definitions, body=WIDGET_DEFINITION)).ok
    assert (await client.call(member, "POST", WIDGETS, body=widget)).ok

    removed = await client.discard(Discard(member, widget))

    assert removed.code == 404, removed.problem
    assert (await client.call(member, "GET", f"{WIDGETS}/one")).code == 404


@on_a_fleet
async def test_an_object_of_an_unknown_kind_is_not_taken_for_gone_while_the_member_does_not_say_so(
    fleet: Fleet, client: MemberClient
) -> None:
    member = msgspec.structs.replace(target(fleet), token="revoked")
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "default"}}

    answer = await client.discard(Discard(member, widget))

    assert answer.code == 401


WIDGET_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}

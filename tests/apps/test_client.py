"""How members are reached: certificates, proxies, and what trouble with them means."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import aiohttp
import orjson
import pytest

from apps.clusters.client import MemberClient
from apps.runtime.clock import ticks
from apps.simulator.fleet import Fleet
from controlplane import kinds, run
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.controller import Controller
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.template import Template
from controlplane.members import Answer, Collect, Discard, Ensure, Probe, Target
from controlplane.memory import MemoryStore
from controlplane.meta import ObjectMeta, Ref, condition
from controlplane.names import MANAGED_LABEL, MANAGED_LABEL_VALUE, RETAIN_REPLICAS_LABEL, RETAIN_REPLICAS_LABEL_VALUE
from controlplane.settings import MemberSettings
from tests.apps.proxies import ANYWHERE, HOST, http_proxy, socks_proxy
from tests.core.fleet_story import FAILOVER, START, cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# Every address of this host, also the one that its own name resolves to.
EVERYWHERE_BUT_HERE = MemberSettings(refused_addresses=("0.0.0.0/1", "128.0.0.0/1", "::/0"))
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
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        meta = ObjectMeta(name="member1", namespace="karmada-cluster", uid="secret")
        secret = Template("v1", "Secret", meta, {"data": encoded})
        reference = SecretReference("karmada-cluster", "member1")
        joined = cluster("member1", ready="", established=False).with_spec(
            api_endpoint=member.url, secret_ref=reference
        )
        self.store.create(secret, joined)

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
            await asyncio.to_thread(run.work_off, self.controllers, self.store, FAILOVER, world=world)

    def said(self, type_: str) -> tuple[str, str, str]:
        found = condition(self.cluster.status.conditions, type_)
        assert found is not None, f"nothing is said about {type_}"
        return found.status, found.reason, found.message

    @property
    def cluster(self) -> Any:
        ref = Ref(kinds.CLUSTER, "", "member1")
        return self.store.get([ref])[ref]


@on_a_fleet
async def test_fault_6_a_late_answer_counts_until_the_probes_time_is_over(fleet: Fleet, client: MemberClient) -> None:
    await fleet.suffer("member1", "slow", seconds=0.4)

    slow = await client.probe(Probe(target(fleet), seconds=20))
    hanging = await client.probe(Probe(target(fleet), seconds=0.1))

    assert slow.code == 200
    assert (hanging.code, hanging.problem) == (0, "no answer within 0.1 s")


@on_a_fleet
async def test_hundreds_that_never_answer_are_asked_at_once_and_delay_nobody(
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
    asked_at = ticks()
    answers = await asyncio.gather(*(client.probe(Probe(one, seconds=seconds)) for one in lost))

    done.set()
    hole.close()
    assert (well.code, heard_before) == (200, True)
    assert {(one.code, one.problem) for one in answers} == {(0, "no answer within 3 s")}
    assert ticks() - asked_at < 10 * seconds, "not one after the other"


@on_a_fleet
async def test_fault_7_a_member_whose_certificate_has_expired_is_not_lost_and_says_what_is_wrong(
    fleet: Fleet, client: MemberClient
) -> None:
    detection = Detection(fleet, client)
    await detection.seconds(2)
    assert detection.said("Ready")[:2] == ("True", "ClusterReady")

    await fleet.suffer("member1", "expired")
    await detection.seconds(120)

    status, reason, message = detection.said("Ready")
    assert (status, reason) == ("True", "CertificateExpired")
    assert "certificate has expired" in message
    assert detection.said("AccessLost")[:2] == ("True", "CertificateExpired")
    effects = {(one.key, one.effect) for one in detection.cluster.spec.taints}
    assert effects == {("failover.lifeboat.io/access-lost", "NoSchedule")}
    told = [one for one in detection.store.list("Event") if one.reason == "CertificateExpired"]
    assert [one.type for one in told] == ["Warning"]

    await fleet.suffer("member1", "none")
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
async def test_an_http_proxy_is_told_the_headers_and_the_member_is_reached(fleet: Fleet, client: MemberClient) -> None:
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
    for place, told in proxy.asked:
        assert f"https://{place}" == fleet["member1"].url
        assert (told["x-tenant"], told["proxy-authorization"]) == ("blue", "Bearer abc")


@on_a_fleet
async def test_a_proxy_never_sees_what_lets_us_into_the_member(fleet: Fleet, client: MemberClient) -> None:
    async with http_proxy() as proxy:
        behind = target(fleet, proxy=f"http://{HOST}:{proxy.port}")

        answer = await client.call(behind, "GET", CONFIG_MAPS)

    assert answer.code == 200
    assert proxy.asked
    assert not [told for _, told in proxy.asked if behind.token in str(told)]


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


class Listener:
    """An HTTP server of somebody else, with what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.port = 0

    async def __aenter__(self) -> Listener:
        self.server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.decode().splitlines()[0])
        writer.write(self.answer)
        await writer.drain()
        writer.close()


SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default", "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE}},
    "data": {"password": "aHVudGVyMg=="},
}


def on_a_client(test: Callable[[MemberClient], Awaitable[None]], settings: MemberSettings = ANYWHERE) -> None:
    """Run a test with a client alone."""

    async def within() -> None:
        client = MemberClient(settings)
        try:
            await test(client)
        finally:
            await client.close()

    asyncio.run(within())


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_never_followed_whatever_is_asked(status: int) -> None:
    """A 307 would carry a whole Secret to a host of the redirecting server's choice."""

    async def story(client: MemberClient) -> None:
        async with Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as stranger:
            place = f"Location: http://{HOST}:{stranger.port}/elsewhere\r\nContent-Length: 0\r\n\r\n"
            async with Listener(f"HTTP/1.1 {status} Moved\r\n{place}".encode()) as member:
                where = Target("member1", f"http://{HOST}:{member.port}", "token")
                answers = [
                    await client.probe(Probe(where)),
                    await client.ensure(Ensure(where, SECRET, overwrite=True)),
                    await client.ensure(Ensure(where, SECRET, overwrite=False)),
                    await client.discard(Discard(where, SECRET)),
                    await client.collect(Collect(where, resources=True)),
                ]
                listed = await client.list(where, CONFIG_MAPS)
                assert isinstance(listed, Answer)
                with pytest.raises(OSError, match="redirects of members are not followed"):
                    await anext(client.watch(where, CONFIG_MAPS, since="1", selector=""))

                for answer in (*answers, listed):
                    assert (answer.code, answer.access, answer.reason) == (status, True, "Redirected")
                    assert "redirects of members are not followed" in answer.problem
                assert len(member.asked) >= len(answers) + 2
            assert stranger.asked == []

    on_a_client(story)


def test_an_address_that_must_not_be_called_is_refused_before_anything_is_sent() -> None:
    async def story(client: MemberClient) -> None:
        async with Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as member:
            targets = [
                Target("literal", f"http://{HOST}:{member.port}"),
                Target("name", f"http://localhost:{member.port}"),
                Target("resolved", f"http://{socket.gethostname()}:{member.port}"),
                Target("mapped", f"http://[::ffff:{HOST}]:{member.port}"),
                Target("proxy", "http://member.example", proxy=f"http://{HOST}:{member.port}"),
                Target("socks", "http://member.example", proxy=f"socks5://{HOST}:{member.port}"),
                Target("named-socks", "http://member.example", proxy=f"socks5://{socket.gethostname()}:{member.port}"),
            ]
            for one in targets:
                answer = await client.probe(Probe(one, seconds=5))

                assert (answer.code, answer.access, answer.reason) == (0, True, "AddressRefused"), one
                assert "must not be called" in answer.problem
                with pytest.raises(OSError, match="must not be called"):
                    await anext(client.watch(one, CONFIG_MAPS, since="1", selector=""))
            assert member.asked == []

    on_a_client(story, EVERYWHERE_BUT_HERE)


def test_a_name_that_moves_to_a_refused_address_is_not_called_there() -> None:
    """DNS rebinding: what counts is the address of the connection, not what the name was resolved to before."""

    async def story(client: MemberClient) -> None:
        found = client._resolver
        found._resolver = answers = Answers(["10.9.8.7"])
        assert [one["host"] for one in await found.resolve("member.example")] == ["10.9.8.7"]

        answers.addresses = ["169.254.169.254"]
        answer = await client.probe(Probe(Target("member1", "http://member.example"), seconds=5))
        assert (answer.reason, answers.asked) == ("AddressRefused", 2)
        assert "169.254.0.0/16" in answer.problem

        answers.addresses = ["169.254.169.254", "10.9.8.7", "::ffff:127.0.0.1"]
        assert [one["host"] for one in await found.resolve("member.example")] == ["10.9.8.7"]

    on_a_client(story, MemberSettings())


class Answers(aiohttp.ThreadedResolver):
    """A DNS server that answers as it likes."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__()
        self.addresses = addresses
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
        self.asked += 1
        rest = {"hostname": host, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        return [{"host": one, **rest} for one in self.addresses]


def twice(name: str = "A", *, image: str = "web:1", **labels: str) -> dict[str, Any]:
    """The workload of a chart that names an env variable twice, and a second one."""
    made = workload(image, **labels)
    env = [{"name": "A", "value": "1"}, {"name": name, "value": "2"}, {"name": "C", "value": "3"}]
    made["spec"]["template"]["spec"]["containers"][0]["env"] = env
    return made


@on_a_fleet
async def test_a_workload_that_cannot_be_applied_is_created_and_updated(fleet: Fleet, client: MemberClient) -> None:
    member, where = target(fleet), "/apis/apps/v1/namespaces/default/deployments/web"
    for overwrite in (False, True):
        first = await client.ensure(Ensure(member, twice(team="a"), overwrite))
        assert (first.code, "duplicate entries for key" in first.note) == (201, True), first.problem
        theirs = {"metadata": {"labels": {"theirs": "yes"}, "annotations": {"seen": "yes"}, "finalizers": ["x.io/y"]}}
        assert (await client.call(member, "PATCH", where, body=theirs, content_type="application/merge-patch+json")).ok

        again = await client.ensure(Ensure(member, twice(image="web:2", team="b"), overwrite))

        assert (again.code, "duplicate entries for key" in again.note) == (200, True), again.problem
        container, metadata = again.body["spec"]["template"]["spec"]["containers"][0], again.body["metadata"]
        assert (container["image"], len(container["env"])) == ("web:2", 3)
        assert (metadata["labels"]["team"], metadata["labels"]["theirs"], metadata["finalizers"]) == (
            "b",
            "yes",
            ["x.io/y"],
        )
        assert metadata["annotations"]["seen"] == "yes"
        nothing = {"metadata": {"finalizers": None}}
        assert (await client.call(member, "PATCH", where, body=nothing, content_type="application/merge-patch+json")).ok
        await client.discard(Discard(member, workload("web:2")))


@on_a_fleet
async def test_what_a_mended_workload_no_longer_has_goes_although_it_was_once_created(
    fleet: Fleet, client: MemberClient
) -> None:
    member = target(fleet)
    assert (await client.ensure(Ensure(member, twice(), False))).code == 201
    mended = twice("B")
    mended["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]

    for _ in range(2):
        applied = await client.ensure(Ensure(member, mended, False))

        assert (applied.code, applied.note) == (200, "")
        assert applied.body["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
        ours = [entry for entry in applied.body["metadata"]["managedFields"] if entry["manager"] == "lifeboat"]
        assert [entry["operation"] for entry in ours] == ["Apply"]


@on_a_fleet
async def test_what_is_not_ours_is_not_updated_where_it_cannot_be_applied(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    theirs = twice()
    theirs["metadata"].pop("labels")
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert (await client.call(member, "POST", path, body=theirs)).ok

    refused = await client.ensure(Ensure(member, twice(image="web:2"), False))

    assert (refused.code, "not managed by us" in refused.problem) == (409, True)


def test_a_large_object_is_given_more_time() -> None:
    """A loaded member takes longer for a CustomResourceDefinition of 300 KB than for a small object."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        await asyncio.sleep(1.0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def story(client: MemberClient) -> None:
        server = await asyncio.start_server(serve, HOST, 0, limit=1_000_000)
        where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")

        small = await client.call(where, "PATCH", "/x", body={"a": "b"}, seconds=0.3)
        large = await client.call(where, "PATCH", "/x", body={"a": "b" * 300_000}, seconds=0.3)

        server.close()
        assert (small.code, large.code) == (0, 200), large.problem

    on_a_client(story)


@pytest.mark.parametrize("release", [False, True])
def test_only_what_is_ours_is_deleted_or_released(release: bool) -> None:
    async def story(fleet: Fleet, client: MemberClient) -> None:
        member = target(fleet)
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "default"}}
        assert (await client.call(member, "POST", CONFIG_MAPS, body=theirs)).code == 201
        before = (await client.call(member, "GET", f"{CONFIG_MAPS}/theirs")).body

        answer = await client.discard(Discard(member, theirs, release=release))

        assert answer.code == 404
        assert (await client.call(member, "GET", f"{CONFIG_MAPS}/theirs")).body == before

    on_a_fleet(story)()


def test_an_object_made_anew_while_it_was_being_deleted_stays() -> None:
    """The uid that was looked at is a precondition of the deletion."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = head.lower().partition("content-length:")[2].split()
            asked.append((head.split()[0], await reader.readexactly(int(length[0]) if length else 0)))
            body = orjson.dumps({"metadata": {"uid": "seen", "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE}}})
            status = "200 OK" if asked[-1][0] == "GET" else "409 Conflict"
            told = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(told.encode() + body)

    async def story(client: MemberClient) -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}

        answer = await client.discard(Discard(where, manifest))

        server.close()
        assert (answer.code, [method for method, _ in asked]) == (409, ["GET", "DELETE"])
        sent = orjson.loads(asked[1][1])
        assert (sent["preconditions"], sent["propagationPolicy"]) == ({"uid": "seen"}, "Background")

    asked: list[tuple[str, bytes]] = []
    on_a_client(story)

"""What the client of members does not do, whatever a member answers: follow, call, wait and delete too much."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from controlplane.apimachinery.names import MANAGED_LABEL, MANAGED_LABEL_VALUE
from controlplane.clusters.conditional_apply import NO_VERSION
from controlplane.clusters.questions import Answer, Collect, Discard, Ensure, Probe, Target
from controlplane.settings import MemberSettings
from tests.apps.proxies import ANYWHERE, HOST
from tests.apps.test_client import CONFIG_MAPS, on_a_fleet, target, workload

# Every address of this host, also the one that its own name resolves to.
EVERYWHERE_BUT_HERE = MemberSettings(refused_addresses=("0.0.0.0/1", "128.0.0.0/1", "::/0"))


class Listener:
    """An HTTP server of another owner, with what it was asked."""

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
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.splitlines()[0])
        length = head.lower().partition("content-length:")[2].split()
        await reader.readexactly(int(length[0]) if length else 0)
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
            place = (
                f"Location: http://{HOST}:{stranger.port}/elsewhere\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
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


def test_a_name_that_moves_to_a_refused_address_is_not_called_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: what counts is the address of the connection, not what the name was resolved to before."""
    answers = Answers(["10.9.8.7"])
    monkeypatch.setattr(socket, "getaddrinfo", answers.look_up)

    async def story(client: MemberClient) -> None:
        found = client._resolver
        assert [one["host"] for one in await found.resolve("member.example")] == ["10.9.8.7"]

        answers.addresses = ["169.254.169.254"]
        answer = await client.probe(Probe(Target("member1", "http://member.example"), seconds=5))
        assert (answer.reason, answers.asked) == ("AddressRefused", 2)
        assert "169.254.0.0/16" in answer.problem

        answers.addresses = ["169.254.169.254", "10.9.8.7", "::ffff:127.0.0.1"]
        assert [one["host"] for one in await found.resolve("member.example")] == ["10.9.8.7"]

    on_a_client(story, MemberSettings())


class Answers:
    """A DNS server that answers as it likes."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked = 0

    def look_up(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        assert host == "member.example"
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, port)) for one in self.addresses]


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

    assert (refused.code, "not managed by Lifeboat" in refused.problem) == (409, True)


def test_fields_are_taken_over_although_the_object_changes_meanwhile() -> None:
    """The member answers the takeover with a conflict. It is tried again at the version that the next apply reports."""
    answers, seen = iter(((200, "1"), (409, ""), (200, "2"), (200, "3"), (200, "4"))), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
            sent = await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
            kind = "apply" if "application/apply-patch" in head else "merge"
            seen.append((kind, orjson.loads(sent)["metadata"].get("resourceVersion", "")))
            code, version = next(answers)
            update = {"manager": "lifeboat", "operation": "Update" if int(version or 0) < 4 else "Apply"}
            held = {"uid": "uid", "resourceVersion": version, "managedFields": [{**update, "fieldsV1": {"f:data": {}}}]}
            body = orjson.dumps({"metadata": held})
            writer.write(
                b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (code, len(body), body)
            )

    async def story(client: MemberClient) -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")

        answer = await client.ensure(Ensure(where, SECRET, overwrite=True))

        server.close()
        assert (answer.code, answer.body["metadata"]["resourceVersion"]) == (200, "4")

    on_a_client(story)
    assert seen == [("apply", NO_VERSION), ("merge", "1"), ("apply", ""), ("merge", "2"), ("apply", "")]


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


def test_the_time_for_a_large_object_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.clusters.client.LONGEST_SECONDS", 0.5)

    async def read_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()

    async def story(client: MemberClient) -> None:
        server = await asyncio.start_server(read_only, HOST, 0)
        where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")

        answer = await client.call(where, "PATCH", "/x", body={"a": "b" * 50_000}, seconds=0.3)

        server.close()
        assert (answer.code, answer.problem) == (0, "no answer within 0.5 s")

    on_a_client(story)


@pytest.mark.parametrize("labels", [{}, {MANAGED_LABEL: "another"}, {"example.io/managed": MANAGED_LABEL_VALUE}])
@pytest.mark.parametrize("release", [False, True])
def test_only_what_is_ours_is_deleted_or_released(release: bool, labels: dict[str, str]) -> None:
    async def story(fleet: Fleet, client: MemberClient) -> None:
        member = target(fleet)
        meta = {"name": "theirs", "namespace": "default", "labels": labels}
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        assert (await client.call(member, "POST", CONFIG_MAPS, body=theirs)).code == 201
        before = (await client.call(member, "GET", f"{CONFIG_MAPS}/theirs")).body

        answer = await client.discard(Discard(member, theirs, release=release))

        assert answer.code == 404
        assert (await client.call(member, "GET", f"{CONFIG_MAPS}/theirs")).body == before

    on_a_fleet(story)()


def test_an_object_recreated_while_it_was_being_deleted_stays() -> None:
    """The uid that was looked at is a precondition of the deletion."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = head.lower().partition("content-length:")[2].split()
            asked.append((head.split()[0], await reader.readexactly(int(length[0]) if length else 0)))
            body = orjson.dumps({"metadata": {"uid": "seen", "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE}}})
            status = "200 OK" if asked[-1][0] == "GET" else "409 Conflict"
            reported = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(reported.encode() + body)

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


def test_an_object_that_another_client_creates_meanwhile_is_not_updated() -> None:
    """The object cannot be applied, and then another client has created it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = head.lower().partition("content-length:")[2].split()
            await reader.readexactly(int(length[0]) if length else 0)
            methods.append(head.split()[0])
            status, body = answers[len(methods) - 1]
            text = orjson.dumps(body)
            line = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
            writer.write(line.encode() + text)

    async def story(client: MemberClient) -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")

        answer = await client.ensure(Ensure(where, workload("web:2"), overwrite=False))

        server.close()
        assert (answer.code, answer.reason, methods) == (409, "NotOurs", ["PATCH", "GET"])

    unapplicable = {"kind": "Status", "message": '.spec.env: duplicate entries for key [name="A"]', "code": 500}
    answers: list[tuple[str, dict[str, Any]]] = [
        ("500 Internal Server Error", unapplicable),
        ("200 OK", {"kind": "Deployment", "metadata": {"name": "web", "uid": "theirs"}}),
    ]
    methods: list[str] = []
    on_a_client(story)


@on_a_fleet
async def test_an_object_that_is_released_stays_without_our_marks(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    kept = {"work.karmada.io/name": "w", "example.io/own": "x"}
    ours = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours", "namespace": "default"}}
    ours["metadata"] |= {"labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE}, "annotations": kept}  # type: ignore[operator]  # a dict
    assert (await client.ensure(Ensure(member, ours, overwrite=False))).ok

    assert (await client.discard(Discard(member, ours, release=True))).ok

    left = (await client.call(member, "GET", f"{CONFIG_MAPS}/ours")).body["metadata"]
    assert (left.get("labels") or {}, left["annotations"]) == ({}, {"example.io/own": "x"})


@on_a_fleet
async def test_a_foreign_object_is_not_applied_over(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "default"}}
    assert (await client.call(member, "POST", CONFIG_MAPS, body=theirs)).code == 201

    answer = await client.ensure(Ensure(member, {**theirs, "data": {"a": "b"}}, overwrite=False))

    assert (answer.code, answer.reason) == (409, "NotOurs")
    assert "data" not in (await client.call(member, "GET", f"{CONFIG_MAPS}/theirs")).body

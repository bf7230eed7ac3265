"""The proxy to members: clusters/<name>/proxy/… [proxy-to-members]."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apps.simulator.members import FleetProcess, start_fleet_process
from apps.simulator.tls import Authority
from tests.api.raw_member import BURST, HTML, RawMember, raw_member
from tests.api.roles import bind, user
from tests.api.server import Client, Server
from tests.api.test_audit import recorded
from tests.processes import until

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECRETS = "/api/v1/namespaces/karmada-cluster/secrets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHOAMI = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
}


SESSION = """
from django.contrib import auth
from django.contrib.sessions.backends.db import SessionStore
user, session = auth.get_user_model().objects.get(username="admin"), SessionStore()
session[auth.SESSION_KEY], session[auth.HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
session[auth.BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session.create()
print(session.session_key)"""


def proxy(cluster: str, path: str) -> str:
    return f"{CLUSTERS}/{cluster}/proxy{path}"


def join(api: Client, name: str, url: str, *, token: str = "impersonates", **spec: Any) -> None:
    """Create a Cluster and the Secret of its impersonator. `token` "": without that Secret."""
    reference = {"namespace": "karmada-cluster", "name": f"{name}-impersonator"}
    data = {"token": base64.b64encode(token.encode()).decode()}
    if token:
        assert api.post(SECRETS, {"metadata": {"name": reference["name"]}, "data": data}).status == 201
        spec["impersonatorSecretRef"] = reference
    body = {"metadata": {"name": name}, "spec": {"syncMode": "Push", "apiEndpoint": url, **spec}}
    answer = api.post(CLUSTERS, body)
    assert answer.status == 201, answer.body


@pytest.fixture(scope="module")
def fleet(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    """A simulated member `simulated`, joined to the server, with the pod web."""
    with start_fleet_process(tmp_path_factory.mktemp("fleet"), members=["simulated"], ready_after=0.1) as running:
        known = running.member("simulated")
        api = server.client()
        join(api, "simulated", known["url"], token=known["token"])
        assert api.post(proxy("simulated", "/api/v1/namespaces/default/pods"), POD).status == 201
        yield running


@pytest.fixture(scope="module")
def raw(server: Server) -> Iterator[RawMember]:
    """A member `raw` that records what it gets."""
    with raw_member() as member:
        join(server.client(), "raw", member.url)
        yield member


def test_every_verb_reaches_the_member_and_the_caller_is_known_there(api: Client, fleet: FleetProcess) -> None:
    maps = proxy("simulated", "/api/v1/namespaces/default/configmaps")

    assert api.post(maps, {"metadata": {"name": "a"}, "data": {"k": "v"}}).status == 201
    assert api.patch(f"{maps}/a", {"data": {"k": "w"}}).document["data"] == {"k": "w"}
    found = api.get(f"{maps}/a").document
    assert api.put(f"{maps}/a", {**found, "data": {"k": "x"}}).document["data"] == {"k": "x"}
    assert [item["data"] for item in api.get(maps, labelSelector="!none").document["items"]] == [{"k": "x"}]
    assert api.delete(f"{maps}/a").status == 200
    assert api.get(f"{maps}/a").document["reason"] == "NotFound"
    who = api.post(proxy("simulated", "/apis/authentication.k8s.io/v1/selfsubjectreviews"), WHOAMI)
    assert who.document["status"]["userInfo"]["username"] == "admin"
    assert who.document["status"]["userInfo"]["groups"] == ["system:masters", "system:authenticated"]


def test_a_watch_of_a_member_is_streamed(api: Client, fleet: FleetProcess) -> None:
    maps = proxy("simulated", "/api/v1/namespaces/default/configmaps")

    with api.watch(maps, fieldSelector="metadata.name=later") as stream:
        assert stream.status == 200
        api.post(maps, {"metadata": {"name": "later"}})
        assert stream.next()["object"]["metadata"]["name"] == "later"


def test_the_member_gets_no_credentials_of_the_caller(api: Client, raw: RawMember) -> None:
    words = {
        "Authorization": f"Bearer {api.token}",
        "Cookie": "sessionid=secret",
        "Impersonate-User": "eva",
        "Impersonate-Group": "system:masters",
        "X-Remote-User": "root",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "X-Kept": "1",
        "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io",
        "Accept": "application/vnd.kubernetes.protobuf",
    }
    path = "/api/v1/namespaces/default/configmaps/a%2Fb?x=%20y&x=z"

    assert api.send("GET", proxy("raw", path), None, words).status == 200

    seen = raw.seen[-1]
    assert seen.line == f"GET {path} HTTP/1.1"
    assert seen.headers["authorization"] == ["Bearer impersonates"]
    assert seen.headers["impersonate-user"] == ["eva"]
    assert seen.headers["impersonate-group"] == ["system:masters"]
    assert seen.headers["sec-websocket-protocol"] == ["v5.channel.k8s.io"]
    assert seen.headers["x-kept"] == ["1"]
    assert seen.headers["accept"] == ["application/vnd.kubernetes.protobuf"]
    assert not {"cookie", "x-remote-user", "x-hop", "user-agent"} & set(seen.headers)


def test_bodies_are_sent_as_they_come(api: Client, raw: RawMember) -> None:
    large = b"x" * 8 * 1024 * 1024  # more than the control plane itself accepts

    headers = {"Authorization": f"Bearer {api.token}", "Content-Encoding": "gzip", "Content-Type": "text/odd"}
    assert api.send("POST", proxy("raw", "/upload"), large, headers).status == 200
    assert raw.seen[-1].body == large
    assert raw.seen[-1].headers["content-encoding"] == ["gzip"]
    assert raw.seen[-1].headers["content-type"] == ["text/odd"]
    chunks = (part for part in (b"one", b"two"))
    connection = api._connection
    connection.request("PUT", proxy("raw", "/upload"), chunks, headers, encode_chunked=True)
    assert connection.getresponse().read() == b"{}"
    assert raw.seen[-1].body == b"onetwo"


def test_a_browser_gets_pages_of_members_in_a_sandbox(api: Client, raw: RawMember) -> None:
    answer = api.get(proxy("raw", "/page"))

    assert answer.body == HTML
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["x-content-type-options"] == "nosniff"
    hostile = {"set-cookie", "x-accel-redirect", "access-control-allow-origin", "clear-site-data"}
    assert not hostile & set(answer.headers)


def test_an_unchanged_answer_has_no_type_that_a_cache_would_take_over(api: Client, raw: RawMember) -> None:
    answer = api.get(proxy("raw", "/unchanged"))

    assert answer.status == 304
    assert answer.headers["etag"] == '"1"'
    assert not {"content-type", "content-disposition"} & set(answer.headers)


@pytest.mark.parametrize(
    ("path", "code", "cause"),
    [
        ("/redirect", 503, "redirects of members are not followed"),
        ("/refused", 503, "it refuses the token in the Secret of spec.impersonatorSecretRef"),
        ("/api/../secret", 400, 'contains "." or ".."'),
        ("/api/%2e%2E/secret", 400, 'contains "." or ".."'),
    ],
)
def test_what_must_not_be_passed_on_is_a_status_with_the_cause(
    api: Client, raw: RawMember, path: str, code: int, cause: str
) -> None:
    answer = api.get(proxy("raw", path))

    assert (answer.status, answer.document["kind"]) == (code, "Status")
    assert cause in answer.document["message"]


def test_a_part_of_an_answer_is_not_taken_for_the_whole(api: Client, raw: RawMember) -> None:
    with socket.create_connection(api.address) as connection:
        head = f"GET {proxy('raw', '/broken')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.token}\r\n\r\n"
        connection.sendall(head.encode())
        received = b""
        while data := connection.recv(65_536):  # the connection is closed
            received += data

    assert b"content-length: 100" in received
    assert received.endswith(b"only a part")


def test_a_cluster_that_cannot_be_used_is_refused_with_the_way_out(api: Client) -> None:
    join(api, "without", "https://127.0.0.1:1", token="")
    pull = {"metadata": {"name": "pulled"}, "spec": {"syncMode": "Pull"}}
    assert api.post(CLUSTERS, pull).status == 201
    join(api, "closed", "https://127.0.0.1:1")

    answers = {name: api.get(proxy(name, "/version")) for name in ("without", "pulled", "closed", "missing")}

    messages = {name: answer.document["message"] for name, answer in answers.items()}
    assert {name: answer.status for name, answer in answers.items()} == {
        "without": 400,
        "pulled": 400,
        "closed": 503,
        "missing": 404,
    }
    assert "has no spec.impersonatorSecretRef" in messages["without"]
    assert "manage.py join without --kubeconfig FILE" in messages["without"]
    assert "spec.syncMode Pull" in messages["pulled"]
    assert "cluster closed cannot be used through the proxy" in messages["closed"]
    assert messages["missing"] == 'clusters.cluster.karmada.io "missing" not found'


def test_rights_are_those_on_clusters_proxy_with_the_name_of_the_cluster(
    server: Server, api: Client, raw: RawMember
) -> None:
    rules = [
        {
            "apiGroups": ["cluster.karmada.io"],
            "resources": ["clusters/proxy"],
            "resourceNames": ["raw"],
            "verbs": ["get"],
        }
    ]
    assert api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "reads-raw"}, "rules": rules}).status == 201
    bind(api, "mia-reads", to={"kind": "Group", "name": "mias"}, roles=["reads-raw"])
    mia = user(server, "mia", groups=["mias", "others"])
    until(lambda: mia.get(proxy("raw", "/here")).status == 200, within=10)
    before = len(raw.seen)

    refused = [mia.post(proxy("raw", "/x"), {}), mia.get(proxy("missing", "/x")), mia.delete(proxy("raw", "/x"))]
    nobody = server.client("").get(proxy("raw", "/x"))

    assert [answer.status for answer in refused] == [403, 403, 403]
    assert refused[0].document["message"].startswith('clusters.cluster.karmada.io "raw" is forbidden: User "mia" ')
    assert 'cannot create resource "clusters/proxy" in API group' in refused[0].document["message"]
    assert nobody.status == 401
    assert len(raw.seen) == before
    assert raw.seen[-1].headers["impersonate-group"] == ["mias"]  # no binding names the group others


def test_a_page_of_another_site_reaches_no_member_with_the_session_of_a_user(server: Server, raw: RawMember) -> None:
    session = server.manage("shell", "-c", SESSION).splitlines()[-1]
    client = server.client("")

    def ask(method: str = "GET", **headers: str) -> int:
        words = {"Cookie": f"sessionid={session}"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return client.send(method, proxy("raw", "/page"), None, words).status

    assert ask() == ask(Sec_Fetch_Site="none") == 200
    assert ask(Sec_Fetch_Site="cross-site") == 403
    assert ask("POST") == 403  # without the CSRF token
    assert ask(Connection="Upgrade", Upgrade="websocket") == 403


def test_a_member_that_never_answers_costs_no_other_member_anything(
    server: Server, api: Client, raw: RawMember, fleet: FleetProcess
) -> None:
    most = 6  # of one member: the setting in tests/api/server.py
    with ThreadPoolExecutor(most + 1) as pool:
        began = time.monotonic()
        holes = [pool.submit(server.client().get, proxy("raw", "/hole")) for _ in range(most)]
        until(lambda: len([seen for seen in raw.seen if "/hole" in seen.line]) == most, within=10)

        one_more = api.get(proxy("raw", "/hole"))
        good = [api.get(proxy("simulated", "/version")).status for _ in range(20)]
        took = time.monotonic() - began
        answers = [hole.result() for hole in holes]

    assert one_more.status == 429
    assert "cluster raw has 6 requests through the proxy" in one_more.document["message"]
    (refused,) = recorded(server, code="429", name="raw")
    assert refused["user"]["username"] == "admin"
    assert good == [200] * 20
    assert took < 3  # the setting: a member has 3 s to begin its answer
    assert {answer.status for answer in answers} == {503}
    assert "has not answered within 3 s" in answers[0].document["message"]
    assert api.get(proxy("raw", "/free")).status == 200


def test_joining_creates_an_impersonator_in_the_member(server: Server, api: Client, tmp_path: Path) -> None:
    with start_fleet_process(tmp_path, members=["joined"], tls=True) as running:
        server.manage("join", "--from", str(tmp_path / "members.json"))

        spec = api.get(f"{CLUSTERS}/joined").document["spec"]
        who = api.post(proxy("joined", "/apis/authentication.k8s.io/v1/selfsubjectreviews"), WHOAMI)
        accounts = [entry["path"] for entry in running.requests("joined") if "serviceaccounts" in entry["path"]]

    assert spec["impersonatorSecretRef"] == {"namespace": "karmada-cluster", "name": "joined-impersonator"}
    assert who.document["status"]["userInfo"]["username"] == "admin"
    assert accounts[0].startswith("/api/v1/namespaces/karmada-cluster/serviceaccounts/karmada-impersonator")


# Connections that switch their protocol


async def _talk(server: Server, cluster: str, path: str, protocol: str, said: bytes) -> tuple[str | None, list[bytes]]:
    """Open a websocket through the proxy, say something, and return the subprotocol and what came back."""
    headers = {"Authorization": f"Bearer {server.token}"}
    url = f"http://127.0.0.1:{server.port}{proxy(cluster, path)}"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers, protocols=[protocol]) as ws:
        await ws.send_bytes(said)
        await ws.send_bytes(bytes((255, 0)))
        return ws.protocol, [message.data async for message in ws]


def test_a_websocket_is_passed_on(server: Server, fleet: FleetProcess) -> None:
    path = "/api/v1/namespaces/default/pods/web/exec?command=cat&command=-&stdin=true&stdout=true"

    protocol, heard = asyncio.run(_talk(server, "simulated", path, "v5.channel.k8s.io", b"\x00" + b"x" * 300_000))

    assert protocol == "v5.channel.k8s.io"
    assert heard[0] == b"\x01cat -\n"
    assert heard[1] == b"\x01" + b"x" * 300_000
    assert json.loads(heard[2][1:])["status"] == "Success"


def _switched(server: Server, path: str = "/switch", *, cluster: str = "raw") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    head = f"POST {proxy(cluster, path)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
    connection.sendall(f"{head}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\nearly ".encode())
    return connection


def _until_text(connection: socket.socket, text: bytes) -> bytes:
    received = b""
    while text not in received:
        data = connection.recv(65_536)
        assert data, received[-300:]
        received += data
    return received


def test_spdy_is_passed_on_as_bytes_in_both_directions(server: Server, raw: RawMember) -> None:
    sent = b"abc" * 1_000_000

    with _switched(server) as connection, ThreadPoolExecutor(1) as pool:
        received = _until_text(connection, b"EARLY ")
        sending = pool.submit(connection.sendall, sent + b"end")
        rest = _until_text(connection, b"END")
        sending.result()

    head, _, first = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"upgrade: SPDY/3.1" in head
    assert (first + rest) == b"hello EARLY " + sent.upper() + b"END"
    assert raw.seen[-1].headers["upgrade"] == ["SPDY/3.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_all_that_a_member_sends_before_it_closes_arrives_in_order(server: Server, api: Client, scheme: str) -> None:
    with raw_member(Authority().contexts().good if scheme == "https" else None) as member:
        join(api, f"bursts-{scheme}", member.url, insecureSkipTLSVerification=True)
        with _switched(server, "/burst", cluster=f"bursts-{scheme}") as connection:
            parts = list(iter(partial(connection.recv, 65_536), b""))  # until the connection is closed

    assert b"".join(parts).partition(b"\r\n\r\n")[2] == BURST


def test_a_side_that_does_not_read_stops_the_other_side(server: Server, raw: RawMember) -> None:
    most = 24 * 1024 * 1024  # the buffers of four sockets, and far less than a second of a flood

    def is_still(count: Callable[[], int]) -> bool:
        before = count()
        time.sleep(0.3)
        return count() == before > 0

    with socket.create_connection(("127.0.0.1", server.port)) as reader:
        head = (
            f"GET {proxy('raw', '/flood')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        )
        reader.sendall(head.encode())
        until(lambda: is_still(lambda: raw.flooded), within=15)
    assert raw.flooded < most

    sent = 0
    with _switched(server, "/deaf") as writer:
        _until_text(writer, b"\r\n\r\n")
        writer.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while sent < most:
                sent += writer.send(bytes(65_536))
    assert 0 < sent < most


def test_an_open_connection_ends_with_its_token_and_when_nothing_moves(server: Server, api: Client) -> None:
    with raw_member() as member:
        join(api, "ending", member.url)
        secret = server.manage("token", "create", "--user", "admin", "--name", "short")
        ended = {}
        for name, token in (("revoked", secret), ("idle", server.token)):
            head = f"POST {proxy('ending', '/switch')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            connection.sendall(f"{head}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n".encode())
            _until_text(connection, b"hello ")
            ended[name] = connection
        server.manage("token", "revoke", "--user", "admin", "--name", "short")
        began = time.monotonic()

        assert ended["revoked"].recv(10) == b""
        assert time.monotonic() - began < 4
        assert ended["idle"].recv(10) == b""  # the setting: after 6 s without a byte
        assert time.monotonic() - began < 10


def test_kubectl_follows_a_log_and_runs_a_command_through_the_proxy(
    server: Server, fleet: FleetProcess, kubectl: Path
) -> None:
    through = f"https://127.0.0.1:{server.tls_port}{proxy('simulated', '')}"
    command = [str(kubectl), f"--kubeconfig={server.kubeconfig}", f"--server={through}"]

    with subprocess.Popen([*command, "logs", "-f", "web"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in range(4)]
        following.terminate()
    said = subprocess.run(
        [*command, "exec", "-i", "web", "--", "cat", "-"], input="hello\n", capture_output=True, text=True, timeout=20
    )

    assert lines[:2] == ["web: this pod is simulated\n", "web: ready\n"]
    assert all(line.startswith("web: 20") for line in lines[2:])
    assert said.stdout == "cat -\nhello\n", said.stderr

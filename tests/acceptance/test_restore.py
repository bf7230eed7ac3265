"""The documented commands of backup and restore, run on real servers, and what becomes of clients and members then."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.development.supervise import lifetime, postgres
from apps.development.supervise.run_folder import RunFolder
from apps.simulator.members import FleetProcess, start_fleet_process
from tests.acceptance.live import QUICK
from tests.api.server import Client, free_ports
from tests.processes import PROJECT, Processes, manage, until

DOCUMENT = (PROJECT / "docs" / "operating.md").read_text()
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
EVENTS = "/api/v1/namespaces/default/events"
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-away/works"
WITHIN = 90.0
MEMBERS = ["member1", "member2"]
WRITING = {"POST", "PUT", "PATCH", "DELETE"}
NAME, PASSWORD = "admin", "correct-horse-battery"


def documented(first: str, last: str) -> str:
    """Return the commands of the chapter about backups, from the one that begins with a word to another."""
    chapter = DOCUMENT.split("## Backup and restore", 1)[1].split("\n## ", 1)[0]
    lines = re.findall(r"^    (.+)$", chapter, re.MULTILINE)
    places = [place for place, line in enumerate(lines) if line.split()[0] in (first, last)]
    return "\n".join(lines[places[0] : places[-1] + 1])


def programs() -> str:
    """Return the folder of pg_dump and its like: those of the server, else the machine's."""
    if (wheel := postgres.wheel_binaries()) is not None and (wheel / "pg_dump").exists():
        return str(wheel)
    if found := shutil.which("pg_dump"):
        return str(Path(found).parent)
    pytest.skip("pg_dump is not installed: neither in the wheel of PostgreSQL nor in PATH")


class Site:
    """The product on servers of its own, which a test may restore."""

    def __init__(self, folder: Path, fleet: FleetProcess, given: dict[str, str]) -> None:
        self.fleet = fleet
        self.folder = folder
        self.port, self.tls_port = free_ports(2)
        self.environment = {
            **os.environ,
            **given,
            **{f"LIFEBOAT_{name.upper()}": value for name, value in QUICK.items()},
            "LIFEBOAT_DEVELOPMENT": "true",
            "LIFEBOAT_HOME": str(folder / "home"),
            "LIFEBOAT_ADMIN_NAME": NAME,
            "LIFEBOAT_ADMIN_PASSWORD": PASSWORD,
            "PYTHONPATH": str(PROJECT),
            "PYTHONWARNINGS": "ignore",
            "SERVER_URL": given["DATABASE_URL"].replace("/lifeboat?", "/postgres?"),
            "PATH": f"{programs()}:{os.environ['PATH']}",
        }
        self.processes = Processes(folder / "logs", self.environment)
        self.token = ""

    def manage(self, *words: str) -> str:
        """Run a command of manage.py; return what it printed."""
        done = manage(*words, environment=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def shell(self, commands: str) -> None:
        """Run documented commands as an operator does."""
        done = subprocess.run(
            ["bash", "-euc", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, commands + done.stdout + done.stderr

    def start(self) -> None:
        """Start all processes, and return when the API answers."""
        self.manage("prepare")
        self.processes = Processes(self.folder / "logs", self.environment)
        self.processes.__enter__()
        ports = ["--port", str(self.port), "--tls-port", str(self.tls_port)]
        with self.processes.at_once():
            api = self.processes.start("api", ["manage.py", "serve", *ports])
            self.processes.worker()
            self.processes.beat()
            self.processes.members()
        until(self._answers, within=WITHIN, alive=api)

    def _answers(self) -> bool:
        try:
            return self.client("").get("/livez").status == 200
        except OSError:
            return False

    def stop(self) -> None:
        """End all processes."""
        self.processes.end_all()

    def client(self, token: str | None = None) -> Client:
        return Client(("127.0.0.1", self.port), self.token if token is None else token)

    def on(self, member: str, name: str) -> dict[str, Any]:
        """Return a Deployment as a member holds it, empty where it does not."""
        known = self.fleet.member(member)
        host, _, port = known["url"].rpartition("/")[2].rpartition(":")
        answer = Client((host, int(port)), known["token"]).get(f"{DEPLOYMENTS}/{name}")
        return answer.document if answer.status == 200 else {}

    def written(self, *, after: dict[str, int]) -> list[str]:
        """Return what was written to members after requests of these numbers."""
        return [
            f"{member}: {one['method']} {one['path']}"
            for member in MEMBERS
            for one in self.fleet.requests(member, after=after[member])
            if one["method"] in WRITING
        ]

    def numbers(self) -> dict[str, int]:
        """Return the number of the last request to each member."""
        return {member: self.fleet.requests(member)[-1]["number"] for member in MEMBERS}

    def probed(self, *, after: dict[str, int]) -> bool:
        """Test whether every member was probed several times after these requests."""
        return all(
            sum(one["path"].startswith("/readyz") for one in self.fleet.requests(member, after=after[member])) > 5
            for member in MEMBERS
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    home = RunFolder(tmp_path / "services")
    arguments = ["services", "--foreground", "--with-parent", "--throwaway", "--dir", str(home.root)]
    before = {name: os.environ.pop(name, None) for name in ("DATABASE_URL", "REDIS_URL")}  # servers of its own
    try:
        process, facts = lifetime.detach(home, arguments, within=300.0, say=lambda line: None)
    finally:
        os.environ.update({name: value for name, value in before.items() if value is not None})
    try:
        with start_fleet_process(tmp_path / "members", members=MEMBERS, ready_after=0.1) as fleet:
            made = Site(tmp_path, fleet, facts["environment"])
            try:
                yield made
            finally:
                made.processes.__exit__()
    finally:
        lifetime.down(home)
        process.wait(300)


def deployment(name: str, replicas: int) -> dict[str, Any]:
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


POLICY = yaml.safe_load("""
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
""")


def begin(site: Site) -> str:
    """Start, join the members, an agent's cluster too, and place a workload; return the agent's token."""
    site.start()
    site.token = site.manage("token", "create", "--user", NAME)
    site.manage("join", "--from", str(site.folder / "members" / "members.json"))
    site.manage("join", "away", "--pull")
    api = site.client()
    assert api.post(POLICIES, POLICY).status == 201
    assert api.post(DEPLOYMENTS, deployment("web", 2)).status == 201
    until(lambda: all(site.on(one, "web") for one in MEMBERS), within=WITHIN)
    return site.manage("token", "create", "--agent", "away")


def leave_the_members_alone(site: Site, agent: str, seen: str, *, since: dict[str, int]) -> None:
    """Test that after a restore nothing is written to members, every client gets an error, and no watch resumes."""
    api = site.client()
    until(lambda: site.probed(after=since), within=WITHIN)
    assert site.written(after=since) == []
    assert site.on("member1", "web")["spec"]["replicas"] == 5
    assert site.on("member1", "late")

    with api.watch(DEPLOYMENTS, resourceVersion=seen) as stream:
        event = stream.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert int(api.get(DEPLOYMENTS).document["metadata"]["resourceVersion"]) > int(seen)
    assert b"[-]restore nothing has been written to members since" in api.get("/readyz", verbose="true").body
    assert b"lifeboat_restore_held 1.0" in api.get("/metrics").body
    assert any(one["reason"] == "DatabaseRestored" for one in api.get(EVENTS).document["items"])
    reported = site.client(agent).get(WORKS)
    assert (reported.status, "manage.py restored --confirm" in reported.document["message"]) == (503, True)


@pytest.mark.slow
def test_a_backup_restored_by_the_documented_commands_leaves_members_alone_until_a_person_confirms(site: Site) -> None:
    agent = begin(site)
    site.shell(documented("pg_dump", "pg_dump"))
    api = site.client()
    assert api.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}}).status == 200
    assert api.post(DEPLOYMENTS, deployment("late", 1)).status == 201
    until(lambda: all(site.on(one, "web")["spec"]["replicas"] == 5 for one in MEMBERS), within=WITHIN)
    until(lambda: all(site.on(one, "late") for one in MEMBERS), within=WITHIN)
    seen = api.get(DEPLOYMENTS).document["metadata"]["resourceVersion"]

    site.stop()
    since = site.numbers()
    site.shell(documented("dropdb", "pg_restore"))
    site.start()

    leave_the_members_alone(site, agent, seen, since=since)
    api = site.client()
    assert api.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"edited": "while-held"}}}).status == 200
    site.stop()
    restarted = site.numbers()
    site.start()  # a start ends nothing
    until(lambda: site.probed(after=restarted), within=WITHIN)
    assert site.written(after=since) == []

    site.manage("restored", "--confirm")

    until(lambda: all(site.on(one, "web")["spec"]["replicas"] == 2 for one in MEMBERS), within=WITHIN)
    for member in MEMBERS:
        assert site.on(member, "web")["metadata"]["labels"]["edited"] == "while-held"
    written = [line for line in site.written(after=since) if "/deployments/web" in line]
    assert len(written) == len(MEMBERS), f"a member gets the corrected state, never that of the backup first: {written}"
    assert site.on("member1", "late"), "what was created after the backup is not known, and stays"
    assert site.client(agent).get(WORKS).status == 200
    assert b"[+]restore ok" in site.client().get("/readyz", verbose="true").body

"""The agent of a Pull member on the running product. Nothing but the agent can reach the member."""

from __future__ import annotations

import secrets
import signal
import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.agent.credentials import read
from apps.simulator.members import FleetProcess, start_fleet_process
from tests.acceptance.live import CLUSTERS, Live
from tests.acceptance.manifests import ONE, divided, policy, taint_policy, workload
from tests.acceptance.test_compose import filled
from tests.api.server import free_ports
from tests.processes import PROJECT, Process, Processes

pytestmark = pytest.mark.slow

NAME = "edge"
SERVICES: dict[str, Any] = yaml.safe_load((PROJECT / "docker" / "agent-compose.yaml").read_text())["services"]
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases/{NAME}"
WORKS = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{NAME}/works"
TOKENS = "/api/v1/namespaces/kube-system/secrets"
HOME_FIRST = {"clusterAffinities": [{"affinityName": "home", "clusterNames": [NAME]}, {"affinityName": "away"}]}
DAYS = 0.007  # ten minutes, the shortest time that a certificate may be asked for
QUICK = {
    "LIFEBOAT_CLUSTER_STATUS_UPDATE_FREQUENCY": "0.5",
    "LIFEBOAT_CLUSTER_SUCCESS_THRESHOLD": "1",
    "LIFEBOAT_CLUSTER_FAILURE_THRESHOLD": "1",
    "LIFEBOAT_CLUSTER_LEASE_DURATION": "4",
}


class Edge:
    """A member behind a firewall, and its agent."""

    def __init__(self, live: Live, member: FleetProcess, processes: Processes, folder: Path) -> None:
        self.live = live
        self.member = member
        self.processes = processes
        self.folder = folder
        (self.metrics_port,) = free_ports(1)
        self.agent: Process | None = None

    def command(self, service: str) -> list[str]:
        """Return the command of a service of docker/agent-compose.yaml, with the files and the address of this test."""
        server = f"https://127.0.0.1:{self.live.server.tls_port}"
        given = {"AGENT_CLUSTER": NAME, "AGENT_SERVER": server}
        files = {
            "/run/secrets/token": self.folder.with_name("token"),
            "/run/secrets/member": self.member.kubeconfig(NAME),
            "/var/lib/lifeboat-agent/state": self.folder,
            "9464": self.metrics_port,
        }
        words = [filled(word, given) for word in SERVICES[service]["command"]]
        return ["-m", "apps.agent", *(str(files.get(word, word)) for word in words), "--valid-days", str(DAYS)]

    def register(self, token: str) -> None:
        self.folder.with_name("token").write_text(f"{token}\n")
        self.processes.start("register", self.command("register"), says=f"{NAME} is registered")

    def start(self, *more: str) -> None:
        self.agent = self.processes.start("agent", [*self.command("agent"), *more], says="agent: ready")

    def start_as_karmada_agent(self, *more: str) -> None:
        """Start the agent as a Deployment of karmada-agent does. --folder is the only argument of our own."""
        control_plane = [f"--karmada-kubeconfig={self.folder / 'kubeconfig'}", "--karmada-context=lifeboat"]
        member = f"--kubeconfig={self.member.kubeconfig(NAME)}"
        given = [*control_plane, f"--cluster-name={NAME}", member, f"--folder={self.folder}", *more]
        self.agent = self.processes.start("agent", ["-m", "apps.agent", *given], says="agent: ready")

    def kill(self) -> None:
        assert self.agent is not None
        self.processes.end(self.agent, by=signal.SIGKILL)

    def held(self, namespace: str, name: str) -> Any:
        """Return a Deployment as the member has it; None: it has none."""
        known, kept = self.live.fleet, self.member
        self.live.fleet = kept
        try:
            return self.live.member(NAME, "GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        finally:
            self.live.fleet = known

    def tell(self, method: str, path: str, body: Any = None) -> Any:
        known = self.live.fleet
        self.live.fleet = self.member
        try:
            return self.live.member(NAME, method, path, body, "application/merge-patch+json")
        finally:
            self.live.fleet = known

    def renewed(self) -> str:
        return str(self.live.get(LEASE).get("spec", {}).get("renewTime", ""))


@pytest.fixture(scope="module")
def edge(whole: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The member, joined with its agent. It is unjoined afterwards."""
    folder = tmp_path_factory.mktemp("edge")
    environment = {**whole.server.environment, **QUICK, "PYTHONPATH": str(PROJECT)}
    for name in ("DATABASE_URL", "REDIS_URL", "LIFEBOAT_SECRET_KEY", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name)
    with (
        start_fleet_process(folder / "members", members=[NAME], ready_after=0.1) as member,
        Processes(folder / "logs", environment) as processes,
    ):
        running = Edge(whole, member, processes, folder / "agent")
        assert whole.ask("POST", CLUSTERS, {"metadata": {"name": NAME}, "spec": {"syncMode": "Pull"}}).status == 201
        running.register(_token(whole))
        running.start()
        whole.until(lambda: whole.is_ready(NAME))
        yield running
        whole.patch(f"{CLUSTERS}/{NAME}", {"metadata": {"annotations": {"failover.lifeboat.io/unjoin": "delete"}}})
        assert whole.ask("DELETE", f"{CLUSTERS}/{NAME}").status == 200
        whole.until(lambda: not whole.get(f"{CLUSTERS}/{NAME}"))


def _token(live: Live) -> str:
    """Create a bootstrap token, as `lifeboat join --pull` does; return it when the control plane has signed with it."""
    token_id, secret = secrets.token_hex(3), secrets.token_hex(8)
    values = {
        **{"token-id": token_id, "token-secret": secret},
        **{"expiration": (datetime.now(UTC) + timedelta(minutes=10)).isoformat()},
        **{"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"},
        "auth-extra-groups": "system:bootstrappers:karmada:default-cluster-token",
    }
    metadata = {"name": f"bootstrap-token-{token_id}"}
    document = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": values}
    assert live.ask("POST", TOKENS, document).status == 201
    info = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    live.until(lambda: f"jws-kubeconfig-{token_id}" in live.get(info).get("data", {}))
    return f"{token_id}.{secret}"


def test_an_agent_registers_with_a_token_and_reports_its_cluster(fleet: Live, edge: Edge) -> None:
    fleet.until(lambda: fleet.get(f"{CLUSTERS}/{NAME}")["status"].get("resourceSummary"))
    status = fleet.get(f"{CLUSTERS}/{NAME}")["status"]

    assert status["kubernetesVersion"]
    assert status["nodeSummary"] == {"totalNum": 3, "readyNum": 3}
    assert any(api["groupVersion"] == "apps/v1" for api in status["apiEnablements"])
    before = edge.renewed()
    fleet.until(lambda: edge.renewed() > before)


def test_works_are_applied_and_reported_from_inside(fleet: Live, edge: Edge, ns: str) -> None:
    fleet.apply(policy("web", {"clusterAffinity": {"clusterNames": [NAME]}}), workload("web", 2), namespace=ns)

    fleet.until(lambda: fleet.settled(ns, "web-deployment"))

    assert edge.held(ns, "web")["status"]["readyReplicas"] == 2
    fleet.patch(f"/apis/apps/v1/namespaces/{ns}/deployments/web", {"spec": {"replicas": 3}})
    fleet.until(lambda: (edge.held(ns, "web") or {}).get("status", {}).get("readyReplicas") == 3)
    fleet.until(
        lambda: fleet.get(f"/apis/apps/v1/namespaces/{ns}/deployments/web").get("status", {}).get("readyReplicas") == 3
    )
    assert fleet.ask("DELETE", f"/apis/apps/v1/namespaces/{ns}/deployments/web").status in (200, 202)
    fleet.until(lambda: edge.held(ns, "web") is None)
    fleet.until(lambda: not [work for work in fleet.items(WORKS) if work["metadata"]["name"].startswith("web")])


def test_what_an_agent_keeps_on_disk_is_read_by_its_owner_only(edge: Edge) -> None:
    files = [path for path in edge.folder.iterdir() if path.is_file()]

    assert {"kubeconfig", "state.sqlite"} <= {path.name for path in files}
    assert [path.name for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert not stat.S_IMODE(edge.folder.stat().st_mode) & 0o077


def test_an_outage_of_the_control_plane_deletes_nothing_also_where_the_agent_starts_again(
    fleet: Live, edge: Edge, ns: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    fleet.apply(policy("kept", {"clusterAffinity": {"clusterNames": [NAME]}}), workload("kept", 2), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "kept-deployment"))
    first = edge.held(ns, "kept")["metadata"]["uid"]

    fleet.server.stop()
    try:
        edge.kill()
        edge.start()
        assert edge.held(ns, "kept")["metadata"]["uid"] == first
        edge.tell("DELETE", f"{path}/kept")
        fleet.until(lambda: (edge.held(ns, "kept") or {}).get("status", {}).get("readyReplicas") == 2)
    finally:
        fleet.server.start()

    again = edge.held(ns, "kept")["metadata"]["uid"]
    assert again != first
    fleet.until(lambda: fleet.is_ready(NAME) and fleet.settled(ns, "kept-deployment"))
    fleet.patch(f"{path}/kept", {"spec": {"replicas": 1}})
    fleet.until(lambda: edge.held(ns, "kept")["spec"]["replicas"] == 1)
    assert edge.held(ns, "kept")["metadata"]["uid"] == again


def test_the_certificate_is_renewed_before_it_expires(fleet: Live, edge: Edge) -> None:
    """A certificate begins to be valid five minutes ago, so a third of fifteen minutes is over in seconds."""
    before = read(edge.folder / "kubeconfig")
    edge.kill()
    edge.start("--renew-at", "0.34")

    fleet.until(lambda: read(edge.folder / "kubeconfig").certificate != before.certificate)

    renewed = read(edge.folder / "kubeconfig")
    assert renewed.valid is not None
    assert before.valid is not None
    assert renewed.valid[1] > before.valid[1]
    heard = edge.renewed()
    fleet.until(lambda: edge.renewed() > heard)


def test_the_arguments_of_karmada_agent_run_it_and_what_its_cluster_says_otherwise_is_logged(
    fleet: Live, edge: Edge
) -> None:
    edge.kill()
    edge.start_as_karmada_agent("--cluster-region=eu-west-1", "--cluster-lease-duration=4s")
    heard = edge.renewed()

    fleet.until(lambda: edge.renewed() > heard)

    logs = "".join(path.read_text() for path in edge.processes.folder.glob("agent-*.log"))
    assert 'region is "" and not "eu-west-1"; kubectl patch cluster' in logs
    edge.kill()
    edge.start()


def test_replicas_for_special_nodes_go_where_an_agent_reports_room_on_such_nodes(
    fleet: Live, edge: Edge, ns: str
) -> None:
    """The member has three nodes of eight CPUs. One of them gets the label."""
    node = edge.tell("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    edge.tell("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"disk": "fast"}}})
    fleet.configure(enableSchedulerEstimator=True)
    edge.kill()
    edge.processes.environment["LIFEBOAT_ENABLE_SCHEDULER_ESTIMATOR"] = "true"
    edge.start()
    fleet.until(lambda: len(_pools(fleet)) == 2)
    asked = workload("picky", 3)
    pod = asked["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"disk": "fast"}
    pod["containers"][0]["resources"] = {"requests": {"cpu": "2"}}

    fleet.apply(policy("picky", divided("Weighted", dynamicWeight="AvailableReplicas")), asked, namespace=ns)

    fleet.until(lambda: fleet.placed(ns, "picky-deployment") == {NAME: 3})
    fleet.patch(f"/apis/apps/v1/namespaces/{ns}/deployments/picky", {"spec": {"replicas": 5}})
    fleet.until(lambda: fleet.condition(fleet.binding(ns, "picky-deployment"), "Scheduled").get("status") == "False")
    assert fleet.placed(ns, "picky-deployment") == {NAME: 3}
    del edge.processes.environment["LIFEBOAT_ENABLE_SCHEDULER_ESTIMATOR"]
    edge.kill()
    edge.start()


def _pools(fleet: Live) -> list[Any]:
    """Return the node pools that the agent reports."""
    return list(fleet.get(f"{CLUSTERS}/{NAME}")["status"].get("resourceSummary", {}).get("nodePools") or ())


def test_a_silent_pull_cluster_is_left_and_its_copy_goes_when_the_new_one_is_well(
    fleet: Live, edge: Edge, ns: str
) -> None:
    fleet.configure(clusterMonitorGracePeriod=4)
    fleet.apply(taint_policy())
    fleet.apply(policy("mover", {**HOME_FIRST, **ONE}), workload("mover", 2), namespace=ns)
    fleet.until(lambda: set(fleet.placed(ns, "mover-deployment")) == {NAME} and fleet.settled(ns, "mover-deployment"))

    edge.kill()

    fleet.until(lambda: NAME not in fleet.placed(ns, "mover-deployment"))
    fleet.until(lambda: sum(fleet.ready(ns, "mover").values()) >= 2)
    assert edge.held(ns, "mover")["status"]["readyReplicas"] == 2  # nothing can reach it
    edge.start()
    fleet.until(lambda: fleet.is_ready(NAME))
    fleet.until(lambda: edge.held(ns, "mover") is None)
    assert sum(fleet.ready(ns, "mover").values()) >= 2


def test_the_desired_state_is_on_disk(fleet: Live, edge: Edge, ns: str) -> None:
    fleet.apply(policy("disk", {"clusterAffinity": {"clusterNames": [NAME]}}), workload("disk"), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "disk-deployment"))

    with sqlite3.connect(edge.folder / "state.sqlite") as state:
        kept = [row[0] for row in state.execute("SELECT ref FROM objects")]

    names = {work["metadata"]["name"] for work in fleet.items(WORKS)}
    assert {ref.rpartition("/")[2] for ref in kept if "/Work:" in ref} == names

"""The answer to a user who asks the control plane for running pods [pods-are-in-members]."""

from __future__ import annotations

from controlplane.apimachinery.selectors import parse_label_selector
from controlplane.propagation import pods
from tests.builders.templates import deployment

SERVER = "https://lifeboat"
PROXY = f"kubectl --server {SERVER}/apis/cluster.karmada.io/v1alpha1/clusters"


def test_the_workload_of_a_pod_is_guessed_from_its_name() -> None:
    assert pods.workloads_of("web-7cff7755c7-4khkk")[:3] == [
        ("Pod", "web-7cff7755c7-4khkk"),
        ("Deployment", "web"),
        ("StatefulSet", "web-7cff7755c7"),
    ]
    assert ("StatefulSet", "db") in pods.workloads_of("db-0")
    assert pods.workloads_of("alone") == [("Pod", "alone")]


def test_a_selector_finds_the_workloads_with_such_pods() -> None:
    templates = [deployment("web"), deployment("other")]

    assert pods.selected(templates, parse_label_selector("app=web")) == [("Deployment", "web")]


def test_the_message_names_the_clusters_and_the_command() -> None:
    def reported(
        command: str, workload: tuple[str, str] = ("Deployment", "web"), clusters: tuple[str, ...] = ()
    ) -> str:
        return pods.refusal(command, server=SERVER, namespace="shop", workload=workload, clusters=clusters)

    assert reported("logs", clusters=("member1", "member2")) == (
        "the control plane runs no pods; those of deployment/web run in member1, member2. Use: "
        f"{PROXY}/member1/proxy -n shop logs deployment/web"
    )
    assert reported("exec", ("Pod", "web-1"), ("member1",)).endswith("/member1/proxy -n shop exec -it web-1 -- COMMAND")
    assert "kubectl describe deployment web -n shop shows why" in reported("attach")
    assert reported("logs", ("", "")).endswith(f"{PROXY}/CLUSTER/proxy -n shop logs POD")
    many = tuple(f"m{number}" for number in range(9))
    assert "run in m0, m1, m2, m3, m4, …" in reported("logs", clusters=many)

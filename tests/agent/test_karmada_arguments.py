"""A Deployment of karmada-agent can run the agent: its arguments are followed, or refused with the reason."""

from __future__ import annotations

import pytest

from apps.agent.credentials import Unusable
from apps.agent.karmada_arguments import differences, is_karmada, translated
from apps.agent.program import main
from config.product import from_environment

OWN = ("--kubeconfig", "--member-kubeconfig", "--folder", "--renew-at", "--metrics-port", "--metrics-host")
USUAL = [
    "--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig",
    "--karmada-context=karmada-apiserver",
    "--cluster-name=member3",
    "--cluster-namespace=karmada-cluster",
    "--cluster-api-endpoint=https://10.0.0.3:6443",
    "--proxy-server-address=http://10.0.0.9:8080",
    "--cluster-provider=aws",
    "--cluster-region=eu-west-1",
    "--cluster-status-update-frequency=5s",
    "--cluster-lease-duration=1m30s",
    "--cluster-lease-renew-interval-fraction=0.2",
    "--cluster-success-threshold=500ms",
    "--cluster-failure-threshold",
    "45s",
    "--enable-cluster-resource-modeling=false",
    "--feature-gates=PropagateDeps=false",
    "--metrics-bind-address=:8080",
    "--report-secrets=None",
    "--controllers=*,certRotation",
    "--leader-elect=false",
    "--cert-rotation-remaining-time-threshold=0.2",
    "--kubeconfig=/etc/member",
]


def test_the_arguments_of_a_usual_deployment_are_followed() -> None:
    found = translated([*USUAL, "--folder", "/state"], own=OWN)

    assert found.arguments == [
        *("run", "member3", "--kubeconfig=/etc/kubeconfig/karmada-kubeconfig", "--context=karmada-apiserver"),
        *("--metrics-port=8080", "--renew-at=0.8", "--member-kubeconfig=/etc/member", "--folder=/state"),
    ]
    assert found.expected == {
        "apiEndpoint": "https://10.0.0.3:6443",
        "proxyURL": "http://10.0.0.9:8080",
        "provider": "aws",
        "region": "eu-west-1",
    }
    settings, warnings = from_environment(found.environment)
    assert (settings.cluster_status_update_frequency, settings.cluster_lease_duration) == (5.0, 90.0)
    assert (settings.cluster_lease_renew_fraction, settings.cluster_failure_threshold) == (0.2, 45.0)
    assert (settings.cluster_success_threshold, settings.enable_cluster_resource_modeling) == (0.5, False)
    assert (settings.gate("PropagateDeps"), warnings) == (False, [])


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("--kube-api-qps=40", "has no meaning here: the agent has a fixed number of requests to the control plane"),
        ("--cluster-api-burst=60", "fixed number of requests to its cluster"),
        ("--concurrent-work-syncs=5", "one process"),
        ("--leader-elect", "a cluster has one agent.*--leader-elect=false"),
        ("--leader-elect-lease-duration=15s", "a cluster has one agent"),
        ("--secure-port=10357", "--metrics-port"),
        ("--karmada-kubeconfig-namespace=karmada-system", "in a folder and not in a Secret: --folder"),
        ("--enable-pprof", "py-spy"),
        ("-v=4", "^-v: .*LIFEBOAT_LOG_LEVEL"),
        ("--logtostderr=true", "LIFEBOAT_LOG_LEVEL"),
        ("--report-secrets=KubeCredentials,KubeImpersonator", "never sends credentials.*write None"),
        ("--cluster-namespace=other", "keeps what belongs to clusters in karmada-cluster"),
        ("--controllers=*,-workStatus", "-workStatus: the agent always runs certRotation, clusterStatus"),
        ("--controllers=serviceExport", "serviceExport: the agent always runs"),
        ("--cluster-lease-duration=40", '"40" is not a duration; write for example 40s'),
        ("--metrics-bind-address=somewhere", "is not an address"),
        ("--cert-rotation-remaining-time-threshold=2", "not a share between 0 and 1"),
        ("--cluster-lease-durations=40s", "no such argument; the nearest one is --cluster-lease-duration"),
        ("--member-kubeconfi=/x", "no such argument; the nearest one is --member-kubeconfig"),
    ],
)
def test_an_argument_that_cannot_be_followed_is_refused_with_the_reason(argument: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        translated(["--cluster-name=member3", argument], own=OWN)


def test_all_refusals_are_in_one_message_and_end_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kube-api-qps=40", "--enable-pprof"]) == 1

    said = capsys.readouterr().err
    assert said.startswith("lifeboat-agent: --kube-api-qps: ")
    assert "--enable-pprof: it has no meaning here" in said
    assert "--cluster-name NAME is missing" in said
    assert "docs/agent.md" in said


def test_commands_of_the_agent_are_no_arguments_of_karmada_agent() -> None:
    assert is_karmada(["--cluster-name=member3"])
    assert not any(is_karmada(given) for given in (["run", "edge1"], ["register", "edge1"], ["--help"], []))


def test_a_cluster_that_differs_from_the_arguments_is_named_with_the_command_that_changes_it() -> None:
    expected = {"apiEndpoint": "https://10.0.0.3:6443", "region": "eu-west-1"}

    assert (
        differences({"apiEndpoint": "https://10.0.0.3:6443", "region": "eu-west-1", "syncMode": "Pull"}, expected) == ""
    )
    said = differences({"region": "eu-west-1"}, expected)
    assert said.startswith('apiEndpoint is "" and not "https://10.0.0.3:6443"; kubectl patch cluster NAME --type=merge')
    assert '{"spec":{"apiEndpoint":"https://10.0.0.3:6443"}}' in said

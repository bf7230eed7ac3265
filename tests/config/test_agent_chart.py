"""The agent's Helm chart and compose file render, fit Kubernetes, the image, the manifest and the agent's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from apps.agent.program import _parser
from controlplane import __version__
from tests.config.prose import PROJECT
from tests.config.test_agent_manifest import documents
from tests.config.test_chart import KUBERNETES

CHART = PROJECT / "docker" / "agent-chart"
COMPOSE = yaml.safe_load((PROJECT / "docker" / "agent-compose.yaml").read_text())
USUAL: Mapping[str, Any] = {"cluster": "edge1", "server": "https://lifeboat.example.com"}
FULL: Mapping[str, Any] = {
    **USUAL,
    "image": {"digest": f"sha256:{'0a' * 32}", "pullSecrets": [{"name": "r"}]},
    "authority": {"name": "authority", "key": "ca.crt"},
    "settings": {"cluster_lease_duration": 20, "members.compare_seconds": "600", "members.answer_bytes": 16777216},
    "extraEnv": [{"name": "LIFEBOAT_LOG_LEVEL", "value": "WARNING"}],
    "rbac": {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]},
    "persistence": {"storageClassName": "ssd", "size": "2Gi"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priorityClassName": "high",
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/lifeboat/authority", "readOnly": True}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    "podLabels": {"team": "fleet", "app.kubernetes.io/name": "other"},
    "podAnnotations": {"a": "b"},
    "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
}
GIVEN: Mapping[str, Any] = {
    **USUAL,
    "secrets": {"kubeconfig": {"name": "login", "key": "config"}},
    "persistence": {"existingClaim": "kept"},
    "networkPolicy": {"enabled": False},
}
VARIANTS = {"usual": USUAL, "full": FULL, "given": GIVEN}

Document = dict[str, Any]


@cache
def rendered(variant: str) -> dict[str, Document]:
    """Return the documents of a variant by their kinds."""
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        texts = chart.render(dict(VARIANTS[variant]), name="lifeboat-agent", namespace="lifeboat-system")
    found = [one for path, text in texts.items() if path.endswith(".yaml") for one in yaml.safe_load_all(text) if one]
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def pod(variant: str) -> Document:
    found: Document = rendered(variant)["Deployment"]["spec"]["template"]["spec"]
    return found


def containers(variant: str) -> dict[str, Document]:
    return {one["name"]: one for one in (*pod(variant).get("initContainers", ()), *pod(variant)["containers"])}


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_finds_nothing_to_complain_about(helm: Any, variant: str) -> None:
    report = helm.lint(str(CHART), dict(VARIANTS[variant]), strict=True, namespace="lifeboat-system")

    assert report["errors"] == []
    assert [one for one in report["messages"] if one["severity"] > 1] == []


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_manifest_fits_the_schemas_of_kubernetes(helm: Any, variant: str, version: str) -> None:
    for document in rendered(variant).values():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"cluster": "edge1"},
        {**USUAL, "cluster": "Edge_1"},
        {**USUAL, "server": "http://lifeboat.example.com"},
        {**USUAL, "token": "abcdef.0123456789abcdef"},
        {**USUAL, "replicas": 2},
    ],
)
def test_values_that_do_not_fit_are_refused(helm: Any, values: dict[str, Any]) -> None:
    with helm.Chart.load(str(CHART)) as chart, pytest.raises(helm.HelmError):
        chart.validate_schema(chart.merge_values(values))


def test_the_chart_has_the_version_of_the_product() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_the_chart_makes_what_the_manifest_has(helm: Any) -> None:
    """The manifest is for those without Helm: both give the agent the same rights, arguments and folders."""
    manifest = {one["kind"]: one for one in documents()}
    plain: Document = manifest["Deployment"]["spec"]["template"]["spec"]

    assert set(rendered("usual")) == {*manifest, "NetworkPolicy"}
    assert rendered("usual")["ClusterRole"]["rules"] == manifest["ClusterRole"]["rules"]
    assert rendered("usual")["Deployment"]["spec"]["strategy"] == manifest["Deployment"]["spec"]["strategy"]
    assert pod("usual")["securityContext"] == plain["securityContext"]
    for one in (*plain["initContainers"], *plain["containers"]):
        for field in ("args", "securityContext"):
            assert containers("usual")[one["name"]][field] == one[field]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_agent_accepts_its_arguments_and_finds_the_files_that_they_name(helm: Any, variant: str) -> None:
    volumes = {one["name"]: one for one in pod(variant)["volumes"]}
    for name, container in containers(variant).items():
        mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        asked = _parser().parse_args(container["args"])

        assert set(mounted.values()) <= set(volumes)
        files = [asked.token_file, asked.authority] if name == "register" else [asked.kubeconfig]
        for file in (asked.folder, *filter(None, files)):
            assert any(file.is_relative_to(place) for place in mounted), file
    assert asked.cluster == "edge1"
    assert (asked.kubeconfig is not None) == (variant == "given") == ("register" not in containers(variant))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_agent_has_no_rights_on_its_node_and_writes_to_its_folder_and_tmp_only(helm: Any, variant: str) -> None:
    security = pod(variant)["securityContext"]
    writable = {"state", "tmp"}

    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == int(re.findall(r"--uid (\d+)", (PROJECT / "docker/Dockerfile").read_text())[0])
    for container in containers(variant).values():
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {one["name"] for one in container["volumeMounts"] if not one.get("readOnly")} == writable
        assert "memory" in container["resources"]["limits"]
    probes = [one for field, one in containers(variant)["agent"].items() if field.endswith("Probe")]
    assert {one["httpGet"]["port"] for one in probes} == {"metrics"}
    assert len(probes) == 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_secrets_are_named_and_never_values(helm: Any, variant: str) -> None:
    named = {one["secret"]["secretName"] for one in pod(variant)["volumes"] if "secret" in one}

    assert named == ({"login"} if variant == "given" else {"lifeboat-agent-token"})
    assert "Secret" not in rendered(variant)
    for container in containers(variant).values():
        assert "--token" not in container["args"]


def test_settings_become_variables_and_the_policy_selects_the_pod(helm: Any) -> None:
    environment = {one["name"]: one["value"] for one in containers("full")["agent"]["env"]}
    labels = rendered("full")["Deployment"]["spec"]["template"]["metadata"]["labels"]
    policy = rendered("full")["NetworkPolicy"]["spec"]

    assert environment["LIFEBOAT_CLUSTER_LEASE_DURATION"] == "20"
    assert environment["LIFEBOAT_MEMBERS_COMPARE_SECONDS"] == "600"
    assert environment["LIFEBOAT_MEMBERS_ANSWER_BYTES"] == "16777216", "Helm reads numbers of YAML as floats"
    assert environment["LIFEBOAT_LOG_LEVEL"] == "WARNING"
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert rendered("full")["ClusterRole"]["rules"][0]["apiGroups"] == ["apps"]
    assert "NetworkPolicy" not in rendered("given")


def test_compose_starts_the_agent_as_the_manifest_does() -> None:
    """tests/acceptance/test_agent.py runs its commands."""
    services = COMPOSE["services"]
    asked = {name: _parser().parse_args(service["command"]) for name, service in services.items()}
    (state,) = {service["volumes"][0].partition(":")[2] for service in services.values()}

    assert {name: one.command for name, one in asked.items()} == {"register": "register", "agent": "run"}
    assert all(one.folder.is_relative_to(state) for one in asked.values())
    for name, file in (("register", asked["register"].token_file), ("agent", asked["agent"].member_kubeconfig)):
        assert [f"/run/secrets/{one}" for one in services[name]["secrets"]] == [str(file)]
    for service in services.values():
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])
        assert service["build"]["target"] == "agent"
        assert not any("TOKEN" in one for one in service.get("environment", {}))
    assert f":{asked['agent'].metrics_port}/metrics" in services["agent"]["healthcheck"]["test"][-1]
    assert f"--mode=0700 --owner=10001 --group=10001 {state}" in (PROJECT / "docker/Dockerfile").read_text()


def test_the_pod_gets_what_the_values_add_to_it(helm: Any) -> None:
    template = rendered("full")["Deployment"]["spec"]["template"]
    spec, labels = template["spec"], template["metadata"]["labels"]

    assert FULL["extraVolumes"][0] in spec["volumes"]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert FULL["extraVolumeMounts"][0] in container["volumeMounts"]
    assert spec["affinity"] == FULL["affinity"]
    assert (labels["team"], labels["app.kubernetes.io/name"]) == ("fleet", "lifeboat-agent")

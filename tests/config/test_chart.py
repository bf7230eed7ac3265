"""The Helm chart renders with Helm's own engine, and what it renders fits Kubernetes, the image and compose.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from controlplane import __version__
from tests.config.prose import PROJECT

CHART = PROJECT / "docker" / "chart"
COMPOSE = yaml.safe_load((PROJECT / "docker" / "compose.yaml").read_text())["services"]
PROCESSES = ("api", "worker", "beat", "members")
KUBERNETES = ("1.29", "1.33", "1.37")
RELEASE = "production"
# Every option that adds or changes something.
FULL: Mapping[str, Any] = {
    "image": {
        "repository": "registry.example.com/lifeboat",
        "digest": f"sha256:{'0a' * 32}",
        "pullSecrets": [{"name": "r"}],
    },
    "settings": {
        "resource_eviction_rate": 0.5,
        "eviction.ageing_seconds": 300,
        "change_log.keep_versions": 5_000_000,
        "change_log.keep_bytes": "100000000000",
        "compat.terminating_taint": True,
    },
    "extraEnv": [{"name": "LIFEBOAT_LOG_LEVEL", "value": "WARNING"}],
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"a": "b"}, "tlsSecretName": "tls"},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {
        "apiFrom": [{"podSelector": {"matchLabels": {"app": "proxy"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priorityClassName": "high",
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/lifeboat/authority", "readOnly": True}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    "podLabels": {"team": "fleet", "app.kubernetes.io/name": "other"},
    "podAnnotations": {"a": "b"},
    "serviceAccountName": "puller",
    "spread": {"topologyKeys": ["kubernetes.io/hostname"], "whenUnsatisfiable": "DoNotSchedule"},
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
}
LEAST: Mapping[str, Any] = {
    "secrets": {"admin": {"name": ""}},
    "networkPolicy": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "spread": {"topologyKeys": []},
    "api": {"replicas": 1},
}
VARIANTS = {"default": {}, "full": FULL, "least": LEAST}


Document = dict[str, Any]


class Rendered:
    """The documents of one variant of the chart."""

    def __init__(self, helm: Any, values: Mapping[str, Any]) -> None:
        with helm.Chart.load(str(CHART)) as chart:
            texts = chart.render(dict(values), name=RELEASE, namespace="fleet")
        documents = (yaml.safe_load_all(text) for path, text in texts.items() if path.endswith(".yaml"))
        self.documents: list[Document] = [one for found in documents for one in found if one]

    def of(self, kind: str) -> dict[str, Document]:
        """Return the documents of a kind by their component, or by their name."""
        found = [one for one in self.documents if one["kind"] == kind]
        return {
            one["metadata"]["labels"].get("app.kubernetes.io/component", one["metadata"]["name"]): one for one in found
        }

    def container(self, name: str) -> Document:
        kind = "Job" if name == "prepare" else "Deployment"
        (container,) = self.of(kind)[name]["spec"]["template"]["spec"]["containers"]
        found: Document = container
        return found


@cache
def rendered(variant: str) -> Rendered:
    import helm_python

    return Rendered(helm_python, VARIANTS[variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_finds_nothing_to_complain_about(helm: Any, variant: str) -> None:
    report = helm.lint(str(CHART), dict(VARIANTS[variant]), strict=True, namespace="fleet")

    assert report["errors"] == []
    assert [one for one in report["messages"] if one["severity"] > 1] == []


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_manifest_fits_the_schemas_of_kubernetes(helm: Any, variant: str, version: str) -> None:
    """Kinds of the Prometheus operator have no schema there; a test of their own reads them."""
    built_in = [one for one in rendered(variant).documents if "monitoring.coreos.com" not in one["apiVersion"]]

    for document in built_in:
        kubernetes_validate.validate(document, version, strict=True)

    assert len(built_in) >= 7


def test_the_validation_refuses_a_field_that_does_not_exist(helm: Any) -> None:
    """Otherwise the test above could not fail."""
    document = json.loads(json.dumps(rendered("default").of("Deployment")["api"]))
    document["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"digest": "sha256:short"}},
        {"hosts": []},
        {"extraVolumeMounts": [{"name": "authority"}]},
        {"spread": {"whenUnsatisfiable": "Never"}},
        {"worker": {"replica": 2}},
        {"secrets": {"secretKey": {"name": "", "key": "k"}}},
        {"databaseUrl": "postgresql://user:password@host/lifeboat"},
    ],
)
def test_values_that_do_not_fit_are_refused(helm: Any, values: dict[str, Any]) -> None:
    with helm.Chart.load(str(CHART)) as chart, pytest.raises(helm.HelmError):
        chart.validate_schema(chart.merge_values(values))


def test_the_chart_has_the_version_of_the_product() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


@pytest.mark.parametrize("name", [*PROCESSES, "prepare"])
def test_a_process_is_started_as_in_compose(helm: Any, name: str) -> None:
    """The commands of compose are replayed as processes, in tests/acceptance/test_compose.py."""
    assert rendered("default").container(name)["command"] == COMPOSE[name]["command"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_secret_is_a_value(helm: Any, variant: str) -> None:
    secret = re.compile("KEY|PASSWORD|DATABASE_URL|REDIS_URL|TOKEN$")
    assert "Secret" not in {one["kind"] for one in rendered(variant).documents}
    for name in (*PROCESSES, "prepare"):
        environment = {one["name"]: one for one in rendered(variant).container(name)["env"]}
        referenced = {name for name, one in environment.items() if "secretKeyRef" in one.get("valueFrom", {})}

        assert {name for name in environment if secret.search(name)} == referenced - {"LIFEBOAT_ADMIN_NAME"}
        assert {"DATABASE_URL", "REDIS_URL", "LIFEBOAT_SECRET_KEY", "LIFEBOAT_ENCRYPTION_KEYS"} <= referenced


def test_settings_become_variables(helm: Any) -> None:
    environment = {one["name"]: one.get("value") for one in rendered("full").container("worker")["env"]}

    assert environment["LIFEBOAT_RESOURCE_EVICTION_RATE"] == "0.5"
    assert environment["LIFEBOAT_EVICTION_AGEING_SECONDS"] == "300"
    assert environment["LIFEBOAT_CHANGE_LOG_KEEP_VERSIONS"] == "5000000", "Helm reads numbers of YAML as floats"
    assert environment["LIFEBOAT_CHANGE_LOG_KEEP_BYTES"] == "100000000000"
    assert environment["LIFEBOAT_COMPAT_TERMINATING_TAINT"] == "true"
    assert environment["LIFEBOAT_LOG_LEVEL"] == "WARNING"
    assert environment["LIFEBOAT_METRICS_PORT"] == "9464"


@pytest.mark.parametrize("name", [*PROCESSES, "prepare"])
def test_a_container_has_no_rights_and_writes_nowhere_but_tmp(helm: Any, name: str) -> None:
    container, kind = rendered("default").container(name), "Job" if name == "prepare" else "Deployment"
    pod = rendered("default").of(kind)[name]["spec"]["template"]["spec"]

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/tmp"]
    assert "memory" in container["resources"]["limits"]
    assert pod["securityContext"]["runAsUser"] == int(
        re.findall(r"--uid (\d+)", (PROJECT / "docker/Dockerfile").read_text())[0]
    )


def pod(variant: str, name: str) -> Document:
    found: Document = rendered(variant).of("Job" if name == "prepare" else "Deployment")[name]["spec"]["template"]
    return found


@pytest.mark.parametrize("name", [*PROCESSES, "prepare"])
def test_every_pod_gets_what_the_values_add_to_it(helm: Any, name: str) -> None:
    """Without volumes no file can be given to a process: an authority, an audit policy."""
    template, container = pod("full", name), rendered("full").container(name)

    for field in ("affinity", "nodeSelector", "tolerations", "priorityClassName", "serviceAccountName"):
        assert template["spec"][field] == FULL[field]
    assert template["spec"]["volumes"][1:] == FULL["extraVolumes"]
    assert container["volumeMounts"][1:] == FULL["extraVolumeMounts"]
    assert template["metadata"]["annotations"] == {"a": "b"}
    labels = template["metadata"]["labels"]
    assert (labels["team"], labels["app.kubernetes.io/name"]) == ("fleet", "lifeboat"), "none replaces one of ours"
    assert rendered("full").of("Service")["api"]["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("name", PROCESSES)
def test_the_pods_of_a_process_are_spread_over_nodes(helm: Any, name: str) -> None:
    """Both api pods ran on one node, and went with it."""
    hosts, zones = pod("default", name)["spec"]["topologySpreadConstraints"]

    assert (hosts["topologyKey"], zones["topologyKey"]) == ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    assert hosts["whenUnsatisfiable"] == "ScheduleAnyway"
    own = pod("default", name)["metadata"]["labels"]
    assert hosts["labelSelector"]["matchLabels"].items() <= own.items()
    assert hosts["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == name
    assert [one["whenUnsatisfiable"] for one in pod("full", name)["spec"]["topologySpreadConstraints"]] == [
        "DoNotSchedule"
    ]
    assert "topologySpreadConstraints" not in pod("least", name)["spec"]


@pytest.mark.parametrize("name", PROCESSES)
def test_probes_and_services_use_ports_that_the_container_opens(helm: Any, name: str) -> None:
    container = rendered("full").container(name)
    ports = {one["name"] for one in container["ports"]}
    probes = [probe for field, probe in container.items() if field.endswith("Probe")]

    assert len(probes) >= 2
    assert {probe["httpGet"]["port"] for probe in probes} <= ports
    labels = rendered("full").of("Deployment")[name]["spec"]["template"]["metadata"]["labels"]
    for service in rendered("full").of("Service").values():
        if service["spec"]["selector"].items() <= labels.items():
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_a_pod_of_the_api_that_ends_answers_until_no_proxy_sends_it_requests(helm: Any) -> None:
    """Kubernetes removes it from the Service and ends it at the same time: each upgrade refused some clients."""
    pod = rendered("default").of("Deployment")["api"]["spec"]["template"]["spec"]
    word, seconds = rendered("default").container("api")["lifecycle"]["preStop"]["exec"]["command"]

    assert (word, int(seconds)) == ("sleep", 5)
    assert pod["terminationGracePeriodSeconds"] >= int(seconds) + 20, "a write may wait for 10 s for the write lock"


def test_the_database_is_prepared_before_an_installation_and_before_an_upgrade(helm: Any) -> None:
    annotations = rendered("default").of("Job")["prepare"]["metadata"]["annotations"]

    assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"


def test_budgets_and_network_policies_select_the_pods_they_name(helm: Any) -> None:
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        for name, document in rendered("default").of(kind).items():
            workload = rendered("default").of("Job" if name == "prepare" else "Deployment")[name]
            labels = workload["spec"]["template"]["metadata"]["labels"]
            assert document["spec"][field]["matchLabels"].items() <= labels.items(), (kind, name)
    assert set(rendered("default").of("NetworkPolicy")) == {*PROCESSES, "prepare"}
    assert set(rendered("default").of("PodDisruptionBudget")) == {"api", "worker", "members"}
    assert all(
        one["spec"]["ingress"] for name, one in rendered("default").of("NetworkPolicy").items() if name != "prepare"
    )


def test_the_service_monitor_scrapes_the_service_of_all_metrics_ports(helm: Any) -> None:
    (monitor,) = rendered("full").of("ServiceMonitor").values()
    service = rendered("full").of("Service")["metrics"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [one["port"] for one in monitor["spec"]["endpoints"]] == [one["name"] for one in service["spec"]["ports"]]
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "lifeboat", "the alert rules name this job"
    assert rendered("default").of("ServiceMonitor") == {}


def test_the_alert_rules_and_the_dashboard_are_those_that_are_tested(helm: Any) -> None:
    """The files of the chart are links to docker/monitoring, which tests/apps/test_monitoring.py checks."""
    monitoring = PROJECT / "docker" / "monitoring"
    (rule,) = rendered("full").of("PrometheusRule").values()
    (board,) = rendered("full").of("ConfigMap").values()

    assert rule["spec"] == yaml.safe_load((monitoring / "rules.yaml").read_text())
    assert board["data"]["lifeboat.json"] == (monitoring / "grafana" / "dashboards" / "lifeboat.json").read_text()
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert rendered("default").of("PrometheusRule") == rendered("default").of("ConfigMap") == {}

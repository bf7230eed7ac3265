"""`lifeboat import`: what an undo does not remove, and what is written to members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.command.importing import IMPORTER
from tests.api.server import Client, Server
from tests.api.test_failback import join
from tests.builders.documents import CLUSTERS, deployment, policy
from tests.builders.documents import cluster as cluster_of
from tests.command.conftest import DO, Lifeboat

WORKS = "/apis/work.karmada.io/v1alpha1/namespaces"
OBSERVE = "failover.lifeboat.io/observe"


def exported(api: Client, cluster: str, template: dict[str, Any], copy: dict[str, Any], folder: Path) -> Path:
    """Store the Work of a copy on a cluster; return a file with the template and its binding, as a Karmada has them."""
    namespace = template["metadata"]["namespace"]
    api.post("/api/v1/namespaces", {"metadata": {"name": f"karmada-es-{cluster}"}})
    work = {"metadata": {"name": "web"}, "spec": {"workload": {"manifests": [copy]}}}
    made = api.post(f"{WORKS}/karmada-es-{cluster}/works", work)
    assert made.status == 201, made.body
    resource = {key: template[key] for key in ("apiVersion", "kind")} | {"namespace": namespace, "name": "web"}
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": f"web-{template['kind'].lower()}", "namespace": namespace},
        "spec": {"resource": resource},
    }
    file = folder / "karmada.yaml"
    file.write_text(yaml.safe_dump_all([template, binding]))
    return file


def test_an_undo_removes_no_template_that_is_on_a_cluster_which_is_written_to(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """The source need not have that cluster: the file was cut off, or the cluster came later."""
    cluster, template = join(api, server, f"{namespace}-a"), deployment("web")
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    created = api.post(deployments, template, fieldManager=IMPORTER)
    assert created.status == 201, created.body
    template["metadata"]["namespace"] = namespace
    file = exported(api, cluster, template, template, tmp_path)

    refused = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    assert refused.exit_code != 0
    assert f"lifeboat observe {cluster}" in refused.stderr
    assert api.get(f"{deployments}/web").status == 200
    observed = api.patch(f"{CLUSTERS}/{cluster}", {"metadata": {"annotations": {OBSERVE: "true"}}})
    assert observed.status == 200, observed.body
    assert lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO).exit_code == 0
    assert api.get(f"{deployments}/web").status == 404


def test_an_undo_knows_a_template_that_its_file_has_in_another_version(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """Works have the version of an autoscaler that is stored, and exports of older clusters have the one before."""
    cluster = join(api, server, f"{namespace}-a")
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    head = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": namespace}}
    template, stored = (
        {"apiVersion": f"autoscaling/{version}", **head, "spec": {"scaleTargetRef": scaled, "maxReplicas": 3}}
        for version in ("v1", "v2")
    )
    autoscalers = f"/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers"
    created = api.post(autoscalers, template, fieldManager=IMPORTER)
    assert created.status == 201, created.body
    file = exported(api, cluster, template, stored, tmp_path)

    refused = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    assert refused.exit_code != 0
    assert f"lifeboat observe {cluster}" in refused.stderr
    assert api.get(f"{autoscalers}/web").status == 200


def test_a_repeated_import_names_the_clusters_that_are_written_to(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """After a take-over it said that members are compared and not written to, and waited for a comparison in vain."""
    cluster, template = join(api, server, f"{namespace}-a"), deployment("web")
    template["metadata"]["namespace"] = namespace
    file = exported(api, cluster, template, template, tmp_path)
    taken_over = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": cluster}}
    file.write_text(yaml.safe_dump_all([*yaml.safe_load_all(file.read_text()), {**taken_over, "spec": {}}]))

    tried = lifeboat("import", "--file", str(file), "--dry-run")
    done = lifeboat("import", "--file", str(file), "--timeout", "1s", *DO)
    api.patch(f"{CLUSTERS}/{cluster}", {"metadata": {"annotations": {OBSERVE: "true"}}})
    observed = lifeboat("import", "--file", str(file), "--timeout", "1s", *DO)

    named = f"{cluster} is not observed: what is imported for it is written to it at once"
    assert [named in one.stderr for one in (tried, done, observed)] == [True, True, False], done.stderr
    assert ["Effects: none" in one.stderr for one in (done, observed)] == [False, True], done.stderr
    assert ["not compared yet" in one.stderr for one in (done, observed)] == [False, True], done.stderr


@pytest.mark.parametrize("what", ["binding", "cluster", "no cluster"])
def test_a_template_whose_placement_cannot_be_written_is_not_scheduled_again(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path, what: str
) -> None:
    """It would go to other clusters, and stay there when the import is repeated, because its binding exists then."""
    other, template, policed = join(api, server, f"{namespace}-b"), deployment("web"), policy("p")
    for one in (template, policed):
        one["metadata"]["namespace"] = namespace
    file, bound = exported(api, other, template, template, tmp_path), f"{namespace}-a"
    template, binding = yaml.safe_load_all(file.read_text())
    replicas = -1 if what == "binding" else 2
    binding["spec"] |= {"replicas": 2, "clusters": [{"name": bound, "replicas": replicas}]}
    address = "https://169.254.169.254" if what == "cluster" else "https://a.example:6443"
    source = [] if what == "no cluster" else [cluster_of(bound, apiEndpoint=address)]
    file.write_text(yaml.safe_dump_all([*source, policed, template, binding]))

    done = lifeboat("import", "--file", str(file), "--timeout", "1s", *DO)

    assert done.exit_code != 0
    assert f"Deployment {namespace}/web: its binding was not written: it would be scheduled again" in done.stderr
    assert "1 bindings have other clusters" not in done.stderr
    assert api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web").status == 404
    assert (
        api.get(f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web-deployment").status == 404
    )
    if what == "no cluster":
        assert f"ResourceBinding {namespace}/web-deployment: cluster {bound} is not joined here" in done.stderr
        join(api, server, bound)
        assert lifeboat("import", "--file", str(file), "--timeout", "1s", *DO).exit_code == 0


def test_an_undo_says_that_a_cluster_is_still_there_which_the_next_import_would_miss(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """The next import found it, wrote nothing, and then it was gone, and the bindings went to other clusters."""
    name = join(api, server, f"{namespace}-a")
    api.patch(f"{CLUSTERS}/{name}", {"metadata": {"annotations": {OBSERVE: "true"}}}, fieldManager=IMPORTER)
    held = {**deployment("web"), "kind": "Deployment"}
    held["metadata"] |= {"namespace": namespace, "finalizers": ["example.io/held"]}
    assert api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", held, fieldManager=IMPORTER).status == 201
    file = exported(api, name, held, held, tmp_path)
    file.write_text(yaml.safe_dump_all([*yaml.safe_load_all(file.read_text()), cluster_of(name)]))

    undone = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    assert undone.exit_code == 0, undone.stderr
    assert "2 objects are still there: wait until they have gone before you import again" in undone.stderr
    api.patch(f"{CLUSTERS}/{name}", {"metadata": {"finalizers": []}})
    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", {"metadata": {"finalizers": []}})
    again = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)
    assert "still there" not in again.stderr


def test_an_undo_leaves_a_policy_that_was_here_before_the_import(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    """Its name is that of a policy of the source, which was not imported therefore. Its permanent id is another one."""
    policies = f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies"
    assert api.post(policies, policy("default")).status == 201
    theirs = [
        policy(name, metadata={"namespace": namespace, "labels": {"propagationpolicy.karmada.io/permanent-id": name}})
        for name in ("default", "new")
    ]
    file = tmp_path / "karmada.yaml"
    file.write_text(yaml.safe_dump_all(theirs))
    assert lifeboat("import", "--file", str(file), "--timeout", "1s", *DO).exit_code == 0

    undone = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    assert (undone.exit_code, "1 objects removed" in undone.stdout) == (0, True), undone.stderr
    assert f"left: PropagationPolicy {namespace}/default was here before the import" in undone.stderr
    found = [api.get(f"{policies}/{name}").document["metadata"] for name in ("default", "new")]
    assert ["deletionTimestamp" in one for one in found] == [False, True]


@pytest.mark.parametrize("writer", [IMPORTER, "lifeboat", "kubectl"])
@pytest.mark.parametrize("kind", ["ConfigMap", "OverridePolicy", "FederatedResourceQuota"])
def test_an_undo_leaves_what_was_here_before_the_import_under_the_same_name(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path, kind: str, writer: str
) -> None:
    """Imports of older releases have written as "lifeboat"."""
    version, spec = "policy.karmada.io/v1alpha1", {"overrideRules": []}
    if kind == "ConfigMap":
        version, spec = "v1", {}
    elif kind == "FederatedResourceQuota":
        spec = {"overall": {"cpu": "1"}}
    one = {"apiVersion": version, "kind": kind, "metadata": {"name": "same", "namespace": namespace}}
    one |= {"data": {"a": "b"}} if kind == "ConfigMap" else {"spec": spec}
    plural = {"ConfigMap": "configmaps", "OverridePolicy": "overridepolicies"}.get(kind, "federatedresourcequotas")
    path = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/{namespace}/{plural}"
    made = api.post(path, one, fieldManager=writer)
    assert made.status == 201, made.body
    about = {"apiVersion": version, "kind": kind, "namespace": namespace, "name": "same"}
    bound = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "same-configmap", "namespace": namespace},
        "spec": {"resource": about},
    }
    file = tmp_path / "karmada.yaml"
    file.write_text(yaml.safe_dump_all([one, bound] if kind == "ConfigMap" else [one]))

    undone = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    was_here = writer == "kubectl"
    assert undone.exit_code == 0, undone.stderr
    assert (f"left: {kind} {namespace}/same was here before the import" in undone.stderr) is was_here
    assert (api.get(f"{path}/same").status == 200) is was_here


@pytest.mark.parametrize("writer", [IMPORTER, "kubectl"])
@pytest.mark.parametrize("in_source", [True, False])
def test_an_undo_removes_the_bindings_of_an_interrupted_import_which_have_no_template(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path, in_source: bool, writer: str
) -> None:
    """They stayed for an hour, went to other clusters meanwhile, and the next import sent their templates there."""
    other, template = join(api, server, f"{namespace}-b"), deployment("web")
    template["metadata"]["namespace"] = namespace
    file = exported(api, other, {**template, "metadata": {**template["metadata"], "name": "other"}}, template, tmp_path)
    _, binding = yaml.safe_load_all(file.read_text())
    api.patch(f"{CLUSTERS}/{other}", {"metadata": {"annotations": {OBSERVE: "true"}}})
    bindings = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"
    made = api.post(bindings, binding, fieldManager=writer)
    assert made.status == 201, made.body
    file.write_text(yaml.safe_dump_all([*([template] if in_source else []), binding]))

    undone = lifeboat("import", "--file", str(file), "--undo", "--timeout", "1s", *DO)

    was_here = writer == "kubectl"
    assert undone.exit_code == 0, undone.stderr
    assert (api.get(f"{bindings}/web-deployment").status == 200) is was_here
    left = f"left: ResourceBinding {namespace}/web-deployment was here before the import"
    assert (left in undone.stderr) is was_here


def test_a_template_whose_binding_has_moved_is_not_written_to_the_clusters_where_it_is_now(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """An interrupted import has left its binding, and the cluster of the binding was removed before the next import."""
    first, other = (join(api, server, f"{namespace}-{name}") for name in "ab")
    template = deployment("web")
    template["metadata"]["namespace"] = namespace
    file = exported(api, first, template, template, tmp_path)
    template, binding = yaml.safe_load_all(file.read_text())
    bindings = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"

    def on(cluster: str) -> dict[str, Any]:
        return {**binding, "spec": {**binding["spec"], "replicas": 1, "clusters": [{"name": cluster, "replicas": 1}]}}

    assert api.post(bindings, on(other), fieldManager=IMPORTER).status == 201
    file.write_text(yaml.safe_dump_all([template, on(first)]))

    done = lifeboat("import", "--file", str(file), "--timeout", "1s", *DO)

    assert done.exit_code != 0
    assert f"Deployment {namespace}/web: its binding is on {other}: 1 here, and on {first}: 1 there" in done.stderr
    assert api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web").status == 404
    api.delete(f"{bindings}/web-deployment")
    assert lifeboat("import", "--file", str(file), "--timeout", "1s", *DO).exit_code == 0
    api.patch(f"{bindings}/web-deployment", {"spec": {"clusters": [{"name": other, "replicas": 1}]}})
    again = lifeboat("import", "--file", str(file), "--timeout", "1s", *DO)
    assert "0 objects were refused, 1 bindings have other clusters than in the source" in again.stderr

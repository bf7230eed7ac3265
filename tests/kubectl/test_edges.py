"""The real kubectl where Lifeboat has something of its own to say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.api.controllers import work
from tests.api.server import Server
from tests.api.test_evictions import queue
from tests.builders.documents import policy
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


FOLLOWED = {
    "fleetreadinesses": "get or list them again",
    "fleetstatuses": "lifeboat status --watch",
}


@pytest.mark.parametrize(("plural", "instead"), FOLLOWED.items())
def test_what_is_made_when_it_is_read_is_got_and_a_watch_is_refused_with_the_command_to_use(
    k: Kubectl, plural: str, instead: str
) -> None:
    full = f"{plural}.failover.lifeboat.io"
    listed = k("api-resources", "--api-group=failover.lifeboat.io", "--verbs=watch", "-o", "name").split()

    assert full not in listed
    k("get", full)
    said = k("get", full, "-w", code=1)
    assert f"{plural} are computed when they are read and cannot be watched" in said
    assert instead in said
    assert "MethodNotAllowed" in said


def test_the_eviction_queue_is_followed_with_kubectl(k: Kubectl, server: Server, namespace: str) -> None:
    queue(server, namespace, "web")
    following = k.start("get", "evictions", "--watch", "--no-headers", "-o", "custom-columns=:.status.state")
    try:
        assert following.stdout is not None
        states = [following.stdout.readline().strip()]
        server.sql(f"UPDATE failover_eviction SET state = 'Held' WHERE binding LIKE '%:{namespace}/web'")
        states.append(following.stdout.readline().strip())
    finally:
        following.kill()
        following.wait()

    assert states == ["Queued", "Held"]


def test_a_policy_is_replaced_from_the_file_it_was_made_of(k: Kubectl) -> None:
    made = k.file(policy("everywhere"))
    k("create", "-f", made)
    before = yaml.safe_load(k("get", "pp", "everywhere", "-o", "yaml"))["metadata"]

    changed = k.file(policy("everywhere", priority=7))
    assert "replaced" in k("replace", "-f", changed)

    after = yaml.safe_load(k("get", "pp", "everywhere", "-o", "yaml"))
    assert after["spec"]["priority"] == 7
    assert after["metadata"]["labels"] == before["labels"]
    assert after["metadata"]["finalizers"] == before["finalizers"]
    taken = policy("everywhere")
    taken["metadata"]["labels"] = dict.fromkeys(before["labels"], "another-id")
    assert "field is immutable" in k("replace", "-f", k.file(taken), code=1)


@pytest.mark.parametrize(("cascade", "left"), [("background", ""), ("foreground", ""), ("orphan", "configmap/low\n")])
def test_a_deletion_cascades_as_kubectl_says(k: Kubectl, server: Server, cascade: str, left: str) -> None:
    top = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "top"}}
    k("create", "-f", k.file(top))
    uid = k("get", "cm", "top", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "top", "uid": uid, "blockOwnerDeletion": True}
    k("create", "-f", k.file({**top, "metadata": {"name": "low", "ownerReferences": [owner]}}))

    deleting = k.start("delete", "cm", "top", f"--cascade={cascade}", "--timeout=300s")
    while deleting.poll() is None:
        work(server, "owners")
    assert (deleting.returncode, deleting.communicate()[0]) == (0, 'configmap "top" deleted\n')

    work(server, "owners")
    assert k("get", "cm", "-o", "name") == left


def test_an_autoscaler_is_written_in_both_versions_that_are_served(k: Kubectl) -> None:
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": scaled, "minReplicas": 1, "maxReplicas": 5}
    v2 = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec}

    assert "created" in k("apply", "-f", k.file(v2))
    assert "web" in k("get", "hpa")
    k("create", "deployment", "db", "--image=nginx")
    assert "autoscaled" in k("autoscale", "deployment", "db", "--max=3")
    assert {"autoscaling/v1", "autoscaling/v2"} <= set(k("api-versions").split())
    more = {**v2, "apiVersion": "autoscaling/v1", "spec": {**spec, "maxReplicas": 6}}
    assert "configured" in k("apply", "-f", k.file(more))
    assert k("get", "horizontalpodautoscalers.v2.autoscaling", "web", "-o", "jsonpath={.spec.maxReplicas}") == "6"


def test_a_cluster_scoped_object_of_a_chart_that_names_a_namespace_is_taken(k: Kubectl) -> None:
    """As on a kube-apiserver, which leaves the namespace out. kubectl then finds it missing at every apply."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"chart-{k.namespace}", "namespace": k.namespace},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    }
    name, shown = role["metadata"]["name"], "jsonpath={.metadata.namespace}{.metadata.resourceVersion}"

    assert "created" in k("apply", "-f", k.file(role))
    version = k("get", "clusterrole", name, "-o", shown)
    assert version.isdigit()
    k("apply", "-f", k.file(role))
    assert "serverside-applied" in k(
        "apply", "--server-side", "-f", k.file(role), "--field-manager=kubectl-client-side-apply"
    )
    assert k("get", "clusterrole", name, "-o", "jsonpath={.metadata.namespace}") == ""
    k("delete", "-f", k.file(role))

"""The real kubectl against the real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.controllers.scheduler import Scheduler
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_until_idle
from controlplane.kind import encode
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.cluster import Taint
from controlplane.settings import Settings
from tests.api.server import Client, Server
from tests.builders.documents import config_map, config_maps, deployment, deployments, policy
from tests.builders.objects import bound, cluster
from tests.builders.placements import placement
from tests.builders.scheduling import spec
from tests.processes import until

pytestmark = pytest.mark.kubectl

Run = Callable[..., str]


class Kubectl:
    """kubectl in a namespace of its own."""

    def __init__(self, program: Path, server: Server, namespace: str, folder: Path) -> None:
        self.namespace = namespace
        self.folder = folder
        self._begin = [str(program), "--kubeconfig", str(server.kubeconfig), "--namespace", namespace]
        self._begin += ["--cache-dir", str(server.folder / "cache")]

    def __call__(self, *arguments: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        """Run it and return what it said. Raises AssertionError where it ends with another code."""
        done = subprocess.run(
            [*self._begin, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "HOME": str(self.folder), **(env or {})},
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, f"kubectl {' '.join(arguments)} ended with {done.returncode}:\n{said}"
        return said

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._begin, *arguments], stdout=subprocess.PIPE, text=True)

    def file(self, *documents: Any, name: str = "it.yaml") -> str:
        """Write manifests and return where they are."""
        path = self.folder / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_what_is_served(k: Kubectl) -> None:
    assert re.search(r"clusters\s+cluster.karmada.io/v1alpha1\s+false\s+Cluster", k("api-resources"))
    assert "policy.karmada.io/v1alpha1" in k("api-versions")
    assert "Server Version: v1.32" in k("version")
    assert "admin" in k("auth", "whoami")
    assert k("auth", "can-i", "create", "deployments").strip() == "yes"
    assert "*.*" in k("auth", "can-i", "--list")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("deployment.spec.replicas", "FIELD: replicas <integer>"),
        ("pp.spec.placement", "clusterAffinity"),
        ("cluster.spec.taints", "effect"),
        ("configmap", "data"),
    ],
)
def test_explain(k: Kubectl, what: str, said: str) -> None:
    assert said in k("explain", what)


LEAVES = "FIELD: tolerationSeconds <integer>"
ONLY_PREFERS = "For NoExecute, placement.clusterTolerations apply instead"
ONLY_TOLERATED = "Tolerations apply to NoSchedule and NoExecute only"
EFFECTS = "NoExecute evicts all workloads, except those whose placement.clusterTolerations tolerate the taint"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "pp.spec.failover.cluster.tolerationSeconds",
            (LEAVES, "Unset: 300", "0: it is evicted immediately", ONLY_PREFERS),
        ),
        ("cpp.spec.failover.cluster.tolerationSeconds", (LEAVES, "Negative values are refused", ONLY_PREFERS)),
        ("rb.spec.failover.cluster.tolerationSeconds", (LEAVES, ONLY_PREFERS)),
        (
            "pp.spec.failover",
            ("Evicts the workload from clusters with a PreferNoExecute taint. Unset: it stays there",),
        ),
        (
            "pp.spec.placement.clusterTolerations",
            (ONLY_TOLERATED, "A NoExecute taint that is not tolerated evicts the workload immediately"),
        ),
        ("pp.spec.placement.clusterTolerations.tolerationSeconds", ("Unset: without end",)),
        ("cluster.spec.taints.effect", (EFFECTS, "only workloads whose policy has failover.cluster")),
        ("clustertaintpolicy.spec.taintsToAdd.effect", (EFFECTS,)),
        ("clustertaintpolicy.spec.taints.effect", (EFFECTS,)),
    ],
)
def test_explain_says_which_taint_asks_which_toleration(k: Kubectl, what: str, said: tuple[str, ...]) -> None:
    explained = " ".join(k("explain", what).split())

    assert [text for text in said if text not in explained] == []


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("pp.spec.failover.cluster.purgeMode", "Unset: Gracefully"),
        ("clustertaintpolicy.spec.taintsToAdd.addOnMatchSeconds", "Unset: 300. At least 1."),
        ("clustertaintpolicy.spec.taintsToAdd.removeOnMismatchSeconds", "Unset: 180. At least 1."),
        (
            "clustertaintpolicy.spec.matchConditions.operator",
            "A condition that the cluster does not have never matches, not even with NotIn",
        ),
        ("clustertaintpolicy.spec.addOnConditions.statusValues", "True, False, Unknown. At least one."),
    ],
)
def test_explain_says_what_is_taken_where_a_field_is_unset(k: Kubectl, what: str, said: str) -> None:
    assert said in " ".join(k("explain", what).split())


def test_get_in_every_form(k: Kubectl, api: Client) -> None:
    api.post(deployments(k.namespace), deployment("web", replicas=2, image="nginx:1.27"))

    assert re.search(r"NAME\s+READY\s+UP-TO-DATE\s+AVAILABLE\s+AGE\nweb\s+0/2", k("get", "deploy"))
    wide = r"CONTAINERS\s+IMAGES\s+SELECTOR\s+POLICY\n.*nginx:1.27\s+app=web\s+<none>"
    assert re.search(wide, k("get", "deploy", "-o", "wide"))
    assert yaml.safe_load(k("get", "deploy", "web", "-o", "yaml"))["spec"]["replicas"] == 2
    assert json.loads(k("get", "deploy", "-o", "json"))["items"][0]["metadata"]["name"] == "web"
    assert k("get", "deploy", "-o", "name") == "deployment.apps/web\n"
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    assert "web" in k("get", "deploy,cm", "-A", "-l", "app=web")
    assert "No resources found" in k("get", "cm", "-l", "app=none")
    assert '"nothing" not found' in k("get", "deploy", "nothing", code=1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["create", "configmap", "one", "--from-literal=a=b"], "configmap/one"),
        (["create", "secret", "generic", "one", "--from-literal=a=b"], "secret/one"),
        (["create", "deployment", "one", "--image=nginx", "--replicas=3"], "deployment.apps/one"),
        (["create", "service", "clusterip", "one", "--tcp=80:80"], "service/one"),
        (["create", "job", "one", "--image=nginx"], "job.batch/one"),
        (["create", "serviceaccount", "one"], "serviceaccount/one"),
        (["create", "role", "one", "--verb=get", "--resource=pods"], "role.rbac.authorization.k8s.io/one"),
    ],
)
def test_create_in_protobuf(k: Kubectl, arguments: list[str], name: str) -> None:
    assert f"{name} created" in k(*arguments)
    assert "already exists" in k(*arguments, code=1)
    assert k("get", name, "-o", "name").strip() == name


def test_create_and_delete_a_namespace(k: Kubectl) -> None:
    assert "created" in k("create", "namespace", f"{k.namespace}-more")
    assert "Active" in k("get", "ns", f"{k.namespace}-more")
    assert "deleted" in k("delete", "ns", f"{k.namespace}-more", "--wait=false")
    assert "Terminating" in k("get", "ns", f"{k.namespace}-more")


def test_create_says_what_is_wrong(k: Kubectl) -> None:
    bad = {**policy("one"), "spec": {"resourceSelectors": [], "placement": {}, "plcement": {}}}

    assert 'unknown field "spec.plcement"' in k("create", "-f", k.file(bad), code=1)
    said = k("create", "--validate=ignore", "-f", k.file(bad), code=1)
    assert "spec.resourceSelectors" in said
    assert "created" in k("create", "--validate=warn", "-f", k.file(policy("one", plcement={})))


def test_apply_new_changed_and_unchanged(k: Kubectl) -> None:
    web, rule = deployment("web", replicas=2), policy("rule")
    rule["spec"]["resourceSelectors"][0]["namespace"] = k.namespace
    file = k.file(web, rule)

    assert k("apply", "-f", file).count("created") == 2
    before = k("get", "deploy", "web", "-o", "jsonpath={.metadata.resourceVersion}")
    assert k("apply", "-f", file).count("unchanged") == 2
    assert k("get", "deploy", "web", "-o", "jsonpath={.metadata.resourceVersion}") == before
    web["spec"]["replicas"] = 5
    rule["spec"]["priority"] = 7
    assert k("apply", "-f", k.file(web, rule)).count("configured") == 2
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    assert k("get", "pp", "rule", "-o", "jsonpath={.spec.priority}") == "7"


def test_a_policy_whose_selector_names_no_namespace_is_unchanged_when_it_is_applied_again(k: Kubectl) -> None:
    """kubectl compares whole lists with what is stored, so the namespace is not filled in there."""
    file = k.file(policy("rule"))
    versions = ("get", "pp", "rule", "-o", "jsonpath={.metadata.resourceVersion}/{.metadata.generation}")
    k("apply", "-f", file)
    before = k(*versions)

    assert "unchanged" in k("apply", "-f", file)
    assert k(*versions) == before


def test_apply_without_a_field_takes_it_away(k: Kubectl) -> None:
    k("apply", "-f", k.file(config_map("one", a="1", b="2")))
    k("apply", "-f", k.file(config_map("one", a="1")))

    assert k("get", "cm", "one", "-o", "jsonpath={.data}") == '{"a":"1"}'


def test_server_side_apply_and_its_conflicts(k: Kubectl) -> None:
    assert "serverside-applied" in k("apply", "--server-side", "-f", k.file(config_map("one", a="1")))
    other = ("apply", "--server-side", "--field-manager=other", "-f", k.file(config_map("one", a="2")))

    assert "Apply failed with 1 conflict" in k(*other, code=1)
    assert "serverside-applied" in k(*other, "--force-conflicts")


def test_diff_and_dry_run_change_nothing(k: Kubectl) -> None:
    web = deployment("web", replicas=2)
    k("apply", "-f", k.file(web))
    web["spec"]["replicas"] = 3

    said = k("diff", "-f", k.file(web), code=1)
    assert "-  replicas: 2" in said
    assert "+  replicas: 3" in said
    assert "configured (server dry run)" in k("apply", "--dry-run=server", "-f", k.file(web))
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_edit(k: Kubectl) -> None:
    k("create", "deployment", "web", "--image=nginx")
    editor = k.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 1/replicas: 4/" "$1"\n')
    editor.chmod(0o700)

    assert "edited" in k("edit", "deploy", "web", env={"KUBE_EDITOR": str(editor)})
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "4"


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'),
        ("merge", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'),
        ("json", '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]'),
    ],
)
def test_patch(k: Kubectl, type: str, patch: str) -> None:
    k("create", "deployment", "web", "--image=nginx")

    assert "patched" in k("patch", "deploy", "web", "--type", type, "-p", patch)
    assert k("get", "deploy", "web", "-o", "jsonpath={..image}") == "nginx:2"
    assert "no change" in k("patch", "deploy", "web", "--type", type, "-p", patch)


def test_a_strategic_patch_of_our_kinds_is_refused_in_kubectls_words(k: Kubectl) -> None:
    k("create", "-f", k.file(policy("one")))

    said = k("patch", "pp", "one", "-p", '{"spec":{"priority":1}}', code=1)
    assert "strategic-merge-patch+json is not supported by policy.karmada.io/v1alpha1" in said


def test_label_annotate_scale_and_set_image(k: Kubectl) -> None:
    k("create", "deployment", "web", "--image=nginx")

    assert "labeled" in k("label", "deploy", "web", "tier=front")
    assert "already has a value" in k("label", "deploy", "web", "tier=back", code=1)
    assert "annotated" in k("annotate", "deploy", "web", "note=hello")
    assert "scaled" in k("scale", "deploy", "web", "--replicas=6")
    assert "image updated" in k("set", "image", "deploy/web", "nginx=nginx:3")
    found = json.loads(k("get", "deploy", "web", "-o", "json"))
    assert (found["metadata"]["labels"]["tier"], found["metadata"]["annotations"]["note"]) == ("front", "hello")
    assert found["spec"]["replicas"] == 6
    assert "replaced" in k("replace", "-f", k.file(found))


def test_watching(k: Kubectl, api: Client) -> None:
    api.post(deployments(k.namespace), deployment("web", replicas=1))
    with k.start("get", "deploy", "-w", "--output-watch-events") as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(2)]
        api.patch(deployments(k.namespace, "web"), {"spec": {"replicas": 3}})
        lines.append(watching.stdout.readline())
        api.delete(deployments(k.namespace, "web"))
        lines.append(watching.stdout.readline())
        watching.terminate()

    assert lines[0].split()[:3] == ["EVENT", "NAME", "READY"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["ADDED", "web", "0/1"],
        ["MODIFIED", "web", "0/3"],
        ["DELETED", "web", "0/3"],
    ]


def test_delete_waits_until_finalizers_are_done(k: Kubectl, api: Client) -> None:
    body = config_map("one")
    body["metadata"]["finalizers"] = ["example.org/hold"]
    api.post(config_maps(k.namespace), body)

    with k.start("delete", "cm", "one") as deleting:
        path = config_maps(k.namespace, "one")
        until(lambda: api.get(path).document["metadata"].get("deletionTimestamp"), within=60, alive=deleting)
        assert deleting.poll() is None
        api.patch(path, {"metadata": {"finalizers": None}})
        assert deleting.wait(60) == 0


def test_delete_by_selector_and_all(k: Kubectl) -> None:
    for name in ("a", "b", "c"):
        k("create", "configmap", name)
    k("label", "cm", "a", "doomed=yes")

    assert k("delete", "cm", "-l", "doomed=yes").count("deleted") == 1
    assert "deleted (server dry run)" in k("delete", "cm", "b", "--dry-run=server")
    assert k("delete", "cm", "--all").count("deleted") == 2


def test_wait(k: Kubectl, api: Client) -> None:
    path = deployments(k.namespace, "web")
    api.post(deployments(k.namespace), deployment("web"))
    available = {"type": "Available", "status": "True"}

    with k.start("wait", "deploy/web", "--for=condition=Available", "--timeout=60s") as waiting:
        api.patch(f"{path}/status", {"status": {"conditions": [available], "replicas": 1}})
        assert waiting.wait(60) == 0
    assert "condition met" in k("wait", "deploy/web", "--for=jsonpath={.status.replicas}=1", "--timeout=60s")
    with k.start("wait", "deploy/web", "--for=delete", "--timeout=60s") as waiting:
        api.delete(path)
        assert waiting.wait(60) == 0


def test_describe_shows_events(k: Kubectl, api: Client) -> None:
    made = api.post(deployments(k.namespace), deployment("web")).document
    involved = {
        "kind": "Deployment",
        "name": "web",
        "namespace": k.namespace,
        "uid": made["metadata"]["uid"],
        "apiVersion": "apps/v1",
    }
    event = {
        "metadata": {"name": "e"},
        "involvedObject": involved,
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    }
    api.post(f"/api/v1/namespaces/{k.namespace}/events", event)

    said = k("describe", "deploy", "web")
    assert "Replicas:" in said
    assert "Tested" in said
    assert "Tested" in k("get", "events")
    assert "Tested" in k("events", "--for", "deployment/web")


def test_describe_says_why_a_binding_waits(k: Kubectl, api: Client) -> None:
    member = cluster("member1", taints=[Taint("gpu", "NoSchedule")])
    store = MemoryStore(controllers=[Scheduler()])
    store.create(member, bound(spec(placement()), name="web-deployment", namespace=k.namespace))
    run_until_idle([Scheduler()], store, Settings(), world=World())
    refused = store.list(RESOURCE_BINDING)[0]
    (event,) = (json.loads(encode(one).at(1)) for one in store.list("Event"))
    bindings = f"/apis/work.karmada.io/v1alpha2/namespaces/{k.namespace}/resourcebindings"
    document = json.loads(encode(refused).at(1))
    document["metadata"] = {"name": "web-deployment", "namespace": k.namespace}
    document["spec"]["resource"]["namespace"] = k.namespace
    made = api.post(bindings, document).document
    made["status"] = document["status"]
    api.put(f"{bindings}/web-deployment/status", made)
    event["involvedObject"]["uid"] = made["metadata"]["uid"]
    event["metadata"] = {"name": "why", "namespace": k.namespace}
    api.post(f"/api/v1/namespaces/{k.namespace}/events", event)

    said = k("describe", "resourcebinding", "web-deployment")

    sentence = "taint gpu:NoSchedule is not tolerated"
    conditions, _, events = said.partition("Events:")
    assert sentence in " ".join(conditions.split()), said
    assert "ScheduleBindingFailed" in events, said
    assert sentence in " ".join(events.split()), said


def test_subresources(k: Kubectl) -> None:
    k("create", "deployment", "web", "--image=nginx")

    said = k("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2}}')
    assert "patched" in said
    assert k("get", "deploy", "web", "--subresource=status", "-o", "jsonpath={.status.replicas}") == "2"
    head, row = k("get", "deploy", "web", "--subresource=scale").splitlines()
    assert head.split() == ["NAME", "DESIRED", "AVAILABLE", "AGE"]
    assert row.split()[:3] == ["web", "1", "2"]

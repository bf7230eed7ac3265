"""An edit of a policy or a binding whose evictions are queued gets a warning that says what it does to them: nothing
[judged-once]."""

from __future__ import annotations

import shlex

from typer.testing import CliRunner

from apps.command.program import app
from tests.api.server import Client, Server
from tests.api.test_evictions import queue
from tests.builders.documents import policies, policy

TAINT_POLICIES = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
BEARS_IT = {"spec": {"placement": {"clusterTolerations": [{"key": "gone", "operator": "Exists"}]}}}


def claimed(api: Client, server: Server, namespace: str, *names: str) -> str:
    """A policy with a queued eviction of each of its bindings; return its URL."""
    made = api.post(policies(namespace), policy("web"))
    assert made.status == 201, made.body
    claim = {"propagationpolicy.karmada.io/namespace": namespace, "propagationpolicy.karmada.io/name": "web"}
    for name in names:
        queue(server, namespace, name)
        url = f"{BINDINGS.format(namespace)}/{name}"
        assert api.patch(url, {"metadata": {"annotations": claim}}).status == 200
    return policies(namespace, "web")


def test_editing_a_policy_says_how_many_evictions_it_does_not_change(
    api: Client, server: Server, namespace: str
) -> None:
    url = claimed(api, server, namespace, "one", "two")

    done = api.patch(url, BEARS_IT)

    assert done.status == 200, done.body
    warning = done.headers["warning"]
    assert warning.startswith('299 - "2 evictions of its workloads queued')
    assert "this edit neither stops nor changes them" in warning
    assert f"lifeboat skip {namespace}/one.member1 --reason" in warning
    assert "warning" not in api.patch(url, BEARS_IT).headers


def test_an_edit_says_that_held_evictions_are_tried_again(api: Client, server: Server, namespace: str) -> None:
    url = claimed(api, server, namespace, "one", "two", "three")
    server.sql(
        "UPDATE failover_eviction SET state = 'Held', reason = 'NoRefuge'"
        f" WHERE binding = 'work.karmada.io/ResourceBinding:{namespace}/two' RETURNING 1"
    )
    server.sql(
        "UPDATE failover_eviction SET state = 'Held', reason = 'EvictionHold'"
        f" WHERE binding = 'work.karmada.io/ResourceBinding:{namespace}/three' RETURNING 1"
    )

    warning = api.patch(url, BEARS_IT).headers["warning"]

    assert "3 evictions of its workloads queued: this edit neither stops nor changes them" in warning
    assert "; 1 of them is held (NoRefuge) and is tried again after it. To keep a copy" in warning


def test_what_it_names_is_there_to_be_skipped(api: Client, server: Server, namespace: str) -> None:
    url = claimed(api, server, namespace, "one")
    warning = api.patch(url, BEARS_IT).headers["warning"]

    command = warning.removesuffix('"').replace("\\", "").partition("To keep a copy on its cluster: ")[2]
    program, *arguments = shlex.split(command)
    skipped = CliRunner().invoke(app, [*arguments, "--yes"], env={"KUBECONFIG": str(server.kubeconfig)})

    assert (program, skipped.exit_code, skipped.stdout) == ("lifeboat", 0, "skip: 1 eviction\n"), skipped.stderr


def test_labels_of_a_policy_and_policies_of_others_are_edited_without_a_word(
    api: Client, server: Server, namespace: str
) -> None:
    url = claimed(api, server, namespace, "one")
    assert api.post(policies(namespace), policy("other")).status == 201

    assert "warning" not in api.patch(url, {"metadata": {"labels": {"team": "web"}}}).headers
    assert "warning" not in api.patch(policies(namespace, "other"), BEARS_IT).headers


def test_a_dry_run_shows_what_goes_with_a_taint_policy(api: Client, namespace: str) -> None:
    policy_, member = f"{TAINT_POLICIES}/{namespace}", f"{CLUSTERS}/{namespace}"
    owners = f'{{"gone:NoExecute":{{"by":{{"policy/{namespace}":""}}}}}}'
    named = {"name": namespace}
    noted = {"metadata": {**named, "annotations": {"failover.lifeboat.io/taint-owners": owners}}}
    taints = {"spec": {"syncMode": "Pull", "taints": [{"key": "gone", "effect": "NoExecute"}]}}
    rule = {"spec": {"addOnConditions": [], "taints": [{"key": "gone", "effect": "NoExecute"}]}}
    group = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
    assert api.post(CLUSTERS, {**group, **noted, **taints}).status == 201
    group = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy"}
    assert api.post(TAINT_POLICIES, {**group, "metadata": named, **rule}).status == 201

    shown = api.delete(policy_, dryRun="All")

    withdrawn = f'299 - "this deletion withdraws 1 taint: gone:NoExecute from cluster {namespace}"'
    assert shown.headers["warning"].split(", ")[0] == withdrawn
    assert api.get(policy_).status == 200
    assert api.delete(policy_).headers["warning"] == shown.headers["warning"]
    assert api.delete(member).status == 200


def test_editing_a_binding_says_the_same(api: Client, server: Server, namespace: str) -> None:
    queue(server, namespace, "one")
    url = f"{BINDINGS.format(namespace)}/one"

    warning = api.patch(url, BEARS_IT).headers["warning"]

    assert "1 eviction of its workloads queued" in warning

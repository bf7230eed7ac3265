"""A member that answers only in part, or nonsense: what can be read is read, and nothing stops for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from apps.clusters.client import MemberClient
from apps.members.watches import Watches
from apps.objects.store import store
from controlplane.apimachinery.meta import condition
from controlplane.clusters.questions import Answer, Collect, Observe, Probe, Target
from controlplane.controllers.cluster_status import ClusterStatus, ClusterStatusSnapshot
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.controllers.probes import Probes, ProbeSnapshot
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.state import Actor
from controlplane.estimate.namespace_quotas import read_quotas
from controlplane.kinds.cluster import Cluster, NamespaceQuota, PriorityClassTerm
from controlplane.kinds.rows import Collected, Observation
from controlplane.settings import Settings
from tests.apps.proxies import ANYWHERE, HOST
from tests.builders.objects import START, cluster
from tests.guide_fleet import node


def aggregated_discovery(group: str, version: str, kinds: dict[str, str], **more: str) -> dict[str, Any]:
    """Return the aggregated discovery of one version, with a resource for subresources only, as kube-apiserver has."""
    resources = [
        {"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "subresources": []}
        for name, kind in kinds.items()
    ]
    entry = {"version": version, "resources": [*resources, {"resource": "parts", "subresources": []}], **more}
    metadata = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
    return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": metadata, "versions": [entry]}]}


CORE = {"resources": [{"name": "pods", "kind": "Pod"}, {"name": "pods/log", "kind": "Pod"}]}
METRICS = {"resources": [{"name": "nodes", "kind": "NodeMetrics"}]}
GROUPS = {"groups": [{"versions": [{"groupVersion": "metrics.k8s.io/v1beta1"}]}]}
NODES: dict[str, Any] = {"items": [], "metadata": {"resourceVersion": "1"}}
WHOLE = {
    "/version": {"gitVersion": "v1.33.0"},
    "/apis": GROUPS,
    "/api/v1": CORE,
    "/apis/metrics.k8s.io/v1beta1": METRICS,
    "/api/v1/nodes": NODES,
    "/api/v1/pods": NODES,
}
QUOTA = {
    "metadata": {"name": "team", "namespace": "shop", "labels": {"kept": "no"}},
    "spec": {
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}
    },
    "status": {"hard": {"requests.cpu": "4", "pods": "9"}, "used": {"requests.cpu": "1500m", "pods": "1"}},
}
AGGREGATED = {
    "/api": aggregated_discovery("", "v1", {"pods": "Pod"}),
    "/apis": aggregated_discovery("metrics.k8s.io", "v1beta1", {"nodes": "NodeMetrics"}),
}
DOWN = web.json_response({"message": "the server is currently unable to handle the request"}, status=503)
PAGE = web.Response(text="<html>log in first</html>", content_type="text/html")


@asynccontextmanager
async def member(answers: dict[str, Any]) -> AsyncIterator[Target]:
    """A member that answers each path with this document, or response; `answers` may be changed meanwhile."""

    async def answer(request: web.Request) -> web.StreamResponse:
        found = answers[request.path]
        if isinstance(found, web.Response):
            return web.Response(body=found.body, status=found.status, content_type=found.content_type)
        return web.json_response(found)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)  # type: ignore[arg-type]  # it gives whole requests, not base ones
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    try:
        yield Target("member1", f"http://{HOST}:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


async def collected(answers: dict[str, Any], before: Collected | None = None, *, after: float = 0) -> Collected | None:
    """Return what is kept of a member that answers like this, `before` where that is all there is."""
    client = MemberClient(ANYWHERE)
    try:
        async with member(answers) as target:
            answer = await client.collect(Collect(target, resources=True))
    finally:
        await client.close()
    now = START + timedelta(seconds=after)
    decided = Collection().decide(
        CollectionSnapshot(cluster("member1"), None, before), Settings(), now=now, answer=answer
    )
    saved = [one.row for one in decided.changes if isinstance(one, Save)]
    return saved[0] if saved else before  # type: ignore[return-value]  # Collection keeps nothing else


def shown(row: Collected | None) -> Cluster:
    """Return the Cluster whose status has come to show what was collected."""
    seen = Observation("member1", status="True", since=START, observed_at=START)
    snapshot = ClusterStatusSnapshot(cluster("member1"), seen, row)
    decided = ClusterStatus().decide(snapshot, Settings(), now=START + timedelta(hours=1))
    (put,) = (one for one in decided.changes if isinstance(one, Put))
    assert isinstance(put.new, Cluster)
    return put.new


def reported(row: Collected | None) -> tuple[str, str, list[str], str]:
    """Return the condition about APIs, the versions that are shown, and the Kubernetes version."""
    status = shown(row).status
    said = condition(status.conditions, "CompleteAPIEnablements")
    assert said is not None
    return said.status, said.reason, [one.group_version for one in status.api_enablements], status.kubernetes_version


def test_an_aggregated_api_that_is_down_hides_nothing_but_itself() -> None:
    async def story() -> None:
        broken = {**WHOLE, "/apis/metrics.k8s.io/v1beta1": DOWN}

        first = await collected(broken)
        assert reported(first) == ("False", "Partial", ["v1"], "v1.33.0")

        whole = await collected(WHOLE, first, after=10)
        assert reported(whole) == ("True", "Complete", ["metrics.k8s.io/v1beta1", "v1"], "v1.33.0")

        again = await collected({**broken, "/version": {"gitVersion": "v1.34.0"}}, whole, after=20)
        assert reported(again) == ("False", "Partial", ["metrics.k8s.io/v1beta1", "v1"], "v1.34.0")
        said = condition(shown(again).status.conditions, "CompleteAPIEnablements")
        assert said is not None
        assert "metrics.k8s.io/v1beta1" in said.message

    asyncio.run(story())


def test_a_member_with_aggregated_discovery_answers_two_requests_for_all_versions() -> None:
    async def story() -> None:
        one_by_one = await collected(WHOLE)
        rest = {
            path: answer for path, answer in WHOLE.items() if path not in ("/api/v1", "/apis/metrics.k8s.io/v1beta1")
        }
        whole = await collected({**rest, **AGGREGATED})  # another path would be answered 500

        assert whole == one_by_one
        assert reported(whole) == ("True", "Complete", ["metrics.k8s.io/v1beta1", "v1"], "v1.33.0")

        stale = aggregated_discovery("metrics.k8s.io", "v1beta1", {}, freshness="Stale")
        partial = await collected({**rest, **AGGREGATED, "/apis": stale}, whole, after=10)
        assert reported(partial) == ("False", "Partial", ["metrics.k8s.io/v1beta1", "v1"], "v1.33.0")

    asyncio.run(story())


@pytest.mark.parametrize(
    "core",
    [
        DOWN,
        PAGE,
        {"kind": "APIVersions", "versions": ["v1"]},
        aggregated_discovery("", "v1", {}, freshness="Stale"),
        {"items": [{"versions": [{"version": 1}]}]},
    ],
    ids=["down", "a page", "not aggregated", "stale", "malformed"],
)
def test_a_member_whose_aggregated_core_does_not_answer_is_not_read_at_all(core: Any) -> None:
    assert asyncio.run(collected({**WHOLE, **AGGREGATED, "/api": core})) is None


@pytest.mark.parametrize(
    "answers",
    [
        {"/apis": {"groups": None}, "/api/v1/nodes": {**NODES, "items": None}},
        {"/apis/metrics.k8s.io/v1beta1": {"resources": None}},
    ],
)
def test_a_list_that_is_null_is_empty(answers: dict[str, Any]) -> None:
    row = asyncio.run(collected({**WHOLE, **answers}))

    assert reported(row)[:2] == ("True", "Complete")


@pytest.mark.parametrize("path", ["/api/v1", "/apis", "/version", "/api/v1/nodes"])
@pytest.mark.parametrize("answer", [DOWN, PAGE], ids=["down", "a page"])
def test_a_member_whose_core_does_not_answer_is_not_read_at_all(path: str, answer: web.Response) -> None:
    assert asyncio.run(collected({**WHOLE, path: answer})) is None


@pytest.mark.django_db(transaction=True)
def test_whatever_a_member_says_can_be_stored() -> None:
    """PostgreSQL keeps no NUL, and one report it refuses would take those of all other members with it."""
    odd = "v1\0.33"
    nonsense = web.Response(body=b"\0\xff no", status=500, content_type="text/plain")
    groups = {"groups": [{"versions": [{"groupVersion": "odd\0.io/v1"}]}]}
    nodes = {**NODES, "items": [node("n\0", "8", "32Gi", pods=10)]}
    nodes["items"][0]["status"]["allocatable"]["example.io/o\0dd"] = "1"
    apis = {"/apis": groups, "/api/v1": {"resources": [{"name": "p\0ds", "kind": "P\0d"}]}, "/api/v1/nodes": nodes}

    async def probed() -> Answer:
        client = MemberClient(ANYWHERE)
        try:
            async with member({"/readyz": nonsense}) as target:
                return await client.probe(Probe(target, seconds=10))
        finally:
            await client.close()

    row = asyncio.run(collected({**WHOLE, **apis, "/version": {"gitVersion": odd}}))
    seen = Probes().decide(
        ProbeSnapshot(cluster("member1"), None, None), Settings(), now=START, answer=asyncio.run(probed())
    )

    assert row is not None
    stored = store().apply([(None, Decision(changes=(Save(row),))), (None, seen)], by=Actor("test"))
    assert [one.lost for one in stored] == ["", ""]
    (kept,) = store().rows(Collected, "key", ["member1"])["member1"]
    assert kept.kubernetes_version == "v1 .33"


def until_changed(test: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(asyncio.Event()), 60))


def test_a_watch_that_is_answered_with_a_page_goes_on_when_that_is_over() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "settings"}}
    note = {"work.karmada.io/namespace": "karmada-es-member1", "work.karmada.io/name": "w"}
    held = {**manifest, "metadata": {**manifest["metadata"], "annotations": note}}  # type: ignore[dict-item]  # a dict
    answers: dict[str, Any] = {"/api/v1/configmaps": PAGE}

    async def story(read: asyncio.Event) -> None:
        client = MemberClient(ANYWHERE)
        watches = Watches(client, lambda works: read.set() if works else None)
        try:
            async with member(answers) as target:
                watches.want({("member1", "v1", "ConfigMap"): target})
                asked = await client.list(target, "/api/v1/configmaps")
                assert not isinstance(asked, tuple)
                assert "not a JSON object" in asked.problem

                answers["/api/v1/configmaps"] = {"items": [held], "metadata": {"resourceVersion": "7"}}
                await read.wait()

                assert watches.observe(Observe("member1", manifest)).body == held
        finally:
            await watches.close()
            await client.close()

    until_changed(story)


def test_quotas_of_namespaces_are_read_only_while_the_gate_is_open() -> None:
    quotas = {"items": [QUOTA], "metadata": {"resourceVersion": "1"}}

    async def story() -> list[Any]:
        answers: dict[str, Any] = {**WHOLE, "/api/v1/resourcequotas": quotas}
        client, found = MemberClient(ANYWHERE), []
        try:
            async with member(answers) as target:
                found.append(await client.collect(Collect(target, resources=True, quotas=True)))
                del answers["/api/v1/resourcequotas"]  # if it were asked for, that would be a failure
                found.append(await client.collect(Collect(target, resources=True)))
        finally:
            await client.close()
        return found

    asked, spared = asyncio.run(story())

    expected = NamespaceQuota("shop", "team", {"cpu": "2500m"}, (PriorityClassTerm("In", ("a",)),))
    assert read_quotas(asked.body["resourcequotas"]) == (expected,)
    assert spared.ok
    assert "resourcequotas" not in spared.body


def test_labels_and_taints_of_nodes_are_kept_only_if_single_nodes_are_asked_for() -> None:
    labelled = {
        "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {"kept": "no"}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
        "status": {"allocatable": {"cpu": "4", "pods": "9"}},
    }
    nodes = {"items": [labelled], "metadata": {"resourceVersion": "1"}}

    async def story() -> list[Any]:
        client = MemberClient(ANYWHERE)
        try:
            async with member({**WHOLE, "/api/v1/nodes": nodes}) as target:
                return [
                    (await client.collect(Collect(target, resources=True, single_nodes=single))).body["nodes"][0]
                    for single in (True, False)
                ]
        finally:
            await client.close()

    single, summed = asyncio.run(story())

    assert single == {
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "pods": "9"}},
    }
    assert summed == {**single, "metadata": {"name": "n1"}, "spec": {}}

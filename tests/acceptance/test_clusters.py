"""The life of a cluster on the running product: unjoined and joined again; heard of by its own agent
[unjoin-and-drain]."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.acceptance.live import CLUSTERS, MEMBERS, SECRETS, Live
from tests.acceptance.manifests import on, policy, workload
from tests.api.server import Client

pytestmark = pytest.mark.slow

LEAVER = "member5"
LEAVER_FIRST = (LEAVER, *(name for name in MEMBERS if name != LEAVER))
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SECRETS}/leases"
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works"
WISH = "failover.lifeboat.io/unjoin"
HOME_FIRST = {"clusterAffinities": [{"affinityName": "home", "clusterNames": [LEAVER]}, {"affinityName": "away"}]}
ONE_AWAY = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}


@contextmanager
def joined_again(fleet: Live) -> Iterator[dict[str, Any]]:
    """Give a cluster as it is, and join it again when the block has ended."""
    before = fleet.get(f"{CLUSTERS}/{LEAVER}")
    try:
        yield before
    finally:
        if fleet.get(f"{CLUSTERS}/{LEAVER}"):  # the test has failed: those after it find five clusters all the same
            fleet.api.patch(f"{CLUSTERS}/{LEAVER}", {"metadata": {"annotations": {WISH: "delete"}}})
            fleet.api.delete(f"{CLUSTERS}/{LEAVER}")
        fleet.until(lambda: not fleet.get(f"{CLUSTERS}/{LEAVER}"))
        spec = {key: before["spec"][key] for key in ("syncMode", "apiEndpoint", "secretRef")}
        assert fleet.api.post(CLUSTERS, {"metadata": {"name": LEAVER}, "spec": spec}).status == 201


def held(fleet: Live, ns: str) -> list[str]:
    """Return what the leaver's own people see of a namespace there."""
    found = fleet.member(LEAVER, "GET", f"/api/v1/namespaces/{ns}")
    return [] if found is None else [ns]


def test_a_deleted_cluster_is_emptied_through_the_queue_before_it_goes(fleet: Live, ns: str) -> None:
    fleet.configure(compat={"terminatingTaint": True})
    fleet.apply(policy("web", {**HOME_FIRST, **ONE_AWAY}), workload("web", 2), namespace=ns)
    fleet.until(lambda: set(fleet.placed(ns, "web-deployment")) == {LEAVER} and fleet.settled(ns, "web-deployment"))
    fleet.pods_ready_after(1.5)
    seen: list[int] = []

    with joined_again(fleet):
        answers = []

        def is_taken() -> bool:  # the setting counts within a second
            answers.append(fleet.api.delete(f"{CLUSTERS}/{LEAVER}"))
            return answers[-1].status == 200

        fleet.until(is_taken)
        deleted = answers[-1]
        assert deleted.document["metadata"]["finalizers"] == ["karmada.io/cluster-controller"]

        def is_gone() -> bool:
            seen.append(sum(fleet.ready(ns, "web", of=LEAVER_FIRST).values()))
            return not fleet.get(f"{CLUSTERS}/{LEAVER}")

        fleet.until(is_gone)

        assert min(seen) >= 2, seen
        assert LEAVER not in fleet.placed(ns, "web-deployment")
        assert fleet.settled(ns, "web-deployment")
        assert held(fleet, ns) == []
        assert fleet.items(WORKS.format(LEAVER)) == []


def test_a_cluster_with_workloads_is_deleted_only_with_a_word_about_them(fleet: Live, ns: str) -> None:
    fleet.apply(policy("web", on(LEAVER)), workload("web", 2), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "web-deployment"))

    with joined_again(fleet):
        refused = fleet.api.delete(f"{CLUSTERS}/{LEAVER}")
        assert refused.status == 409
        assert f"{ns}/web-deployment" in refused.document["message"]

        fleet.patch(f"{CLUSTERS}/{LEAVER}", {"metadata": {"annotations": {WISH: "keep"}}})
        assert fleet.api.delete(f"{CLUSTERS}/{LEAVER}").status == 200
        fleet.until(lambda: not fleet.get(f"{CLUSTERS}/{LEAVER}"))

        kept = fleet.member(LEAVER, "GET", f"/apis/apps/v1/namespaces/{ns}/deployments/web")
        assert kept["status"]["readyReplicas"] == 2
        marks = {**kept["metadata"].get("labels", {}), **kept["metadata"].get("annotations", {})}
        assert not [key for key in marks if "karmada.io/" in key]
        fleet.member(LEAVER, "DELETE", f"/api/v1/namespaces/{ns}")


def test_a_cluster_that_was_joined_under_a_second_name_keeps_all_when_that_is_unjoined(fleet: Live, ns: str) -> None:
    fleet.apply(policy("web", on(LEAVER)), workload("web", 2), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "web-deployment"))
    paths = (f"/api/v1/namespaces/{ns}", f"/apis/apps/v1/namespaces/{ns}/deployments/web")
    before = [fleet.member(LEAVER, "GET", path)["metadata"] for path in paths]
    spec = {key: fleet.get(f"{CLUSTERS}/{LEAVER}")["spec"][key] for key in ("syncMode", "apiEndpoint", "secretRef")}

    assert fleet.api.post(CLUSTERS, {"metadata": {"name": "again"}, "spec": spec}).status == 201

    def namespace_is_used() -> bool:
        found = [one for one in fleet.items(WORKS.format("again")) if one["spec"]["workload"]["manifests"]]
        mine = [one for one in found if one["spec"]["workload"]["manifests"][0]["metadata"]["name"] == ns]
        return bool(mine) and fleet.condition(mine[0], "Applied").get("status") == "True"

    fleet.until(namespace_is_used)
    assert fleet.api.delete(f"{CLUSTERS}/again").status == 200
    fleet.until(lambda: not fleet.get(f"{CLUSTERS}/again"))

    after = [fleet.member(LEAVER, "GET", path)["metadata"] for path in paths]
    assert [one["uid"] for one in after] == [one["uid"] for one in before]
    assert not any("deletionTimestamp" in one for one in after)


class Agent:
    """An agent in a member of its own, whose clock is an hour behind."""

    def __init__(self, fleet: Live, name: str) -> None:
        self.name = name
        self.api: Client = fleet.server.client(fleet.server.manage("token", "create", "--agent", name))
        self._quiet = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def _beat(self) -> None:
        client = Client(self.api.address, self.api.token)
        number = 0
        while not self._quiet.wait(0.25):
            number += 1
            late = datetime.now(UTC).replace(year=2020, microsecond=number)
            spec = {"holderIdentity": self.name, "renewTime": late.isoformat(timespec="microseconds")}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name}}
            client.patch(
                f"{LEASES}/{self.name}?fieldManager=agent&force=true",
                {**lease, "spec": spec},
                type="application/apply-patch+yaml",
            )

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Renew the Lease for as long as the block lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._quiet.set()
            self._thread.join()

    def say(self, status: str, **more: Any) -> None:
        reported = {"type": "Ready", "status": status, "reason": "ClusterReady", "message": "from inside"}
        done = self.api.patch(f"{CLUSTERS}/{self.name}/status", {"status": {"conditions": [reported], **more}})
        assert done.status == 200, done.body

    def work_off(self) -> list[str]:
        """Report every Work as applied, and let go those that are to be removed; return their names."""
        names = []
        for work in self.api.get(WORKS.format(self.name)).document.get("items", ()):
            where, names = f"{WORKS.format(self.name)}/{work['metadata']['name']}", [*names, work["metadata"]["name"]]
            if "deletionTimestamp" in work["metadata"]:
                assert self.api.patch(where, {"metadata": {"finalizers": None}}).status == 200
                continue
            applied = {"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": ""}
            assert self.api.patch(f"{where}/status", {"status": {"conditions": [applied]}}).status == 200
        return names


def test_a_pull_member_lives_by_what_its_agent_says_and_leaves_like_any_other(fleet: Live, ns: str) -> None:
    fleet.configure(clusterMonitorGracePeriod=4, clusterStartupGracePeriod=30)
    assert fleet.server.manage("join", "edge", "--pull").startswith("edge joined")
    agent, where = Agent(fleet, "edge"), f"{CLUSTERS}/edge"
    apis = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]

    def ready() -> tuple[str, str]:
        found = fleet.condition(fleet.get(where), "Ready")
        return found.get("status", ""), found.get("reason", "")

    with agent.at_work():
        fleet.until(lambda: ready() == ("True", "ClusterHeartbeat"))
        agent.say("True", apiEnablements=apis)
        fleet.until(lambda: ready() == ("True", "ClusterReady"))
        fleet.apply(policy("web", on("edge")), workload("web", 1), namespace=ns)
        fleet.until(lambda: any(name.startswith("web-") for name in agent.work_off()))
        agent.say("False")
        fleet.until(lambda: fleet.taints("edge", "NoSchedule"))
        assert ready()[0] == "False"
        agent.say("True", apiEnablements=apis)
    fleet.until(lambda: ready() == ("Unknown", "ClusterStatusUnknown"))

    second = Agent(fleet, "edge")
    with second.at_work():
        second.say("True", apiEnablements=apis)
        fleet.patch(where, {"metadata": {"annotations": {WISH: "delete"}}})
        assert fleet.api.delete(where).status == 200
        fleet.until(lambda: not fleet.get(where) or second.work_off() is None)
    fleet.until(lambda: second.api.get(where).status == 401)  # a check of a login counts for up to a second

    assert fleet.items(WORKS.format("edge")) == []

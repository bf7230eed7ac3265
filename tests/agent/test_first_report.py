"""An agent that starts says that its cluster is Ready only after it has found that out itself [heartbeat-leases]."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access
from apps.agent.disk import Disk
from apps.agent.mirror import Mirror
from apps.agent.reports import Reports
from apps.agent.store import AgentStore
from controlplane.clusters.questions import Answer
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.probes import Probes
from controlplane.engine.run import World, mark_due_at_start, run_batch
from controlplane.kind import text_of
from controlplane.kinds.cluster import Cluster
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

SETTINGS = Settings()
OUT, WELL = Answer(0, problem="connection refused"), Answer(200, "ok")


class Reported(ControlPlane):
    """A control plane that has this Cluster, and notes which Ready is reported."""

    def __init__(self, present: Cluster) -> None:
        self.cluster = present.metadata.name
        self.present = present
        self.said: list[str] = []

    async def get(self, path: str) -> Answer:
        return Answer(200, orjson.loads(text_of(self.present)))

    async def put(self, path: str, body: dict[str, Any]) -> Answer:
        self.said += [one["status"] for one in body["status"]["conditions"] if one["type"] == "Ready"]
        return Answer(200, body)


class Started:
    """An agent that has just started, with the Cluster that it had on its disk."""

    def __init__(self, folder: Path, *, kept: str, answer: Answer, established: bool = True, skew: int = 0) -> None:
        self.now, self.answer = START + timedelta(seconds=skew), answer
        self.controllers = [ClusterStatus(), Probes()]
        self.store = AgentStore(self.controllers, Disk(folder))
        self.store.clock = lambda: self.now
        present = cluster("edge", ready="Unknown", established=established)
        self.plane = Reported(present)
        self.reports = Reports(self.store, self.plane, in_thread=in_thread)
        self.mirror = Mirror(self.store, self.plane, Access("https://edge"), in_thread=in_thread)
        self.mirror.cluster(orjson.loads(text_of(cluster("edge", ready=kept, established=established))))
        mark_due_at_start(self.controllers, self.store)

    def passes(self, seconds: int) -> None:
        """Let time pass. Each second it probes, and each ten seconds it reads its Cluster and reports."""
        world = World(lambda questions: [question and self.answer for question in questions])
        for second in range(seconds):
            for controller in self.controllers:
                run_batch(controller, self.store, SETTINGS, world=world)
            if second % 10 == 0:
                self.mirror.cluster(orjson.loads(text_of(self.plane.present)))
                asyncio.run(self.reports._send())
            self.now += timedelta(seconds=1)

    @property
    def beats(self) -> bool:
        return self.reports.beats(self.plane.present.ref)


async def in_thread(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def test_a_cluster_that_failed_with_its_agent_is_not_ready_again_because_the_agent_starts(tmp_path: Path) -> None:
    agent = Started(tmp_path, kept="True", answer=OUT)

    agent.passes(25)
    assert agent.plane.said == []
    assert not agent.beats
    agent.passes(30)

    assert set(agent.plane.said) == {"False"}
    assert agent.beats, "its silence would be shown as Unknown"


@pytest.mark.parametrize("answer", [WELL, Answer(401, problem="Unauthorized", access=True)], ids=["well", "refused"])
def test_a_cluster_that_answers_is_reported_at_once(answer: Answer, tmp_path: Path) -> None:
    agent = Started(tmp_path, kept="True", answer=answer)

    agent.passes(12)

    assert set(agent.plane.said) == {"True"}
    assert agent.beats


def test_heartbeats_go_on_while_a_failure_has_not_lasted_long_enough_to_count(tmp_path: Path) -> None:
    """Without them the cluster would be Unknown after a failure of seconds."""
    agent = Started(tmp_path, kept="True", answer=WELL)
    agent.passes(12)

    agent.answer = OUT
    agent.passes(15)

    assert agent.beats
    assert set(agent.plane.said) == {"True"}


def test_heartbeats_of_a_cluster_that_was_never_ready_do_not_begin(tmp_path: Path) -> None:
    agent = Started(tmp_path, kept="False", answer=OUT, established=False)

    agent.passes(40)

    assert set(agent.plane.said) == {"False"}
    assert not agent.beats


@pytest.mark.parametrize("skew", [-3600, 0, 3600])
def test_a_cluster_is_ready_again_whatever_the_clock_of_its_agent_says(skew: int, tmp_path: Path) -> None:
    agent = Started(tmp_path, kept="False", answer=WELL, skew=skew)

    agent.passes(50)

    assert set(agent.plane.said) == {"True"}

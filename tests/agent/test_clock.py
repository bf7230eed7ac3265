"""The clock of the machine of an agent is set while it runs."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from apps.agent.clock import SteadyClock
from apps.agent.disk import Disk
from apps.agent.store import AgentStore
from controlplane.clusters.questions import Answer
from controlplane.controllers.probes import Probes
from controlplane.engine.run import World, run_batch
from controlplane.settings import Settings
from tests.builders.objects import START, cluster


class Machine:
    """A machine whose clock is `off` from the time that has passed."""

    def __init__(self) -> None:
        self.seconds, self.off = 0.0, timedelta(0)
        self.clock = SteadyClock(lambda: START + timedelta(seconds=self.seconds) + self.off, lambda: self.seconds)


@pytest.mark.parametrize("set_to", [timedelta(hours=-3), timedelta(hours=3)], ids=["back", "forth"])
def test_a_member_is_probed_as_before_when_the_clock_is_set(set_to: timedelta, tmp_path: Path) -> None:
    machine, probes, asked = Machine(), Probes(), list[float]()
    store = AgentStore([probes], Disk(tmp_path), machine.clock)
    store.mirror(cluster("edge").with_spec(api_endpoint="https://edge", sync_mode="Push"))

    def answer(questions: list[object]) -> list[Answer]:
        asked.append(machine.seconds)
        return [Answer(200, "ok") for _ in questions]

    for second in range(61):
        machine.seconds = float(second)
        if second == 25:
            machine.off = set_to
        run_batch(probes, store, Settings(), world=World(answer))

    assert max(later - sooner for sooner, later in pairwise(asked)) <= 10
    assert asked[-1] >= 50


def test_the_time_never_goes_back_and_passes_at_its_pace() -> None:
    machine = Machine()
    seen = [machine.clock()]
    for off in (0, -3600, -3600, -1800, -7200, -7200):
        machine.seconds += 10
        machine.off = timedelta(seconds=off)
        seen.append(machine.clock())

    steps = [(later - sooner).total_seconds() for sooner, later in pairwise(seen)]
    assert steps == [10, 10, 10, 1810, 10, 10]

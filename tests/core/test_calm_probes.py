"""Which answers of a member make its cluster due: all but another answer like the last of a calm cluster."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.clusters.health import observe, seen
from controlplane.clusters.questions import Answer
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.probes import Probes, ProbeSnapshot
from controlplane.engine.decision import Decision, Drop
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

SETTINGS = Settings()
CALM, DOWN = (
    observe(Observation("member1"), what, SETTINGS, now=START) for what in (seen(200), seen(0, problem="refused"))
)
OK = Answer(200)
BY = Actor("probes", controller=True)


def published(type_: str, status: str) -> Cluster:
    member = cluster("member1")
    rest = [one for one in member.status.conditions if one.type != type_]
    return member.with_status(conditions=(*rest, Condition(type_, status, "Said")))


def due(member: Cluster, last: Observation | None, answer: Answer, *, seconds: float = 10) -> bool:
    """Test whether the cluster is due for its status after an answer, `seconds` after the one before."""
    store = MemoryStore(controllers=[Probes(), ClusterStatus()], clock=lambda: START)
    now = START + timedelta(seconds=seconds)
    decision = Probes().decide(ProbeSnapshot(member, None, last), SETTINGS, now=now, answer=answer)
    store.apply([(None, decision)], by=BY)
    [row] = store.rows(Observation, "key", ["member1"])["member1"]
    assert row.observed_at == now, "the row is stored in any case"
    return store.next_due(["cluster_status"]) is not None


def test_another_answer_like_the_last_makes_a_calm_cluster_not_due() -> None:
    assert not due(cluster("member1"), CALM, OK)


@pytest.mark.parametrize(
    ("member", "last", "answer", "seconds"),
    [
        (cluster("member1"), None, OK, 10),
        (cluster("member1"), CALM, Answer(500), 10),
        (cluster("member1"), CALM, Answer(401, access=True), 10),
        (cluster("member1"), DOWN, OK, 10),
        (cluster("member1"), DOWN, Answer(0, problem=DOWN.message), 10),
        (cluster("member1"), CALM, OK, 3600),
        (published("Ready", "False"), CALM, OK, 10),
        (published("AccessLost", "True"), CALM, OK, 10),
        (published("Flapping", "True"), CALM, OK, 10),
    ],
    ids=[
        *("the first", "a failure", "access refused", "after a failure", "the same failure", "after a gap"),
        *("not Ready yet, so a fence may end", "access was lost", "flapping"),
    ],
)
def test_every_other_answer_makes_it_due(
    member: Cluster, last: Observation | None, answer: Answer, seconds: float
) -> None:
    assert due(member, last, answer, seconds=seconds)


def test_a_removed_observation_makes_it_due() -> None:
    store = MemoryStore(controllers=[Probes(), ClusterStatus()], clock=lambda: START)

    store.apply([(None, Decision(changes=(Drop(CALM),)))], by=BY)

    assert store.next_due(["cluster_status"]) is not None

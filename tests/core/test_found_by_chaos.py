"""What chaos has found and one controller alone can show (the stories are in tests/simulation)."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref
from controlplane.controllers.graceful_eviction import GracefulEviction
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.memory import MemoryStore
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Mark
from controlplane.kinds import CLUSTER, FAILOVER_CONFIGURATION
from controlplane.kinds.template import Template
from controlplane.kinds.work import APPLIED, Work
from tests.builders.objects import binding as placed
from tests.builders.objects import cluster, leaving, policy
from tests.builders.placements import by_weight
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story


def test_a_task_is_looked_at_when_a_cluster_it_goes_to_changes() -> None:
    """The new copies were healthy while their cluster was not Ready: only the cluster changes when it is."""
    web = placed("web", by_weight(member1=1, member2=1), on={"member2": 2})
    web = replace(web, spec=replace(web.spec, graceful_eviction_tasks=(leaving("member1"),)))
    store = MemoryStore(controllers=[GracefulEviction()])
    store.create(web)

    found = {name: _expanded(store, name) for name in ("member1", "member2", "member3")}

    assert found == {"member1": [web.ref], "member2": [web.ref], "member3": []}


def test_other_settings_make_each_binding_due_once_that_leaves_a_cluster() -> None:
    tasks = (leaving("member1"), leaving("member2"))
    webs = [placed(f"web{number}", by_weight(member3=1), on={"member3": 1}) for number in range(3)]
    gone = [replace(web, spec=replace(web.spec, graceful_eviction_tasks=tasks)) for web in webs]
    store = MemoryStore(controllers=[GracefulEviction()])
    stays = placed("stays", by_weight(member3=1), on={"member3": 1})
    store.create(*(cluster(f"member{number}") for number in (1, 2, 3)), *gone, stays)

    assert _expanded(store, "default", kind=FAILOVER_CONFIGURATION, limit=2) == [web.ref for web in gone]


def _expanded(store: MemoryStore, name: str, *, kind: str = CLUSTER, limit: int = 10) -> list[Ref]:
    found: list[Ref] = []
    cursor: str | None = ""
    while cursor is not None:
        refs, cursor = GracefulEviction().expand(store, Ref(kind, "", name), after=cursor, limit=limit)
        found += refs
    return found


def test_a_work_is_asked_for_its_status_once_it_is_applied() -> None:
    """Its member may have reported the object before; what was reported then had no place yet."""
    story = Story(*MEMBERS, deployment(), policy())
    story.place(deployment(), member1=3)
    work = story.works()["member1"]

    applied = _saying(work, "True")

    marks = list(Router([WorkStatus()]).marks(work, applied, by=Actor("execution")))
    assert marks == [Mark(WorkStatus.name, work.ref)]
    assert not list(Router([WorkStatus()]).marks(applied, applied, by=Actor("execution")))


def _saying(work: Work, status: str) -> Work:
    return work.with_status(conditions=(Condition(APPLIED, status),))


def test_i1_a_copy_gives_nothing_away_while_another_one_leaves() -> None:
    """member2 was left and is chosen again, for less than it holds, because member3 is left now."""
    story, web = _divided()
    story.place(web, member1=1, member2=2)

    story.place(web, (leaving("member3"),), member1=2, member2=1)
    while_leaving = _replicas(story)
    story.place(web, member1=2, member2=1)

    assert while_leaving == {"member1": 2, "member2": 2}
    assert _replicas(story) == {"member1": 2, "member2": 1}


def test_a_workload_scaled_down_while_a_copy_leaves_is_scaled_down() -> None:
    story, web = _divided()
    story.place(web, (leaving("member3"),), member1=1, member2=2)

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "replicas": 1}}))
    story.place(web, (leaving("member3"),), member2=1)

    assert _replicas(story)["member2"] == 1


def _divided() -> tuple[Story, Template]:
    web = deployment(replicas=3)
    return Story(*MEMBERS, web, policy(placement=DIVIDED_PLACEMENT)), web


def _replicas(story: Story) -> dict[str, int]:
    return {name: work.manifest["spec"]["replicas"] for name, work in story.works().items() if name != "member3"}

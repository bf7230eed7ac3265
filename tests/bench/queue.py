"""queue: seconds until every binding on a lost cluster is in the eviction queue, one process, fan-out in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, process_time

from msgspec.structs import replace

from apps.development.fleet import store_all
from apps.objects.store import store
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding, ObjectReference, ResourceBindingSpec, TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Placement
from controlplane.kinds.rows import FleetState
from controlplane.settings import GATES, Settings
from tests.bench.figure import Figure
from tests.builders.bare import cluster
from tests.builders.objects import bound

BINDINGS = 100_000
LOST = Ref(CLUSTER, "", "queue-lost")
PER_NAMESPACE = 1000
ON = Settings(feature_gates={**GATES, "Failover": True})


def run() -> list[Figure]:
    """Taint a cluster with 100,000 bindings on it; count rows until the fan-out has ended."""
    ground, controller = store(), EvictionQueue()
    store_all(ground, [cluster(LOST.name)], by="bench")
    store_all(ground, list(_bindings()), by="bench")
    now = ground.now()
    ground.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=now)),)))], by=Actor("bench"))
    _work(controller)
    lost = ground.get([LOST])[LOST]
    tainted = lost.with_spec(taints=(Taint("bench", "NoExecute", time_added=now),))
    began, cpu_before = perf_counter(), process_time()
    assert not ground.apply([(None, Decision(changes=(Put(tainted, lost),)))], by=Actor("bench"))[0].lost
    _work(controller)
    seconds, cpu = perf_counter() - began, process_time() - cpu_before
    queued = ground.evictions_by_cluster().get(LOST.name, 0)
    assert queued == BINDINGS, f"{queued} of {BINDINGS} are queued"
    conditions = f"{BINDINGS:,} bindings on one cluster, from its taint to the last row, one process"
    return [
        Figure("queue", seconds, "s", BINDINGS, conditions),
        Figure("queue.cpu", cpu, "s", BINDINGS, "processor time of that process"),
    ]


def _work(controller: EvictionQueue) -> None:
    lease = store().take_lease(controller.group, 0, holder="bench", seconds=600)
    while run_batch(controller, store(), ON, world=World(), lease=lease).claimed:
        pass


def _meta(name: str, *, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", generation=1)


def _bindings() -> Iterator[Binding]:
    spec = ResourceBindingSpec(
        ObjectReference("apps/v1", "Deployment", "", ""),
        replicas=1,
        clusters=(TargetCluster(LOST.name, 1),),
        placement=Placement(),
    )
    for number in range(BINDINGS):
        namespace, name = f"queue-{number // PER_NAMESPACE}", f"app-{number}"
        resource = ObjectReference("apps/v1", "Deployment", name, namespace)
        yield bound(replace(spec, resource=resource), name=f"{name}-deployment", namespace=namespace)

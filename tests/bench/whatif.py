"""whatif: how long a question about 100 clusters and 10,000 bindings takes: worked out on one core without reading
them, read from PostgreSQL, and asked through the API until its answer is read."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time, sleep
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.controllers.reads.fleet_state import FLEET_ROW
from controlplane.controllers.reads.supposed_snapshot import supposed_snapshot
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.state import Actor
from controlplane.insight.changes import Change, ClustersDrained, ClustersLost
from controlplane.insight.effects import Effects
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.insight.what_if import what_if
from controlplane.kinds import CLUSTER_TAINT_POLICY, FAILOVER_CONFIGURATION
from controlplane.kinds import KINDS as API_KINDS
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.rows import FleetState
from controlplane.kinds.what_if import FINISHED, RUNNING
from controlplane.scheduling.batch import Batch
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.schedule import Placed
from controlplane.settings import GATES, Settings
from tests.bench.figure import Figure
from tests.bench.schedule import KINDS, clusters, items
from tests.bench.served import Served, served
from tests.builders.objects import bound
from tests.simulation.manifests import NOT_READY_MEANS_LEAVE

CLUSTERS, BINDINGS = 100, 10_000
WHATIFS = "/apis/failover.lifeboat.io/v1alpha1/whatifs"
READ_EVERY = 0.1  # seconds
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = replace(
    Settings(),
    feature_gates={**GATES, "Failover": True},
    compat=replace(Settings().compat, auto_no_execute_taints=True),
)


def fleet() -> list[Cluster]:
    """Return the clusters of the bench `schedule`, all of them established."""
    since = NOW - timedelta(days=1)
    ready = (Condition("Ready", "True", last_transition_time=since), Condition("Established", "True"))
    return [one.with_status(conditions=ready) for one in clusters(CLUSTERS, nodes=100)]


def bindings(members: Sequence[Cluster], *, shared: bool) -> dict[Ref, Binding]:
    """Return bindings that the scheduler has placed, all different or of five placements."""
    wanted = items(BINDINGS, KINDS, [one.metadata.name for one in members], shared=shared)
    arrays = Fleet.of(members, settings=SETTINGS)
    batch, found = Batch(arrays, Ledger(arrays), SETTINGS), dict[Ref, Binding]()
    for number, item in enumerate(wanted):
        _, verdict = batch.place(item)
        targets = verdict.outcome.clusters if isinstance(verdict.outcome, Placed) else ()
        spec = replace(item.spec, clusters=targets)
        made = bound(spec, name=f"web-{number:05}", namespace=f"team-{number % 50:02}", status=item.status)
        found[made.ref] = made
    return dict(sorted(found.items()))


def seconds(members: Sequence[Cluster], placed: dict[Ref, Binding], change: Change) -> tuple[float, float, Effects]:
    """Return how long an answer takes by the clock and in CPU time, and the answer."""
    snapshot = Snapshot(tuple(members), placed, fleet=FleetState("default", failover_on_since=NOW), base=SETTINGS)
    begin, used = perf_counter(), process_time()
    answer = what_if(snapshot, [change], SETTINGS, now=NOW)
    return perf_counter() - begin, process_time() - used, answer


def run() -> list[Figure]:
    chance = random.Random(3)
    members = fleet()
    names = sorted(one.metadata.name for one in members)
    questions: dict[str, Change] = {
        "one cluster lost": ClustersLost((names[7],)),
        "a region of 8 lost": ClustersLost(regions=("region-3",)),
        "half of all clusters lost": ClustersLost(tuple(chance.sample(names, CLUSTERS // 2))),
        "one cluster drained": ClustersDrained((names[7],)),
    }
    figures = []
    for shared in (True, False):
        placed = bindings(members, shared=shared)
        for name, change in questions.items():
            took, used, answer = seconds(members, placed, change)
            about = f"{name}, {'5 placements' if shared else 'all different'}: {answer.sentence}"
            figures.append(Figure("whatif", took, "s", len(placed), about))
            figures.append(Figure("whatif.cpu", used, "s", len(placed), about))
    figures += stored(members, placed, questions["half of all clusters lost"])
    return [*figures, *asked(questions)]


def stored(members: Sequence[Cluster], placed: dict[Ref, Binding], change: Change) -> list[Figure]:
    """Return how long a question takes on PostgreSQL, with what it reads, and the preview of a Drain of SMALL
    bindings."""
    from apps.development.fleet import store_all  # here: Django is set up by now
    from apps.objects.preview import preview
    from apps.objects.store import store
    from apps.objects.what_if import SMALL

    quiet, database = replace(members[0], metadata=ObjectMeta(name="quiet", uid="uid-quiet")), store()
    some = [one for one in placed.values() if one.spec.clusters][:SMALL]
    alone = [
        one.with_meta(name=f"quiet-{number}").with_spec(clusters=(TargetCluster("quiet", one.spec.replicas),))
        for number, one in enumerate(some)
    ]
    store_all(database, [*members, quiet, *placed.values(), *alone], by="bench")
    opened = FleetState(FLEET_ROW, failover_on_since=NOW)
    database.apply([(None, Decision(changes=(Save(opened),)))], by=Actor("bench"))
    begin, used = perf_counter(), process_time()
    snapshot = supposed_snapshot(database, [change], settings=SETTINGS, base=SETTINGS, now=NOW)
    answer = what_if(snapshot, [change], SETTINGS, now=NOW)
    took, cpu = perf_counter() - begin, process_time() - used
    figures = [
        Figure(
            "whatif.stored",
            took,
            "s",
            len(placed),
            f"half of all clusters lost, read from PostgreSQL: {answer.sentence}",
        ),
        Figure("whatif.stored.cpu", cpu, "s", len(placed), "of our process"),
        Figure(
            "whatif.stored.memory", getrusage(RUSAGE_SELF).ru_maxrss / 1024, "MiB", len(placed), "at most, of the bench"
        ),
    ]
    drain = Drain("failover.lifeboat.io/v1alpha1", "Drain", ObjectMeta(name="d"), DrainSpec(cluster="quiet"))
    costs = []
    for _ in range(5):
        begin = process_time()
        found = preview(database, [Put(drain, None)], SETTINGS, is_asked=False, now=database.now()).texts
        costs.append((process_time() - begin) * 1000)
    return [
        *figures,
        Figure("whatif.preview", min(costs), "ms", SMALL, f"CPU of the warning of a Drain: {', '.join(found)}"),
    ]


def asked(questions: dict[str, Change]) -> list[Figure]:
    """Return how long it takes from the POST of a WhatIf until its answer is read, with the gate and a policy that
    evicts. A server is started; the bindings are those that `stored` has stored."""
    from apps.objects.configuration import configuration  # here: Django is set up by now
    from apps.objects.store import store
    from apps.objects.writer import Author, Writer

    writer = Writer(store(), configuration().settings(), Author("bench", "Bench"))
    writer.create(API_KINDS[CLUSTER_TAINT_POLICY], yaml.safe_load(NOT_READY_MEANS_LEAVE))
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "FailoverConfiguration"}
    opened = {**head, "metadata": {"name": "default"}, "spec": {"featureGates": {"Failover": True}}}
    writer.create(API_KINDS[FAILOVER_CONFIGURATION], opened)
    figures = []
    with served() as server:
        for name, change in questions.items():
            began = perf_counter()
            status = _answered(server, change)
            took = perf_counter() - began
            figures.append(Figure("whatif.asked", took, "s", BINDINGS, f"{name}, POST to answer: {status['sentence']}"))
    return figures


def _answered(server: Served, change: Change) -> dict[str, Any]:
    """Ask a question over HTTP, and read its answer as soon as it is there."""
    found = _exchanged(server, "POST", WHATIFS, {"spec": {"changes": [msgspec.to_builtins(change)]}})
    while found["status"]["phase"] == RUNNING:
        sleep(READ_EVERY)
        found = _exchanged(server, "GET", f"{WHATIFS}/{found['metadata']['name']}")
    assert found["status"]["phase"] == FINISHED, found["status"]
    status: dict[str, Any] = found["status"]
    return status


def _exchanged(server: Served, method: str, path: str, body: Any = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 300, content
    document: dict[str, Any] = json.loads(content)
    return document

"""members: from templates to objects on members, simulated ones or real ones (LAB=FOLDER, see docs/e2e.md).

Beside a figure stands what the members themselves take for the same objects: the same applies, sent directly.
Real members share the machine. So the creation is measured twice there: with their controllers stopped, and with
controllers that make pods meanwhile.
Sizes: MEMBERS_CREATED (500), MEMBERS_MOVED (200), MEMBERS_STEADY (10,000 bindings, 5,000 in a run of all benches),
MEMBERS_CHANGED (30); 0 leaves the failover or the steady state out.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.clusters.joining import Member, from_kubeconfig, from_list, join
from apps.development.fleet import store_all
from apps.objects.configuration import base
from apps.objects.models import Due
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from apps.simulator.members import start_fleet_process
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.clusters.questions import Ensure, Target
from controlplane.controllers.readiness import Readiness
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import (
    DUPLICATED,
    ClusterAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    ResourceSelector,
    SpreadConstraint,
)
from controlplane.kinds.template import Template
from controlplane.settings import MemberSettings
from tests.bench import propagate
from tests.bench.cpu import cpu_seconds, database_pids
from tests.bench.figure import Figure, percentile
from tests.builders.objects import policy
from tests.builders.templates import template
from tests.processes import Processes, environment, family, own_redis, until

NAMES = ("member1", "member2", "member3")
SERVERS, CONTROLLERS = "API servers and etcd", "controllers"  # processes of real members
SPACE, DIRECT = f"bench-members-{os.getpid()}", f"bench-direct-{os.getpid()}"  # real members keep those of earlier runs
WITHIN = 900.0
STEADY_SECONDS = 30.0
RESTING = 0.3  # of a core, by all processes of the members and ours
BY = Actor("bench")
ONE = (SpreadConstraint(spread_by_field="cluster", min_groups=1, max_groups=1),)
LOOPBACK = "127.0.0.0/8"
GIVEN = {
    "members_allowed_addresses": LOOPBACK,
    "feature_gates": "Failover=true",
    "resource_eviction_rate": "10000",
    "secondary_resource_eviction_rate": "10000",
}


class Bench(NamedTuple):
    """What is measured: the members, and the processes of the members and ours by name.

    `controllers`: the processes of real members that make pods; they can be stopped. Empty: members are simulated.
    """

    members: Sequence[Member]
    theirs: dict[str, list[int]]
    ours: dict[str, list[int]]
    kind: str

    @property
    def controllers(self) -> list[int]:
        return self.theirs.get(CONTROLLERS, [])

    def spent(self) -> Spent:
        """Return the CPU seconds so far."""
        ours = {name: cpu_seconds(pids) for name, pids in self.ours.items()} | {
            "PostgreSQL": cpu_seconds(database_pids())
        }
        return Spent(ours, {name: cpu_seconds(pids) for name, pids in self.theirs.items()})

    def rests(self) -> bool:
        """Test whether all processes together use less than RESTING of a core for two seconds."""
        before = self.spent()
        time.sleep(2)
        return sum(sum(seconds.values()) for seconds in self.spent().since(before)) < 2 * RESTING


class Spent(NamedTuple):
    """CPU seconds by process: ours with PostgreSQL, and those of the members."""

    ours: dict[str, float]
    theirs: dict[str, float]

    def since(self, before: Spent) -> Spent:
        return Spent(
            {name: seconds - before.ours[name] for name, seconds in self.ours.items()},
            {name: seconds - before.theirs[name] for name, seconds in self.theirs.items()},
        )


def _listed(seconds: dict[str, float], *, each: int) -> str:
    """Return milliseconds for each object, by process."""
    return ", ".join(f"{name} {1000 * spent / each:.1f}" for name, spent in seconds.items())


def size(name: str, usual: int) -> int:
    """Return a size from the environment."""
    return int(os.environ.get(f"MEMBERS_{name}", usual))


def run() -> list[Figure]:
    """Measure on one stack: create, one changed count at a time, failover, nothing to do."""
    make_namespaces(store())
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name, _members(Path(name)) as (members, theirs, kind):
        redis_url = own_redis()
        with (
            Processes(Path(name) / "logs", environment(Path(name), redis_url=redis_url, **GIVEN)) as processes,
            propagate.Beat(redis_url),
        ):
            ours = {"worker": family(processes.worker()), "members": family(processes.members())}
            join(store(), list(members), replace(base(), members=MemberSettings(allowed_addresses=(LOOPBACK,))))
            _space(SPACE)
            until(lambda: all(_is_usable(member.name) for member in members), within=120)
            bench = Bench(members, theirs, ours, kind)
            return [*_created(bench), *_changed(bench), *_moved(bench), *_steady(bench)]


@contextmanager
def _members(folder: Path) -> Iterator[tuple[list[Member], dict[str, list[int]], str]]:
    """Give real members of the lab that run, or simulated ones that are started for the bench.

    `make bench` runs all benches with one lab. If only the kube-apiserver of other benches runs in it, members are
    simulated.
    """
    running = Path(os.environ.get("LAB") or "/nonexistent", "run")
    wanted = os.environ.get("LAB") and "BENCH_WHOLE" not in os.environ
    if wanted or all((running / f"{name}.kcm.pid").is_file() for name in NAMES):
        members = [from_kubeconfig(name, running / f"{name}.config") for name in NAMES]
        parts = {SERVERS: ("apiserver", "etcd"), CONTROLLERS: ("kcm", "kubelet")}
        theirs = {
            name: [int((running / f"{member}.{part}.pid").read_text()) for member in NAMES for part in of]
            for name, of in parts.items()
        }
        yield members, theirs, "real members"
        return
    with start_fleet_process(folder / "members", members=list(NAMES), ready_after=0.2) as fleet:
        pids = {"members": [fleet.process.pid]}
        yield from_list(fleet.directory / "members.json"), pids, "simulated members in one process"


@contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[None]:
    """Stop these processes for the time of the block."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _created(bench: Bench) -> list[Figure]:
    """Create Deployments for all members; for real members first while their controllers are stopped."""
    figures = []
    if bench.controllers:
        with _stopped(bench.controllers):
            figures = _created_once(bench, "still", f"{bench.kind} whose controllers are stopped")
        until(bench.rests, within=300, every=0.1)
    return [*figures, *_created_once(bench, "create", bench.kind)]


def _created_once(bench: Bench, group: str, kind: str) -> list[Figure]:
    count, figure = size("CREATED", 500), "members.create" + (".stopped" if group == "still" else "")
    each = count * len(NAMES)
    direct_seconds, direct = _direct(bench, count, group)
    store_all(store(), [_policy(f"everywhere-{group}", {"bench": group}, NAMES)], by="bench")
    until(lambda: _applied(f"{SPACE}-") >= len(NAMES), within=60, every=0.2)
    until(bench.rests, within=300, every=0.1)  # the members have made the pods of the direct applies
    before, began = bench.spent(), store().now()
    store_all(store(), [_deployment(f"{group}-{number}", group) for number in range(count)], by="bench")
    until(lambda: _applied(f"{group}-") >= each, within=WITHIN, every=1.0)
    took, spent = (_last_applied() - began).total_seconds(), bench.spent().since(before)
    on = f"{count} Deployments x {len(NAMES)} {kind}, until every Work is Applied"
    beside = f"the same applies sent directly {direct_seconds:.1f} s, CPU {_listed(direct.theirs, each=each)} ms"
    ours, theirs = (f"of {_listed(seconds, each=each)}" for seconds in spent)
    milliseconds = [1000 * sum(seconds.values()) / each for seconds in spent]
    return [
        Figure(figure, took, "s", each, on, beside=beside, ratio=took / direct_seconds),
        Figure(f"{figure}.cpu", milliseconds[0], "ms/object", each, f"until then, {ours}"),
        Figure(f"{figure}.cpu_of_members", milliseconds[1], "ms/object", each, f"until then, {theirs}"),
    ]


def _direct(bench: Bench, count: int, group: str) -> tuple[float, Spent]:
    """Send the same Deployments to all members at once, and return the seconds and the CPU seconds meanwhile."""

    name = f"{DIRECT}-{group}"
    manifests = [
        {**_deployment(f"direct-{number}", "").document(), "metadata": {"name": f"d-{number}", "namespace": name}}
        for number in range(count)
    ]

    async def send() -> None:
        client = MemberClient(MemberSettings(refused_addresses=()))
        targets = [
            Target(member.name, member.url, member.token, member.authority, member.insecure) for member in bench.members
        ]
        head = {"metadata": {"name": name}, "apiVersion": "v1", "kind": "Namespace"}
        await asyncio.gather(*(client.ensure(Ensure(target, head, True)) for target in targets))
        asked = (client.ensure(Ensure(target, manifest, False)) for manifest in manifests for target in targets)
        refused = [answer.problem for answer in await asyncio.gather(*asked) if not answer.ok]
        assert not refused, refused[0]
        await client.close()

    before, began = bench.spent(), time.perf_counter()
    asyncio.run(send())
    return time.perf_counter() - began, bench.spent().since(before)


def _changed(bench: Bench) -> list[Figure]:
    """Change the replicas of one Deployment at a time; the time until all its members have applied them.

    The members have made all pods of the creation before, and nothing else changes.
    """
    until(bench.rests, within=300, every=0.1)
    seconds = []
    for number in range(size("CHANGED", 30)):
        name = f"create-{number % size('CREATED', 500)}"
        ref = Ref("apps/Deployment", SPACE, name)
        old = store().get([ref])[ref]
        spec = {**old.content["spec"], "replicas": 2}
        new = replace(old.with_content({**old.content, "spec": spec}))
        began = store().now()
        assert not store().apply([(None, Decision(changes=(Put(new, old),)))], by=BY)[0].lost

        def applied(name: str = name) -> bool:
            return _outdated(name) == 0

        until(applied, within=60, every=0.02)
        seconds.append((_last_applied() - began).total_seconds())
    on = f"one changed count of replicas until {len(NAMES)} {bench.kind} have applied it"
    return [
        Figure("members.change.p50", percentile(seconds, 0.5), "s", len(seconds), on),
        Figure("members.change.p99", percentile(seconds, 0.99), "s", len(seconds), on),
    ]


def _moved(bench: Bench) -> list[Figure]:
    """Lose a cluster with Deployments that run on one cluster each."""
    count, source, refuge = size("MOVED", 200), NAMES[0], NAMES[1]
    if not count:
        return []
    _taint(refuge, Taint("bench", "NoSchedule"))
    store_all(store(), [_policy("one", {"bench": "move"}, (source, refuge), ONE)], by="bench")
    store_all(store(), [_deployment(f"move-{number}", "move") for number in range(count)], by="bench")
    until(lambda: _applied("move-", source) >= count, within=WITHIN, every=0.2)
    _taint(refuge)
    until(bench.rests, within=300, every=0.1)  # the scheduler sees that the refuge is free, and all pods run
    before, began = bench.spent(), store().now()
    _taint(source, Taint("bench", "NoExecute", time_added=began))
    until(lambda: _applied("move-", refuge) >= count, within=WITHIN, every=0.5)
    took, spent = (_last_applied("move-") - began).total_seconds(), bench.spent().since(before)
    _taint(source)
    on = f"{count} Deployments leave a cluster, from its taint until all are applied on another of the {bench.kind}"
    cpu = f"CPU in ms for each: ours {_listed(spent.ours, each=count)}; members {_listed(spent.theirs, each=count)}"
    return [Figure("members.failover", took, "s", count, on, beside=cpu)]


def _steady(bench: Bench) -> list[Figure]:
    """Measure what all processes cost, and write, while nothing changes. Most bindings are of ConfigMaps."""
    wanted = size("STEADY", 5_000 if os.environ.get("BENCH_WHOLE") else 10_000)
    if not wanted:
        return []
    have = size("CREATED", 500) + size("MOVED", 200)
    store_all(store(), [_policy("still", {"bench": "still"}, NAMES, ONE, kind=("v1", "ConfigMap"))], by="bench")
    more = max(wanted - have, 0)
    store_all(store(), [_config_map(f"still-{number}") for number in range(more)], by="bench")
    until(lambda: _applied("still-") >= more, within=2 * WITHIN, every=1.0)
    until(_is_quiet, within=300, every=1.0)
    before, version = bench.spent(), store().current_version()
    time.sleep(STEADY_SECONDS)
    spent = bench.spent().since(before)
    shares = {name: 100 * seconds / STEADY_SECONDS for name, seconds in spent.ours.items()}
    on = ", ".join(f"{name} {share:.1f} %" for name, share in shares.items())
    writes = store().current_version() - version
    return [
        Figure("members.steady.cpu", sum(shares.values()), "% of a core", wanted, f"{wanted:,} bindings: {on}"),
        Figure("members.steady.writes", writes, "versions", wanted, f"in {STEADY_SECONDS:g} s; {_writers(version)}"),
    ]


def _is_quiet() -> bool:
    """Test whether nothing is left of the placing: no object was written for five seconds, and the round of readiness
    that begins some seconds after a placement, which writes rows only, has looked at all bindings."""
    version = store().current_version()
    time.sleep(5)
    return store().current_version() == version and not Due.objects.filter(controller=Readiness.name).exists()


def _writers(since: int) -> str:
    """Return who has written objects since a version, and how many."""
    counts: dict[str, int] = {}
    for change in store().changes(since):
        name = f"{change.actor} {change.ref.kind}"
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


@cache
def _now() -> datetime:
    return store().now().replace(microsecond=0)


def _new(**labels: str) -> dict[str, Any]:
    """Return the metadata that an object created now has beside its name."""
    return {"at": _now(), "labels": labels}


def _space(name: str) -> None:
    store_all(store(), [template("Namespace", name, namespace="", metadata=_new(), spec={})], by="bench")


def _deployment(name: str, group: str) -> Template:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    labels = {"app": name}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return template("Deployment", name, version="apps/v1", namespace=SPACE, metadata=_new(bench=group), spec=spec)


def _config_map(name: str) -> Template:
    """Return an object that has no pods, of which members of any size hold thousands."""
    return template("ConfigMap", name, namespace=SPACE, metadata=_new(bench="still"), data={"value": name})


def _policy(
    name: str,
    labels: dict[str, str],
    clusters: Sequence[str],
    spread: tuple[SpreadConstraint, ...] = (),
    *,
    kind: tuple[str, str] = ("apps/v1", "Deployment"),
) -> Object:
    placement = Placement(
        ClusterAffinity(cluster_names=tuple(clusters)),
        spread_constraints=spread,
        replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED),
    )
    selector = ResourceSelector(*kind, label_selector=LabelSelector(labels))
    return policy(name, selector, namespace="", at=_now(), placement=placement)


def _taint(name: str, *taints: Taint) -> None:
    """Put exactly these taints on a cluster, as a user does; others may write it meanwhile."""
    ref = Ref(CLUSTER, "", name)

    def written() -> bool:
        old = store().get([ref])[ref]
        new = old.with_spec(taints=taints)
        return new is old or not store().apply([(None, Decision(changes=(Put(new, old),)))], by=BY)[0].lost

    until(written, within=30)


def _is_usable(name: str) -> bool:
    ref = Ref(CLUSTER, "", name)
    found = store().get([ref]).get(ref)
    return found is not None and found.ready == "True" and bool(found.status.api_enablements)


_APPLIED = """
    SELECT count(*) FROM resources_work WHERE name LIKE %s AND (%s = '' OR cluster = %s)
    AND doc::jsonb -> 'status' -> 'conditions' @> '[{"type": "Applied", "status": "True"}]'"""
_OUTDATED = """
    SELECT count(*) FROM resources_work WHERE name LIKE %s AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements(doc::jsonb -> 'status' -> 'conditions') AS one
        WHERE one ->> 'type' = 'Applied' AND one ->> 'status' = 'True'
        AND one ->> 'observedGeneration' = doc::jsonb -> 'metadata' ->> 'generation')"""

_FRESH = """
    SELECT count(*) FROM resources_work
    WHERE name LIKE %s AND doc::jsonb #>> '{spec,workload,manifests,0,metadata,annotations}'
    LIKE '%%"resourcetemplate.karmada.io/generation": "' || %s || '"%%'"""


def _applied(prefix: str, cluster: str = "") -> int:
    """Return how many Works of a prefix their members have applied."""
    return int(_query(_APPLIED, f"{prefix}%", cluster, cluster))


def _outdated(name: str) -> int:
    """Return how many Works of a Deployment are not applied as they are, or do not have its count of replicas yet."""
    ref = Ref("apps/Deployment", SPACE, name)
    wanted = store().get([ref])[ref].metadata.generation
    fresh = int(_query(_FRESH, f"{name}-%", str(wanted)))
    return int(_query(_OUTDATED, f"{name}-%")) + len(NAMES) - min(fresh, len(NAMES))


def _last_applied(prefix: str = "") -> datetime:
    """Return when the last Work whose name has this prefix was applied."""
    found = _query("SELECT max(at) FROM objects_changelog WHERE actor = 'execution' AND name LIKE %s", f"{prefix}%")
    assert isinstance(found, datetime), "nothing was applied"
    return found


def _query(statement: str, *values: Any) -> Any:
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()[0]

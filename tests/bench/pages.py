"""pages: what one request for a page of the console, of the admin or of the browsable API costs during an outage, in
milliseconds of time and of processor time."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from statistics import median
from time import perf_counter, process_time
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.api.places import list_url, object_url
from apps.console.cluster_acts import ACTS
from apps.console.object_links import binding_url, record_url
from apps.console.queue import order_value
from apps.failover import what_if_runs
from apps.failover.begun import FailoverChoice, begun_page
from apps.failover.models import Eviction
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.what_if import effects_of, status_of
from apps.objects.writer import Author, Writer
from apps.worker.groups import GROUPS, MEMBERS
from apps.worker.outside_world import world
from apps.worker.turn import Turn
from controlplane.apimachinery.meta import Condition, Ref, to_seconds, with_condition
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.insight.changes import ClustersLost
from controlplane.kind import KINDS, Kind
from controlplane.kinds import CLUSTER, EVICTION, FAILOVER_CONFIGURATION, RESOURCE_BINDING, WORK
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drill import DRILL, SIMULATED
from controlplane.kinds.rows import EVICTED, QUEUED
from tests.bench.figure import Figure

CLUSTERS, BINDINGS, LOST = 100, 10_000, 2
MOVED = 60  # evictions that have taken place when the pages are read
REQUESTS = 12  # for each page; the first is not counted
LISTED = (CLUSTER, RESOURCE_BINDING, WORK, EVICTION)  # lists of the browsable API
SPEC = {"featureGates": {"Failover": True}, "resourceEvictionRate": 4.0}  # a turn becomes idle between two evictions


def run() -> list[Figure]:
    """Lose some clusters of a large fleet; read every page while the queue is processed."""
    call_command("fleet", clusters=CLUSTERS, bindings=BINDINGS, stdout=StringIO())
    _lose()
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(get_user_model().objects.create_superuser("pages"))
    queued = Eviction.objects.filter(state=QUEUED).count()
    conditions = f"{CLUSTERS} clusters, {BINDINGS:,} bindings, {LOST} clusters lost, {queued:,} queued"
    figures = []
    for name, path in (*_finished(), *_paths()):  # in this order: the controllers that run for the first write rows
        times, cpu = zip(*(_cost(browser, path) for _ in range(REQUESTS)), strict=True)
        figures.append(Figure(f"pages.{name}", median(times[1:]), "ms", REQUESTS - 1, conditions))
        figures.append(Figure(f"pages.{name}.cpu", median(cpu[1:]), "ms", REQUESTS - 1, "processor time of the server"))
    _end_health_checks()
    return figures


def _paths() -> Iterator[tuple[str, str]]:
    row: Any = Eviction.objects.filter(state=QUEUED)[0]  # its fields are those of the row type
    failover = begun_page(FailoverChoice(), limit=1).failovers[0]
    yield "situation", "/"
    yield "clusters", "/clusters"
    yield "cluster", f"/clusters/{row.cluster}"
    yield "queue", "/queue"
    yield "rates", "/queue/rates?rate=5&secondary=0.2"
    yield "order", f"/queue/order?verb=Hold&item={order_value(row)}"
    yield "workload", binding_url(Ref.parse(row.binding))
    yield "records", "/records"
    yield "record", record_url(failover.name)
    yield "readiness", "/readiness"
    yield "readiness_file", "/readiness.csv"
    yield "what_if", "/what-if"
    yield "drills", "/drills"
    yield "drill_start", "/drills/start"
    yield "pause", "/pause"
    for act in ACTS:
        yield f"act_{act}", f"/clusters/{row.cluster}/{act}"
    yield "api.cluster", object_url(Ref(CLUSTER, "", row.cluster))
    yield "api.resourcebinding", object_url(Ref.parse(row.binding))
    yield "admin.settings", "/admin/settings/"
    yield "admin.failovers", "/admin/failovers/"
    for model in admin.site._registry:
        if model.__module__.startswith("apps."):
            name = f"{model._meta.app_label}_{model._meta.model_name}"
            yield f"admin.{name}", reverse(f"admin:{name}_changelist")
            if first := model._default_manager.first():
                yield f"admin.{name}.one", reverse(f"admin:{name}_change", args=[first.pk])
    for key in LISTED:
        yield f"api.{KINDS[key].resource.plural}", list_url(KINDS[key].resource, namespace="")


def _finished() -> Iterator[tuple[str, str]]:
    """Let a what-if question be answered and a drill end; yield their pages."""
    lost = store().list(CLUSTER)[-1].metadata.name
    changes = (ClustersLost((lost,)),)
    yield "what_if_run", f"/what-if/{what_if_runs.keep(changes, status_of(effects_of(store(), changes)), user='pages')}"
    head = {"apiVersion": KINDS[DRILL].resource.api_version, "kind": KINDS[DRILL].resource.kind}
    spec = {"mode": SIMULATED, "clusters": [lost], "reason": "bench"}
    _create(KINDS[DRILL], {**head, "metadata": {"name": "bench"}, "spec": spec})
    while not (drill := store().get([Ref(DRILL, "", "bench")])[Ref(DRILL, "", "bench")]).status.finish_time:
        _turns()
    yield "drill", f"/drills/{drill.metadata.name}"


def _cost(browser: Client, path: str) -> tuple[float, float]:
    began, cpu = perf_counter(), process_time()
    answer = browser.get(path, HTTP_ACCEPT="text/html")
    assert answer.status_code == 200, (path, answer.content)
    list(answer)  # the rows of a file are made while they are read
    return 1000 * (perf_counter() - began), 1000 * (process_time() - cpu)


def _lose() -> None:
    """Taint clusters as lost, and let the queue be processed until some evictions have taken place."""
    kind = KINDS[FAILOVER_CONFIGURATION]
    head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": {"name": "default"}}
    _create(kind, {**head, "spec": SPEC})
    configuration().settings(reread=True)
    _turns()  # from now on the gate counts as open
    for cluster in store().list(CLUSTER)[:LOST]:
        now = to_seconds(store().now())
        down = Condition("Ready", "False", "ClusterNotReachable", "connection refused")
        lost = cluster.with_spec(taints=(Taint("bench", "NoExecute", time_added=now),)).with_status(
            conditions=with_condition(cluster.status.conditions, down, now=now)
        )
        assert not store().apply([(None, Decision(changes=(Put(lost, cluster),)))], by=Actor("bench"))[0].lost
    while Eviction.objects.filter(state=EVICTED).count() < MOVED:
        _turns("failover")
    _turns("scheduling")


def _create(kind: Kind, document: dict[str, Any]) -> None:
    Writer(store(), configuration().settings(), Author("bench", "Bench")).create(kind, document)


def _end_health_checks() -> None:
    """End the sessions of the health checks that Situation has begun, so that the database can be dropped."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _turns(*names: str) -> None:
    """Run the controllers of these groups once; of all groups if none is named."""
    for group in GROUPS.values():
        wanted = group.name != MEMBERS and (not names or group.name in names)
        for shard in range(group.shards if wanted else 0):
            Turn(group.name, shard, store=store(), world=world(), configuration=configuration()).once()

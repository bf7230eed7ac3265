"""FleetStatus: the state of the fleet, read with a constant number of queries and computed for every request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import orjson
from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import ListAnswer, ObjectAnswer
from apps.api.authorization import Attributes
from apps.api.expiries import EXPIRIES
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import listing_of
from apps.api.views import KubernetesView, refuse_watch
from apps.clusters.models import Cluster as ClusterRow
from apps.failover.drills import last_drill
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.tallies import ANSWERS
from controlplane import kinds
from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import ObjectMeta, Ref, to_seconds
from controlplane.controllers.readiness import ROUND
from controlplane.controllers.reads.fleet_state import FLEET_ROW, QUEUE_ROW, fleet_states
from controlplane.insight import readiness_row
from controlplane.insight.situation import EVICTIONS, TARGETS, TASKS, Facts, Tally, Task, situation
from controlplane.kinds import fleet_status
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.fleet_status import NAME, RESOURCE, FleetStatus, Prepared
from controlplane.kinds.rows import BindingReadiness, ReadinessRound

# The oldest graceful evictions, of which the stuck ones are counted, without those that a person has to end.
TASKS_READ: Final = 200

_COUNTED: Final = ", ".join(f"'{counted}'" for counted in (EVICTIONS, TARGETS, TASKS, ANSWERS))
_TALLIES: Final = f"SELECT counted, cluster, state, reason, number FROM objects_tally WHERE counted IN ({_COUNTED})"
_TASKS: Final = f"""
    SELECT binding, from_cluster, purge_mode, created_at, grace_period_seconds FROM failover_gracefulevictiontask
    WHERE created_at IS NOT NULL AND suppress_deletion IS NULL ORDER BY created_at LIMIT {TASKS_READ}"""
_LAST_DUE: Final = "SELECT max(due_at) FROM failover_eviction WHERE state = 'Queued'"


class Clusters:
    """The clusters as this process has read them last. Only those that have changed are read again."""

    def __init__(self) -> None:
        self._known: dict[str, Cluster] = {}
        self._lock = threading.Lock()

    def read(self) -> Sequence[Cluster]:
        """Return all clusters by name. Two queries, of which the second reads only what has changed."""
        versions = dict(ClusterRow.objects.order_by("name").values_list("name", "resource_version"))
        with self._lock:
            known = self._known
        changed = [
            Ref(kinds.CLUSTER, "", name)
            for name, version in versions.items()
            if name not in known or known[name].metadata.resource_version != str(version)
        ]
        read = {ref.name: cluster for ref, cluster in store().get(changed).items()}
        found = {name: cluster for name in versions if (cluster := read.get(name) or known.get(name)) is not None}
        with self._lock:
            self._known = found
        return list(found.values())


_clusters: Final = Clusters()


def fleet_facts() -> Facts:
    """Return what is known of the fleet now. The number of queries is constant."""
    reading = store()
    with connection.cursor() as cursor:
        cursor.execute(_TALLIES)
        tallies = [Tally(*row) for row in cursor.fetchall()]
        cursor.execute(_TASKS)
        tasks = [Task(*row) for row in cursor.fetchall()]
        cursor.execute(_LAST_DUE)
        (last_due,) = cursor.fetchone() or (None,)
    rounds = reading.rows(ReadinessRound, "key", [ROUND]).get(ROUND, ())
    clusters = _clusters.read()
    fleet, queue_row = fleet_states(reading, FLEET_ROW, QUEUE_ROW)
    return Facts(
        clusters=clusters,
        expiries=EXPIRIES.read(clusters),
        tallies=tallies,
        oldest_tasks=tasks,
        tasks_read=TASKS_READ,
        last_due=last_due,
        fleet=fleet,
        queue_row=queue_row,
        holds=reading.list(kinds.EVICTION_HOLD),
        windows=reading.list(kinds.MAINTENANCE_WINDOW),
        prepared=_prepared(tallies, next(iter(rounds), None)),
    )


def _prepared(tallies: Sequence[Tally], round_: ReadinessRound | None) -> Prepared | None:
    """Return how many workloads would fail over; None: their readiness was not computed yet."""
    if round_ is None or round_.settled_at is None:
        return None
    found = Counter[str]()
    for one in tallies:
        if one.counted == BindingReadiness.__name__:
            found[one.state] += one.number
    ready = found[readiness_row.READY] + found[readiness_row.IMPAIRED]
    return Prepared(ready + found[readiness_row.BLOCKED], ready, round_.settled_at)


def read() -> FleetStatus:
    """Return the FleetStatus of now."""
    reading, settings = store(), configuration().settings()
    version, now = str(reading.current_version()), reading.now()
    return FleetStatus(
        api_version=RESOURCE.api_version,
        kind=RESOURCE.kind,
        metadata=ObjectMeta(name=NAME, resource_version=version, creation_timestamp=to_seconds(now)),
        status=msgspec.structs.replace(situation(fleet_facts(), settings, now=now), last_drill=last_drill()),
    )


class FleetStatusView(KubernetesView):
    """Serves GET of fleetstatuses: one object, `fleet`."""

    http_method_names = ["get", "head", "options"]
    renderer_classes = pages.OBJECTS

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=self.kwargs.get("name") or ""))

    def get(self, request: Request, name: str | None = None) -> Response:
        refuse_watch(request, fleet_status.RESOURCE, "follow the fleet with lifeboat status --watch")
        if name not in (None, NAME):
            raise NotFound.of(RESOURCE.plural, name or "", group=RESOURCE.group)
        made = read()
        text = msgspec.json.encode(made, enc_hook=plain)
        if name:
            return Response(ObjectAnswer(RESOURCE, text))
        chosen = listing_of(request.query_params, RESOURCE, namespace="").choice.takes(orjson.loads(text))
        return Response(
            ListAnswer(RESOURCE, [text] if chosen else [], {"resourceVersion": made.metadata.resource_version})
        )

"""/clusters and /clusters/<name>: all clusters, and one of them with what runs there and what may be done about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

from rest_framework.request import Request

from apps.api import fleet_status
from apps.console.changes import lines_of
from apps.console.cluster_acts import ACTS
from apps.console.cluster_orders import orders_of
from apps.console.object_links import binding_url
from apps.console.page import Page, offset_of, within
from apps.objects.configuration import configuration
from apps.objects.models import Event as EventRow
from apps.objects.store import store
from apps.resources.models import TargetCluster
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.apimachinery.quantities import parse
from controlplane.clusters import probe_history, taints
from controlplane.clusters.fence import fence_of
from controlplane.clusters.health import heard_at, holds_for
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.insight.attention import renewal
from controlplane.insight.readiness import fleet_obstacles
from controlplane.insight.situation import situation
from controlplane.kind import KINDS, decode
from controlplane.kinds import BINDINGS, CLUSTER, EVENT, FAILOVER_CONFIGURATION, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import PULL, Cluster, ResourceSummary
from controlplane.kinds.cluster import Taint as ClusterTaint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.fleet_status import BAD, OK, WARN, MemberStatus
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness, Collected, Observation
from controlplane.settings import Settings

CLUSTERS: Final = 50  # clusters on a page of their list
PAGE: Final = 50  # workloads on a page
EVENTS: Final = 10
RESOURCE: Final = KINDS[CLUSTER].resource
BADGES: Final = {BAD: "bad", WARN: "warn", OK: "ok"}
_TITLES: Final = {
    "uncordon": "Uncordon",
    "cordon": "Cordon",
    "taint": "Taint",
    "drain": "Drain",
    "maintenance": "Maintenance",
    "fence": "Fence",
    "unfence": "Remove the fence",
    "failback": "Failback",
    "unjoin": "Unjoin",
}


class ClustersPage(Page):
    """All clusters in a table, the worst first. Filters: state, and a part of name, region or provider."""

    title = "Clusters"
    template_name = "console/clusters.html"
    topics: ClassVar = {"clusters": (CLUSTER, "Eviction", *BINDINGS)}
    resource = RESOURCE

    def kubectl(self) -> str:
        return "kubectl get clusters"

    def context(self, request: Request) -> dict[str, Any]:
        status = fleet_status.read().status
        text, state = self.query.get("q", "").strip().lower(), self.query.get("state", "")
        found = [one for one in status.members if _matches(one, text, state)]
        begin = within(offset_of(self.query, CLUSTERS), len(found), CLUSTERS)
        rows = found[begin : begin + CLUSTERS]
        chosen = {"q": text, "state": state}
        return {
            **chosen,
            "status": status,
            "rows": rows,
            "found": len(found),
            "first": begin + 1,
            "last": begin + len(rows),
            "earlier": _clusters_link(chosen, begin - CLUSTERS) if begin else "",
            "later": _clusters_link(chosen, begin + CLUSTERS) if begin + len(rows) < len(found) else "",
            "states": sorted({one.state for one in status.members}),
            "now": status.as_of,
        }


def _clusters_link(chosen: dict[str, str], offset: int) -> str:
    query = {**{name: value for name, value in chosen.items() if value}, "offset": str(offset)}
    return f"/clusters?{urlencode(query)}"


def _matches(one: MemberStatus, text: str, state: str) -> bool:
    words = f"{one.name} {one.region} {one.provider}".lower()
    return text in words and state in ("", one.state)


class ClusterPage(Page):
    """One cluster."""

    template_name = "console/cluster.html"
    resource = RESOURCE

    @property
    def title(self) -> str:  # type: ignore[override]  # depends on the URL
        return str(self.kwargs["name"])

    def kubectl(self) -> str:
        return f"kubectl get cluster {self.kwargs['name']} -o yaml"

    def subjects(self) -> dict[str, tuple[str, ...]]:
        name = self.kwargs["name"]
        subject = str(Ref(CLUSTER, "", name))
        return {
            "cluster": (subject, DRAIN, FAILBACK, MAINTENANCE_WINDOW, "Eviction"),
            "workloads": (subject, *BINDINGS, "FleetState", FAILOVER_CONFIGURATION),
        }

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of the URL. Raises NotFound."""
        ref = Ref(CLUSTER, "", self.kwargs["name"])
        found: Cluster | None = store().get([ref]).get(ref)
        if found is None:
            raise NotFound.of(RESOURCE.plural, ref.name, group=RESOURCE.group)
        return found

    def context(self, request: Request) -> dict[str, Any]:
        cluster = self.cluster
        shown: dict[str, Any] = {"cluster": cluster, "name": cluster.metadata.name, "stale": cluster.out_of_reach_since}
        if self.part != "workloads":
            shown |= self._state(request)
        if self.part != "cluster":
            shown |= self._workloads()
        return shown

    def _state(self, request: Request) -> dict[str, Any]:
        """Return what is known of the cluster itself."""
        cluster, reading, settings, name = self.cluster, store(), configuration().settings(), self.kwargs["name"]
        now = reading.now()
        facts = fleet_status.fleet_facts()
        members = situation(facts, settings, now=now).members
        member = next((one for one in members if one.name == name), MemberStatus(name))
        observed = _first(reading.rows(Observation, "key", [name]), name)
        collected = _first(reading.rows(Collected, "key", [name]), name)
        windows = [one for one in facts.windows if name in one.spec.clusters and one.open(now=now)]
        sections = time_line(cluster, observed, settings, now=now)
        return {
            "member": member,
            "state_badge": BADGES[member.severity],
            "observed": observed,
            "collected_at": None if collected is None else collected.at,
            "room": list(room_of(cluster.status.resource_summary)),
            "sections": sections,
            "day": _scaled(sections, now=now),
            "taints": list(taints_of(cluster)),
            "fence": fence_of(cluster),
            "windows": windows,
            "drains": orders_of(DRAIN, name),
            "failbacks": orders_of(FAILBACK, name),
            "expiries": [one for one in facts.expiries if one.cluster == name],
            "renewal": renewal(name, is_pulled=cluster.spec.sync_mode == PULL),
            "events": events_about(cluster),
            "acts": self._acts(request),
            "may_untaint": self.may(request, "patch", RESOURCE, name=name),
            "may_drain": self.may(request, "patch", KINDS[DRAIN].resource),
            "may_failback": self.may(request, "patch", KINDS[FAILBACK].resource),
            "may_end": self.may(request, "delete", KINDS[MAINTENANCE_WINDOW].resource),
            "now": now,
        }

    def _acts(self, request: Request) -> list[tuple[str, str]]:
        """Return the acts that make sense now and that the reader may do: URL and title."""
        cluster, found = self.cluster, []
        is_cordoned = any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints)
        hidden = {"untaint", "cordon" if is_cordoned else "uncordon", "fence" if fence_of(cluster) else "unfence"}
        hidden |= {"fence"} if cluster.answers else {"failback"}
        for name, page in ACTS.items():
            kind = KINDS[page.kind].resource
            subject = cluster.metadata.name if page.kind == CLUSTER else ""
            if name not in hidden and self.may(request, page.verb, kind, name=subject, sub=page.sub):
                found.append((f"/clusters/{cluster.metadata.name}/{name}", _TITLES[name]))
        return found

    def _workloads(self) -> dict[str, Any]:
        """Return a page of what is placed on the cluster, and what would become of each if the cluster went down."""
        name, after = self.kwargs["name"], self.query.get("after", "")
        targets = _targets(name, after)
        if not targets and after:  # the workloads from here on have left the cluster since the link was shown
            after, targets = "", _targets(name, "")
        shown, stopped = targets[:PAGE], stopping_obstacles(reread=bool(self.part)) if targets else ()
        bindings = store().get([Ref.parse(one.binding) for one in shown])
        answers = store().rows(BindingReadiness, "key", [one.binding for one in shown])
        lines = [workload_of(one, bindings.get(Ref.parse(one.binding)), _first(answers, one.binding)) for one in shown]
        return {
            "stopped": stopped,
            "workloads": [one._replace(fate="stays", badge="bad") for one in lines] if stopped else lines,
            "after": shown[-1].binding if len(targets) > PAGE else "",
            "is_first": not after,
        }


def _targets(cluster: str, after: str) -> list[TargetCluster]:
    return list(TargetCluster.objects.filter(cluster=cluster, binding__gt=after).order_by("binding")[: PAGE + 1])


def _first(rows: Mapping[str, Sequence[Any]], key: str) -> Any:
    return next(iter(rows.get(key, ())), None)


# Probes


def time_line(
    cluster: Cluster, observed: Observation | None, settings: Settings, *, now: datetime
) -> list[probe_history.Section]:
    """Return what probes or heartbeats found within the last day."""
    if observed is None:
        return probe_history.sections((), heard_until=None, now=now)
    heard = heard_at(cluster, observed)
    until = None if heard is None else heard + holds_for(settings)
    return probe_history.sections(observed.history, heard_until=until, now=now)


class Stretch(NamedTuple):
    """A section of the day as a part of a chart 1440 wide."""

    x: str
    width: str
    style: str
    section: probe_history.Section


_STYLES: Final = {"True": "ok", "False": "bad", "Unknown": "bad", probe_history.ACCESS_LOST: "warn"}


def _scaled(sections: Sequence[probe_history.Section], *, now: datetime) -> list[Stretch]:
    start = now - probe_history.KEPT
    scale = 1440 / probe_history.KEPT.total_seconds()
    return [
        Stretch(
            f"{(one.since - start).total_seconds() * scale:.1f}",
            f"{max(1.0, (one.until - one.since).total_seconds() * scale):.1f}",
            _STYLES.get(one.status, "off"),
            one,
        )
        for one in sections
    ]


# Taints, room, workloads, Events


class TaintLine(NamedTuple):
    """A taint with its owners in words, and until when it stays. `removable`: a user can remove it now."""

    taint: ClusterTaint
    owner: str
    until: str
    removable: bool = True


_OWNERS: Final = {
    taints.BY_READY: "the condition Ready",
    taints.BY_ACCESS: "the condition AccessLost",
    taints.BY_DELETION: "the deletion of the cluster",
}


def taints_of(cluster: Cluster) -> Iterator[TaintLine]:
    """Yield the taints of a cluster with who owns them and when they go."""
    known = taints.owned(cluster)
    staying = taints.staying(cluster, configuration().settings(), now=store().now())
    for taint in cluster.spec.taints:
        ownership = known.get((taint.key, taint.effect))
        if ownership is None:
            yield TaintLine(taint, "a user", "until it is removed by hand")
            continue
        owners = [_OWNERS.get(one, f"ClusterTaintPolicy {one.removeprefix('policy/')}") for one in ownership.by]
        until = "its cause is over; its removal window runs" if ownership.ending else "while its cause lasts"
        yield TaintLine(taint, ", ".join(owners), until, (taint.key, taint.effect) not in staying)


class Room(NamedTuple):
    """A resource of a cluster: what runs uses, what starts will use, and all, as text; and the parts of its bar."""

    name: str
    used: str
    starting: str
    all: str
    percent: int
    sections: list[tuple[str, int, str]]


def room_of(summary: ResourceSummary | None) -> Iterator[Room]:
    """Yield the resources of a cluster, without those of which it has none and amounts that cannot be read."""
    for name, text in sorted((summary.allocatable if summary else {}).items()):
        assert summary is not None, "it has the resource"
        used, starting = summary.allocated.get(name, "0"), summary.allocating.get(name, "0")
        try:
            total, taken, coming = (max(0, parse(one).nano) for one in (text, used, starting))
        except ValueError:
            continue
        if not total:
            continue
        parts = [1000 * min(taken, total) // total, 1000 * min(coming, total) // total]
        free = max(0, 1000 - sum(parts))
        sections = [("used", parts[0], "used"), ("queued", parts[1], "starting"), ("free", free, "free")]
        yield Room(name, used, starting, text, (1000 - free + 5) // 10, sections)


class Workload(NamedTuple):
    """A binding on a cluster. `fate`: what would become of its copy if the cluster went down; `why`: the reason."""

    namespace: str
    name: str
    kind: str
    url: str
    replicas: int
    health: str
    is_last_known: bool  # the cluster is out of reach
    fate: str
    badge: str
    why: str


def stopping_obstacles(*, reread: bool) -> tuple[Obstacle, ...]:
    """Return what keeps every copy of the fleet where it is now. The stored answers about workloads leave it out.

    `reread`: read settings that may just have changed.
    """
    reading, settings = store(), configuration().settings(reread=reread)
    found = fleet_obstacles(situation_of(reading), settings, now=reading.now())
    return tuple(one for one in found if one.severity == BLOCKS)


def workload_of(target: TargetCluster, binding: Binding | None, row: BindingReadiness | None) -> Workload:
    """Return a line of the table of workloads. `row`: the stored BindingReadiness; None: there is none yet."""
    ref = Ref.parse(target.binding)
    copy = None
    if binding is not None:
        copy = next((one for one in binding.status.aggregated_status if one.cluster_name == target.cluster), None)
    kind = "" if binding is None else binding.spec.resource.kind
    fate, badge, why = fate_of(row, target.cluster)
    url = binding_url(ref)
    name = ref.name if binding is None else binding.spec.resource.name
    health = "" if copy is None else copy.reported_health or ("applied" if copy.applied else "not applied")
    is_last_known = copy is not None and copy.out_of_reach_since is not None
    return Workload(ref.namespace, name, kind, url, target.replicas, health, is_last_known, fate, badge, why)


def fate_of(row: BindingReadiness | None, cluster: str) -> tuple[str, str, str]:
    """Return what would become of a copy if its cluster went down, as a word, a badge and the reason."""
    if row is None:
        return "not known yet", "off", ""
    here = [one for one in row.obstacles if one.cluster in ("", cluster)]
    blocking = next((one for one in here if one.severity == BLOCKS), None)
    if blocking is not None:
        return "stays", "bad", f"{blocking.message}. {blocking.remedy}"
    if here:
        return "moves, with limits", "warn", here[0].message
    return "moves", "ok", ""


def events_about(cluster: Cluster) -> list[Any]:
    """Return the newest Events about a cluster, with repetitions in one line."""
    rows = EventRow.objects.filter(keys__contains=[f"about={cluster.metadata.uid}"]).exclude(last_at=None)
    docs = rows.order_by("-last_at").values_list("doc", flat=True)[: 3 * EVENTS]
    return list(lines_of(decode(KINDS[EVENT], doc) for doc in docs))[:EVENTS]

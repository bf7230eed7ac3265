"""Collection: reads the version, APIs, nodes and pods of Ready Push members, for estimates and API checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.clusters.questions import Answer, Collect, endpoint_of
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.member_access import credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership, all_clusters
from controlplane.engine.decision import NOTHING, Decision, Event, Save
from controlplane.engine.state import State, Watch
from controlplane.estimate.namespace_quotas import ESTIMATE_GATE, read_quotas
from controlplane.estimate.summary import count_nodes, summarise
from controlplane.kinds.cluster import APIEnablement, APIResource, Cluster
from controlplane.kinds.rows import Collected
from controlplane.kinds.template import Template
from controlplane.settings import Settings

USE_SHOWN_EVERY: Final = timedelta(seconds=60)
"""A report that differs only in what pods use is stored at most once in this time. What pods use changes with each pod,
and the status of all Clusters would be written with every report."""
OUTDATED: Final = 2 * USE_SHOWN_EVERY  # the age of the last stored report from which a failure is said
LIMIT_EXCEEDED: Final = "MemberLimitExceeded"
NOT_READ: Final = "MemberNotRead"
_BY_NAME: Final = attrgetter("name")


class CollectionSnapshot(Struct, frozen=True):
    """A cluster, its credentials, and the last report that was stored."""

    subject: Cluster
    secret: Template | None
    before: Collected | None = None


def _became_ready(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """A cluster is due when it becomes a Ready Push cluster with an address."""
    if new is not None and _readable(new) and (old is None or not _readable(old)):
        yield new.ref


def _readable(cluster: Cluster) -> bool:
    return cluster.ready == "True" and cluster.called_directly


class Collection(MemberController):
    """Key: a Cluster. Writes its Collected row. The last values stay while it is not Ready [cluster-status]."""

    name: ClassVar[str] = "collection"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.CLUSTER, _became_ready),
        Watch(kinds.FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)
    owns: ClassVar[Ownership] = Ownership({}, rows=(Collected,))
    batch: ClassVar[int] = 100

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return all clusters, because the settings decide how often each is read, and what is read."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[CollectionSnapshot | None]:
        clusters = state.get(refs)
        secrets = credentials(state, clusters.values())
        reports: dict[str, Sequence[Collected]] = state.rows(Collected, "key", [ref.name for ref in refs])
        return [
            CollectionSnapshot(clusters[ref], secrets.get(ref.name), next(iter(reports.get(ref.name, ())), None))
            if ref in clusters
            else None
            for ref in refs
        ]

    def question(self, snapshot: CollectionSnapshot, settings: Settings, *, now: datetime) -> Collect | None:
        cluster = snapshot.subject
        if not _readable(cluster):
            return None
        resources = settings.enable_cluster_resource_modeling
        quotas = resources and settings.gate(ESTIMATE_GATE)
        return Collect(
            endpoint_of(cluster, snapshot.secret),
            resources=resources,
            quotas=quotas,
            single_nodes=resources and settings.enable_scheduler_estimator,
        )

    def decide(
        self, snapshot: CollectionSnapshot, settings: Settings, *, now: datetime, answer: Answer | None = None
    ) -> Decision:
        if answer is None:
            return NOTHING
        wake_at = now + timedelta(seconds=settings.cluster_status_update_frequency)
        events = _limit_events(snapshot.subject, answer)
        if not answer.ok:
            return Decision(wake_at=wake_at, events=(*events, *_not_read(snapshot, answer, now=now)))
        row = collected(snapshot.subject, answer.body, settings, before=snapshot.before, now=now)
        return Decision(
            changes=() if _is_postponed(row, snapshot.before) else (Save(row),), wake_at=wake_at, events=events
        )


def _limit_events(cluster: Cluster, answer: Answer) -> tuple[Event, ...]:
    """Return the Event about a member whose answers exceed a limit."""
    if not answer.exceeded:
        return ()
    message = f"cluster {cluster.metadata.name} sends more than is read of a member: {answer.exceeded}"
    return (Event(cluster, LIMIT_EXCEEDED, message[:1024], warning=True),)


def _not_read(snapshot: CollectionSnapshot, answer: Answer, *, now: datetime) -> tuple[Event, ...]:
    """Return the Event about a member that grants access, and has not been read for some time, or never.

    It may be Ready all the same: /readyz needs no rights, and lists of nodes and pods do.
    """
    cluster, last = snapshot.subject, None if snapshot.before is None else snapshot.before.at
    if cluster.access_lost or (last is not None and now - last < OUTDATED):
        return ()
    message = (
        f"APIs, nodes or pods of cluster {cluster.metadata.name} cannot be read, so workloads are placed by what was "
        f"read last, if anything: {answer.problem}"
    )
    return (Event(cluster, NOT_READ, message[:1024], warning=True),)


def collected(
    cluster: Cluster, body: dict[str, Any], settings: Settings, *, before: Collected | None, now: datetime
) -> Collected:
    """Return what was read of a member: its APIs, the sums and resource models of its nodes and pods, and its quotas.

    For an API version that could not be read, the resources that were read last are kept [resource-models].
    """
    last_read = (
        {} if before is None else {enablement.group_version: enablement for enablement in before.api_enablements}
    )
    apis = {api["groupVersion"]: _enablement(api) for api in body["apis"] if api["resources"] is not None}
    unread = tuple(sorted(api["groupVersion"] for api in body["apis"] if api["resources"] is None))
    apis |= {version: last_read[version] for version in unread if version in last_read}
    nodes, pods = body.get("nodes"), body.get("pods")
    return Collected(
        key=cluster.metadata.name,
        kubernetes_version=(body.get("version") or {}).get("gitVersion", ""),
        api_enablements=tuple(apis[version] for version in sorted(apis)),
        unread=unread,
        node_summary=None if nodes is None else count_nodes(nodes),
        resource_summary=None
        if nodes is None or pods is None
        else replace(
            summarise(
                nodes,
                pods,
                cluster.spec.resource_models if settings.gate("CustomizedClusterResourceModeling") else (),
                single_nodes=settings.enable_scheduler_estimator,
            ),
            namespace_quotas=read_quotas(body.get("resourcequotas") or ()),
        ),
        at=now,
    )


def _is_postponed(row: Collected, before: Collected | None) -> bool:
    """Test whether to store a report later: only the use by pods differs, and the last stored report is recent."""
    if before is None or before.at is None or row.at is None or row.at - before.at >= USE_SHOWN_EVERY:
        return False
    return row.resource_summary != before.resource_summary and _without_usage(row) == _without_usage(before)


def _without_usage(row: Collected) -> Collected:
    """Return a report without what pods use."""
    summary = row.resource_summary
    if summary is not None:
        grades = tuple(replace(grade, count=0) for grade in summary.allocatable_modelings)
        quotas = tuple(replace(quota, free=dict.fromkeys(quota.free, "0")) for quota in summary.namespace_quotas)
        pools = tuple(replace(pool, nodes=()) for pool in summary.node_pools)
        summary = replace(
            summary,
            allocated={},
            allocating={},
            allocatable_modelings=grades,
            namespace_quotas=quotas,
            node_pools=pools,
        )
    return replace(row, at=None, resource_summary=summary)


def _enablement(api: dict[str, Any]) -> APIEnablement:
    resources = [APIResource(resource["name"], resource["kind"]) for resource in api["resources"]]
    resources.sort(key=_BY_NAME)
    return APIEnablement(api["groupVersion"], tuple(resources))

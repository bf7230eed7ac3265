"""Aggregates the status of a binding's Works: one item per member, and the condition FullyApplied
[status-aggregation]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.names import cluster_of_execution_namespace
from controlplane.interpret.retain import leaves_replicas
from controlplane.kinds.binding import FULLY_APPLIED, UNKNOWN, AggregatedStatusItem, Binding
from controlplane.kinds.work import APPLIED, ManifestStatus, ResourceIdentifier, Work

Items = tuple[AggregatedStatusItem, ...]

SUCCESS = Condition(FULLY_APPLIED, "True", "FullyAppliedSuccess", "All works have been successfully applied")
FAILED = Condition(
    FULLY_APPLIED, "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)

OUT_OF_REACH = "ClusterOutOfReach"  # reason of FullyApplied: Unknown
LAST_APPLIED = "All works were applied when their clusters were last reached"


def aggregated(
    works: Iterable[Work],
    *,
    out_of_reach: Mapping[str, datetime] | None = None,
    before: Iterable[AggregatedStatusItem] = (),
) -> tuple[AggregatedStatusItem, ...]:
    """Return one item for each Work that is not being deleted, by cluster name.

    `out_of_reach`: the clusters that do not report, and since when; only their last known status exists. `before`: the
    stored items. An item that is already marked as out of reach keeps its time, because Ready may change between False
    and Unknown meanwhile.
    """
    since = dict(out_of_reach or {})
    for stored in before:
        if stored.out_of_reach_since is not None and stored.cluster_name in since:
            since[stored.cluster_name] = min(stored.out_of_reach_since, since[stored.cluster_name])
    items = [_item(work) for work in works if work.metadata.deletion_timestamp is None]
    marked = [_last_known(item, since.get(item.cluster_name)) for item in items]
    return tuple(sorted(marked, key=lambda item: item.cluster_name))


def _last_known(item: AggregatedStatusItem, since: datetime | None) -> AggregatedStatusItem:
    """Return an item that is marked as out of reach since then. `since` None: the cluster reports; the item is
    current."""
    if since is None:
        return item
    return replace(item, health=UNKNOWN, last_known_health=item.health, out_of_reach_since=since)


def counting(items: Iterable[AggregatedStatusItem], *, final: Callable[[Mapping[str, Any]], bool]) -> Items:
    """Return the items for the status of the template: without the status of clusters that are out of reach.

    `final`: tests whether a status can no longer change. Such a status always counts. Example: a completed Job.
    """
    return tuple(
        item
        if item.out_of_reach_since is None or item.status is None or final(item.status)
        else replace(item, status=None)
        for item in items
    )


def fully_applied(binding: Binding, items: Sequence[AggregatedStatusItem]) -> Condition:
    """Return the condition FullyApplied: True if every cluster that should have a copy has applied it, and no other
    has. Unknown: that was so when clusters that cannot be reached answered last."""
    wanted = set(binding.clusters_kept())
    reported = {item.cluster_name for item in items}
    if not wanted or wanted != reported or not all(item.applied for item in items):
        return FAILED
    lost = [
        f"{item.cluster_name} since {item.out_of_reach_since:%Y-%m-%dT%H:%M:%SZ}" for item in items if _is_lost(item)
    ]
    if lost:
        return Condition(FULLY_APPLIED, "Unknown", OUT_OF_REACH, f"{LAST_APPLIED}; out of reach: {', '.join(lost)}")
    return SUCCESS


def _is_lost(item: AggregatedStatusItem) -> bool:
    return item.out_of_reach_since is not None


def _item(work: Work) -> AggregatedStatusItem:
    cluster = cluster_of_execution_namespace(work.metadata.namespace)
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.status != "True":
        message = "" if applied is None else applied.message
        return AggregatedStatusItem(cluster_name=cluster, applied_message=message, health=UNKNOWN)
    reported = _status(work)
    if reported is None:
        return AggregatedStatusItem(cluster_name=cluster, applied=True, health=UNKNOWN)
    return AggregatedStatusItem(
        cluster_name=cluster,
        status=reported.status,
        applied=True,
        health=reported.health,
        scaled_by_member=leaves_replicas(work.manifest),
    )


def _status(work: Work) -> ManifestStatus | None:
    """Return the status that the member reported of the Work's manifest. None: it reported none yet."""
    manifest = work.manifest
    metadata = manifest.get("metadata") or {}
    group, slash, version = str(manifest.get("apiVersion", "")).partition("/")
    if not slash:
        group, version = "", group
    for reported in work.status.manifest_statuses:
        if _about(reported.identifier, group, version, manifest.get("kind"), metadata):
            return reported
    return None


def _about(
    identifier: ResourceIdentifier, group: str, version: str, kind: str | None, metadata: dict[str, str]
) -> bool:
    return (
        identifier.ordinal == 0
        and identifier.kind == kind
        and identifier.group == group
        and identifier.version == version
        and identifier.name == metadata.get("name", "")
        and identifier.namespace == metadata.get("namespace", "")
    )

"""What the members say of a binding's copies, in one list, and whether all of them are applied (semantics 2.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.names import cluster_of_execution_namespace
from controlplane.kinds.binding import FULLY_APPLIED, UNKNOWN, AggregatedStatusItem, Binding
from controlplane.kinds.work import APPLIED, ManifestStatus, ResourceIdentifier, Work

Items = tuple[AggregatedStatusItem, ...]

SUCCESS = Condition(FULLY_APPLIED, "True", "FullyAppliedSuccess", "All works have been successfully applied")
FAILED = Condition(
    FULLY_APPLIED, "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)


def aggregated(
    works: Iterable[Work],
    *,
    out_of_reach: Mapping[str, datetime] | None = None,
    before: Iterable[AggregatedStatusItem] = (),
) -> tuple[AggregatedStatusItem, ...]:
    """Return one item per Work that is not on its way out, by cluster name.

    `out_of_reach`: the clusters of which only the last known state is known, each with since when. `before`: the items
    as they are stored. An item that is marked keeps its time, as Ready may change between False and Unknown meanwhile.
    """
    since = dict(out_of_reach or {})
    for one in before:
        if one.out_of_reach_since is not None and one.cluster_name in since:
            since[one.cluster_name] = min(one.out_of_reach_since, since[one.cluster_name])
    items = [_item(work) for work in works if work.metadata.deletion_timestamp is None]
    marked = [_last_known(item, since.get(item.cluster_name)) for item in items]
    return tuple(sorted(marked, key=lambda item: item.cluster_name))


def _last_known(item: AggregatedStatusItem, since: datetime | None) -> AggregatedStatusItem:
    """Return an item marked as last known since then; None: the cluster answers, the item is news."""
    if since is None:
        return item
    return replace(item, health=UNKNOWN, last_known_health=item.health, out_of_reach_since=since)


def counting(items: Iterable[AggregatedStatusItem], *, final: Callable[[Mapping[str, Any]], bool]) -> Items:
    """Return the items as a template's status counts them: without the status of clusters out of reach.

    What has ended for good (`final`, given a status) counts wherever it ran: a Job that is complete stays complete.
    """
    return tuple(
        item
        if item.out_of_reach_since is None or item.status is None or final(item.status)
        else replace(item, status=None)
        for item in items
    )


def fully_applied(binding: Binding, items: Sequence[AggregatedStatusItem]) -> Condition:
    """Return the FullyApplied condition: every cluster that shall hold a copy has it applied, and no other does."""
    wanted = set(binding.clusters_kept())
    found = {item.cluster_name for item in items}
    if not wanted or wanted != found or not all(item.applied for item in items):
        return FAILED
    lost = [f"{one.cluster_name} since {one.out_of_reach_since:%Y-%m-%dT%H:%M:%SZ}" for one in items if _is_lost(one)]
    return replace(SUCCESS, message=f"{SUCCESS.message}; out of reach: {', '.join(lost)}") if lost else SUCCESS


def _is_lost(item: AggregatedStatusItem) -> bool:
    return item.out_of_reach_since is not None


def _item(work: Work) -> AggregatedStatusItem:
    cluster = cluster_of_execution_namespace(work.metadata.namespace)
    said = condition(work.status.conditions, APPLIED)
    if said is None or said.status != "True":
        message = "" if said is None else said.message
        return AggregatedStatusItem(cluster_name=cluster, applied_message=message, health=UNKNOWN)
    seen = _status(work)
    if seen is None:
        return AggregatedStatusItem(cluster_name=cluster, applied=True, health=UNKNOWN)
    return AggregatedStatusItem(cluster_name=cluster, status=seen.status, applied=True, health=seen.health)


def _status(work: Work) -> ManifestStatus | None:
    """Return what the member said of the manifest the Work carries."""
    manifest = work.manifest
    metadata = manifest.get("metadata") or {}
    group, slash, version = str(manifest.get("apiVersion", "")).partition("/")
    if not slash:
        group, version = "", group
    for one in work.status.manifest_statuses:
        if _about(one.identifier, group, version, manifest.get("kind"), metadata):
            return one
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

"""What the members say of a binding's copies, in one list, and whether all of them are applied (semantics 2.11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.kinds.binding import FULLY_APPLIED, UNKNOWN, AggregatedStatusItem, Binding
from controlplane.kinds.work import APPLIED, ManifestStatus, ResourceIdentifier, Work
from controlplane.meta import Condition, condition
from controlplane.names import cluster_of_execution_namespace

SUCCESS = Condition(FULLY_APPLIED, "True", "FullyAppliedSuccess", "All works have been successfully applied")
FAILED = Condition(
    FULLY_APPLIED, "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)


def aggregated(works: Iterable[Work]) -> tuple[AggregatedStatusItem, ...]:
    """Return one item per Work that is not on its way out, by cluster name."""
    items = [_item(work) for work in works if work.metadata.deletion_timestamp is None]
    return tuple(sorted(items, key=lambda item: item.cluster_name))


def fully_applied(binding: Binding, items: Sequence[AggregatedStatusItem]) -> Condition:
    """Return the FullyApplied condition: every cluster that shall hold a copy has it applied, and no other does."""
    wanted = set(binding.clusters_kept())
    found = {item.cluster_name for item in items}
    return SUCCESS if wanted and wanted == found and all(item.applied for item in items) else FAILED


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

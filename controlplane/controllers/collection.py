"""Collection: reads version, APIs, nodes and pods of members that are Ready, for estimates and API checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.controllers.controller import Ownership
from controlplane.controllers.execution import credentials_of
from controlplane.controllers.member import MemberController
from controlplane.decision import NOTHING, Decision, Save
from controlplane.estimate.summary import count_nodes, summarise
from controlplane.kinds.cluster import PUSH, APIEnablement, APIResource, Cluster
from controlplane.kinds.rows import Collected
from controlplane.kinds.template import Template
from controlplane.members import Answer, Collect, endpoint_of
from controlplane.meta import Ref, Struct
from controlplane.settings import Settings
from controlplane.state import State, Watch


class Reading(Struct, frozen=True):
    """A cluster and its credentials."""

    subject: Cluster
    secret: Template | None


def _became_ready(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """A member is due when it becomes Ready, or becomes one we reach ourselves."""
    if new is not None and _readable(new) and (old is None or not _readable(old)):
        yield new.ref


def _readable(cluster: Cluster) -> bool:
    return cluster.ready == "True" and cluster.spec.sync_mode == PUSH


class Collection(MemberController):
    """Key: a Cluster. Runs while it is Ready; stale values stay where it is not (semantics 2.1)."""

    name: ClassVar[str] = "collection"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(kinds.CLUSTER, _became_ready),)
    owns: ClassVar[Ownership] = Ownership({}, rows=(Collected,))
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Reading | None]:
        clusters = state.get(refs)
        secrets = credentials_of(state, clusters.values())
        return [Reading(clusters[ref], secrets.get(ref.name)) if ref in clusters else None for ref in refs]

    def question(self, snapshot: Reading, settings: Settings, *, now: datetime) -> Collect | None:
        cluster = snapshot.subject
        if not _readable(cluster):
            return None
        return Collect(endpoint_of(cluster, snapshot.secret), resources=settings.enable_cluster_resource_modeling)

    def decide(self, snapshot: Reading, settings: Settings, *, now: datetime, answer: Answer | None = None) -> Decision:
        if answer is None:
            return NOTHING
        wake_at = now + timedelta(seconds=settings.cluster_status_update_frequency)
        if not answer.ok:
            return Decision(wake_at=wake_at)
        row = collected(snapshot.subject, answer.body, settings, now=now)
        return Decision(changes=(Save(row),), wake_at=wake_at)


def collected(cluster: Cluster, body: dict[str, Any], settings: Settings, *, now: datetime) -> Collected:
    """Return what was read, condensed: APIs sorted, nodes and pods summed and graded (D16)."""
    apis = sorted(
        (
            APIEnablement(
                one["groupVersion"],
                tuple(sorted((APIResource(res["name"], res["kind"]) for res in one["resources"]), key=_by_name)),
            )
            for one in body["apis"]
        ),
        key=lambda one: one.group_version,
    )
    nodes, pods = body.get("nodes"), body.get("pods")
    return Collected(
        key=cluster.metadata.name,
        kubernetes_version=(body.get("version") or {}).get("gitVersion", ""),
        api_enablements=tuple(apis),
        node_summary=None if nodes is None else count_nodes(nodes),
        resource_summary=None
        if nodes is None or pods is None
        else summarise(
            nodes,
            pods,
            cluster.spec.resource_models if settings.gate("CustomizedClusterResourceModeling") else (),
        ),
        at=now,
    )


def _by_name(resource: APIResource) -> str:
    return resource.name

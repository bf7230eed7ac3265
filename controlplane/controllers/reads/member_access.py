"""How members are reached: their credentials, and the fields of a Cluster that say where and how to connect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.unopened import holds_unopened
from controlplane.engine.apart import apart
from controlplane.engine.state import State, Unreadable
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work


def check_readable(work: Work) -> None:
    """Raise Unreadable if a Work has values that cannot be decrypted: a member gets nothing in their place."""
    if holds_unopened(work.spec.workload.manifests):
        raise Unreadable(
            f"Work {work.metadata.namespace}/{work.metadata.name}: the values of its Secret were encrypted with a key "
            "that is not known: add that key, or replace or delete the Secret"
        )


def credentials(state: State, clusters: Iterable[Cluster]) -> dict[str, Template]:
    """Return the Secret with the credentials of each cluster, by cluster name. Makes one query.

    Clusters without a `secretRef`, and clusters whose Secret does not exist, are left out.
    """
    wanted = {
        cluster.metadata.name: Ref("Secret", cluster.spec.secret_ref.namespace, cluster.spec.secret_ref.name)
        for cluster in clusters
        if cluster.spec.secret_ref is not None
    }
    secrets = state.get(sorted(set(wanted.values())))
    return {name: secrets[ref] for name, ref in wanted.items() if ref in secrets}


def readable_credentials(state: State, clusters: Sequence[Cluster]) -> tuple[dict[str, Template], dict[str, str]]:
    """Return the same, and why the credentials of other clusters cannot be read, by cluster name."""
    found: dict[str, Template] = {}
    unreadable: dict[str, str] = {}
    for part, secrets in apart(clusters, partial(credentials, state)):
        if isinstance(secrets, Unreadable):
            unreadable |= {cluster.metadata.name: str(secrets) for cluster in part}
        else:
            found |= secrets
    return found, unreadable


def connection_fields(cluster: Cluster) -> tuple[Any, ...]:
    """Return the values that decide how a member is reached. If one of them changes, the member is asked again."""
    spec = cluster.spec
    return (
        spec.sync_mode,
        spec.api_endpoint,
        spec.secret_ref,
        spec.insecure_skip_tls_verification,
        spec.proxy_url,
        spec.proxy_header,
    )

"""Who may decide where the credentials of a member are sent: users who may read them [credentials-of-members]."""

from __future__ import annotations

from controlplane.apimachinery.errors import Forbidden
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.policy import Policy
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster, ClusterSpec

GROUP, _, _KIND = CLUSTER.rpartition("/")


def check_cluster(policy: Policy, caller: Caller, new: Cluster, old: Cluster | None) -> None:
    """Raise Forbidden if a user changes how a member is reached and may not get the Secrets that are sent to it.

    `old` None: the Cluster is new.
    """
    if old is not None and _connection(new.spec) == _connection(old.spec):
        return
    for field, ref in (
        ("spec.secretRef", new.spec.secret_ref),
        ("spec.impersonatorSecretRef", new.spec.impersonator_secret_ref),
    ):
        if ref is None:
            continue
        if not policy.authorize(caller, Request("get", "", "secrets", "", ref.namespace, ref.name)).allowed:
            name = new.metadata.name
            raise Forbidden(
                f'clusters.{GROUP} "{name}" is forbidden: the credentials in the Secret {ref.namespace}/{ref.name} '
                f'({field}) are sent to this cluster, and user "{caller.name}" may not get that Secret: ask a user who '
                "may, or change nothing of the connection",
                kind="clusters",
                group=GROUP,
                name=name,
            )


def _connection(spec: ClusterSpec) -> tuple[object, ...]:
    """Return what decides which credentials are sent, and where to."""
    return (
        spec.api_endpoint,
        spec.secret_ref,
        spec.impersonator_secret_ref,
        spec.insecure_skip_tls_verification,
        spec.proxy_url,
        spec.proxy_header,
    )

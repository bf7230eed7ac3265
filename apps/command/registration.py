"""The bootstrap token with which the agent of a new Pull member registers itself."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Final

from apps.command.errors import CommandError
from apps.command.run import Run

TYPE: Final = "bootstrap.kubernetes.io/token"
GROUP: Final = "system:bootstrappers:karmada:default-cluster-token"
VALID: Final = timedelta(hours=24)
_PLACE: Final = "/api/v1/namespaces/kube-system/secrets"


def advise(run: Run, cluster: str) -> None:
    """Print the command that registers the agent of a cluster, with a bootstrap token that is created for it.

    The token is not printed with -o json or yaml, and not created by a dry run. Without the right to create it, the
    way without a bootstrap token is printed.
    """
    if run.dry_run or run.is_structured:
        return
    try:
        token = _create(run, cluster)
    except CommandError as error:
        run.remark(f"no bootstrap token was created: {error}")
        run.remark(f"give its agent a kubeconfig: manage.py kubeconfig --server {run.api.server} --agent {cluster}")
        return
    run.remark("in the cluster, within 24 hours (docs/agent.md):")
    run.remark(f"  lifeboat-agent register {cluster} --server {run.api.server} --token {token}")


def _create(run: Run, cluster: str) -> str:
    """Create a bootstrap token and return it. Raises CommandError."""
    token_id, secret = secrets.token_hex(3), secrets.token_hex(8)
    values = {
        "token-id": token_id,
        "token-secret": secret,
        "description": f"registers the agent of cluster {cluster}",
        "expiration": (datetime.now(UTC) + VALID).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": GROUP,
    }
    name = f"bootstrap-token-{token_id}"
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": TYPE, "stringData": values}
    run.api.apply(f"{_PLACE}/{name}", document)
    return f"{token_id}.{secret}"

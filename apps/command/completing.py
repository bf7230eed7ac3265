"""Names that the shell completes, read from the API. Without an answer nothing is completed."""

from __future__ import annotations

from apps.command import kubeconfig, paths
from apps.command.api import Api
from apps.command.errors import CommandError


def clusters(incomplete: str) -> list[str]:
    """Return the names of the clusters that begin with what the user has typed. Empty: also if the API gives none."""
    try:
        found = Api(kubeconfig.read(None, ""), warn=lambda text: None).items(paths.CLUSTERS)["items"]
    except CommandError:
        return []
    names = (one["metadata"]["name"] for one in found)
    return [name for name in names if name.startswith(incomplete)]

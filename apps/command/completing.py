"""Names that the shell completes, read from the API. Without an answer nothing is completed."""

from __future__ import annotations

import typer

from apps.command import kubeconfig, paths
from apps.command.api import Api
from apps.command.errors import CommandError


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the clusters that begin with what the user has typed. Empty: also if the API gives none.

    `ctx`: the line so far, which may name a kubeconfig and a context.
    """
    file, context = ctx.params.get("kubeconfig"), ctx.params.get("context") or ""
    try:
        found = Api(kubeconfig.read(file, context), warn=lambda text: None).items(paths.CLUSTERS)["items"]
    except CommandError:
        return []
    names = (one["metadata"]["name"] for one in found)
    return [name for name in names if name.startswith(incomplete)]

"""Obstacle: something that prevents or impairs a failover of a binding, with its remedy."""

from __future__ import annotations

from controlplane.apimachinery.meta import Struct

BLOCKS, WARNS = "Blocks", "Warns"


class Obstacle(Struct, frozen=True):
    """Something that prevents or impairs a failover. `severity` Blocks: the copy would not move; Warns: it would move.

    `cluster` "": the obstacle concerns all clusters.
    """

    what: str
    severity: str
    message: str
    remedy: str
    cluster: str = ""

"""Which controllers run together: a group is one lease, run in order by one process at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller

INTERVAL_SECONDS = 5.0  # between two ticks of a group
MEMBERS = "members"  # run by the members process, not by Celery


class Group(msgspec.Struct, frozen=True):
    """Controllers in the order they run, and into how many shards their objects are split."""

    name: str
    controllers: tuple[Controller, ...]

    @property
    def shards(self) -> int:
        return max(controller.shards for controller in self.controllers)

    def of_shard(self, shard: int) -> Sequence[Controller]:
        """Return the controllers with work in that shard: unsharded ones belong to shard 0."""
        return [controller for controller in self.controllers if shard < controller.shards]


def groups() -> dict[str, Group]:
    """Return all groups by name, in the order of CONTROLLERS."""
    found: dict[str, list[Controller]] = {}
    for controller in CONTROLLERS:
        found.setdefault(controller.group, []).append(controller)
    return {name: Group(name, tuple(controllers)) for name, controllers in found.items()}


GROUPS = groups()


def ticks() -> list[str]:
    """Return what beat rings for: "group/shard" for every group Celery runs."""
    return [
        f"{group.name}/{shard}" for group in GROUPS.values() if group.name != MEMBERS for shard in range(group.shards)
    ]

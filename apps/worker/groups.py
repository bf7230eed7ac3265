"""Groups of controllers. A group has one lease per shard; the process that holds it runs the controllers in order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller

INTERVAL_SECONDS = 5.0  # between two ticks of a group
MEMBERS = "members"  # the group that the members process runs; Celery workers run all others


class Group(msgspec.Struct, frozen=True):
    """Controllers in the order in which they run."""

    name: str
    controllers: tuple[Controller, ...]

    @property
    def shards(self) -> int:
        """Return into how many shards the objects of the group are split."""
        return max(controller.shards for controller in self.controllers)

    def of_shard(self, shard: int) -> Sequence[Controller]:
        """Return the controllers that run in a shard. A controller without shards runs in shard 0."""
        return [controller for controller in self.controllers if shard < controller.shards]


def groups() -> dict[str, Group]:
    """Return all groups by name, in the order of CONTROLLERS."""
    by_group: dict[str, list[Controller]] = {}
    for controller in CONTROLLERS:
        by_group.setdefault(controller.group, []).append(controller)
    return {name: Group(name, tuple(controllers)) for name, controllers in by_group.items()}


GROUPS = groups()


def tick_names() -> list[str]:
    """Return "group/shard" for every group that Celery runs: beat sends a tick for each."""
    return [
        f"{group.name}/{shard}" for group in GROUPS.values() if group.name != MEMBERS for shard in range(group.shards)
    ]

"""The type Interpreter: the operations that one kind supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from controlplane.kinds.binding import AggregatedStatusItem, Component, ReplicaRequirements

Document = dict[str, Any]


class Demand(NamedTuple):
    """The replicas an object requests, and what each replica needs. `requirements` None: nothing in particular."""

    replicas: int
    requirements: ReplicaRequirements | None


class Dependency(NamedTuple):
    """An object that another object needs in the same cluster. It is given by name or, if `name` is "", by label
    selector."""

    api_version: str
    kind: str
    namespace: str
    name: str
    label_selector: dict[str, Any] | None = None


def never(status: Mapping[str, Any]) -> bool:
    return False


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of one kind. None: the kind does not support the operation.

    `final` tests whether a status can no longer change, for example the status of a Job that has ended. `replaced`
    tests whether an object with such a status is made again when it is gone: a Pod that failed.

    An operation never changes the documents that it is given. The result shares their unchanged parts.
    """

    replicas: Callable[[Document], Demand] | None = None
    components: Callable[[Document], tuple[Component, ...]] | None = None
    revise: Callable[[Document, int], Document] | None = None
    healthy: Callable[[Document], bool] | None = None
    reflect: Callable[[Document], Document | None] | None = None
    aggregate: Callable[[Document, Sequence[AggregatedStatusItem], datetime], Document] | None = None
    retain: Callable[[Document, Document], Document] | None = None
    dependencies: Callable[[Document], Sequence[Dependency]] | None = None
    ready: Callable[[Mapping[str, Any]], int] | None = None
    prune: Callable[[Document], Document] | None = None
    final: Callable[[Mapping[str, Any]], bool] = never
    replaced: Callable[[Mapping[str, Any]], bool] = never

    @property
    def ends(self) -> bool:
        """Test whether objects of the kind may come to an end."""
        return self.final is not never

    def has_finished(self, status: Mapping[str, Any] | None) -> bool:
        """Test whether an object with this status has finished, so that another one would run a second time."""
        return status is not None and self.final(status) and not self.replaced(status)


NO_OPERATIONS = Interpreter()

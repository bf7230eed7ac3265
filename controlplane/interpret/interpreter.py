"""What can be asked about an object of a kind: an Interpreter answers what its kind knows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from controlplane.kinds.binding import AggregatedStatusItem, ReplicaRequirements

Document = dict[str, Any]


class Demand(NamedTuple):
    """How many replicas an object asks for, and what each of them needs (None: nothing in particular)."""

    replicas: int
    requirements: ReplicaRequirements | None


class Dependency(NamedTuple):
    """An object that another one needs beside it, by name or (name "") by label selector."""

    api_version: str
    kind: str
    namespace: str
    name: str
    label_selector: dict[str, Any] | None = None


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of one kind; None where the kind has no rule for one.

    `final` tests whether a status is one that no longer changes, as that of a Job that has ended.

    Documents that come in are never changed: what comes out shares their unchanged parts.
    """

    replicas: Callable[[Document], Demand] | None = None
    revise: Callable[[Document, int], Document] | None = None
    healthy: Callable[[Document], bool] | None = None
    reflect: Callable[[Document], Document | None] | None = None
    aggregate: Callable[[Document, Sequence[AggregatedStatusItem], datetime], Document] | None = None
    retain: Callable[[Document, Document], Document] | None = None
    dependencies: Callable[[Document], Sequence[Dependency]] | None = None
    ready: Callable[[Mapping[str, Any]], int] | None = None
    prune: Callable[[Document], Document] | None = None
    final: Callable[[Mapping[str, Any]], bool] = lambda status: False


NO_OPERATIONS = Interpreter()

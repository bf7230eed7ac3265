"""Aggregated ClusterRoles: their rules follow the ClusterRoles that they select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.authorization.aggregation import aggregated_rules
from controlplane.authorization.policy import CLUSTER_ROLE
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import State, Watch
from controlplane.kinds.template import Template
from controlplane.settings import Settings


class ClusterRolesSnapshot(Struct, frozen=True):
    """All ClusterRoles."""

    roles: tuple[Template, ...]


def _role_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """Yield the fleet if a change may concern aggregated roles: a change of rules, labels or selectors."""
    if _relevant(old) != _relevant(new):
        yield FLEET


def _relevant(role: Template | None) -> tuple[Any, ...]:
    return () if role is None else (role.metadata.labels, role.content)


class ClusterRoles(Controller):
    """Key: the fleet, because each ClusterRole may be selected by several others. Writes rules of aggregated roles."""

    name: ClassVar[str] = "cluster_roles"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (FLEET.kind,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(CLUSTER_ROLE, _role_changed),)
    owns: ClassVar[Ownership] = Ownership({CLUSTER_ROLE: ("content",)})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterRolesSnapshot | None]:
        snapshot = ClusterRolesSnapshot(tuple(state.list(CLUSTER_ROLE)))
        return [snapshot for _ in refs]

    def decide(
        self, snapshot: ClusterRolesSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        documents = [role.document() for role in snapshot.roles]
        changes = []
        for role, document in zip(snapshot.roles, documents, strict=True):
            rules = aggregated_rules(document, documents)
            if rules is not None and rules != list(role.content.get("rules") or ()):
                changes.append(Put(role.with_content({**role.content, "rules": rules}), role))
        return Decision(changes=tuple(changes), reason="RolesAggregated")

"""Orphan: a deletion that asks to leave behind what an object owns is refused where that would not be so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Object
from controlplane.engine.lifecycle import ORPHAN
from controlplane.engine.state import State
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation import bindings


def check(state: State, objects: Iterable[Object], policy: str) -> None:
    """Raise Conflict where somebody would orphan a template whose copies go with it: they are on members, removed with
    the binding, and no owner reference holds them (semantics 2.14)."""
    if policy != ORPHAN:
        return
    templates = {bindings.binding_ref(one.ref): one for one in objects if isinstance(one, Template)}
    found: dict[Any, Any] = state.get(list(templates)) if templates else {}
    for ref, binding in found.items():
        if binding.spec.preserve_resources_on_deletion or not binding.spec.clusters:
            continue
        template = templates[ref]
        resource = KINDS[template.ref.kind].resource
        raise Conflict.of(
            resource.plural,
            template.metadata.name,
            group=resource.group,
            why="propagationPolicy Orphan would not leave it running: its copies on "
            f"{', '.join(one.name for one in binding.spec.clusters[:5])} go with the binding; set "
            "preserveResourcesOnDeletion: true in the policy that propagates it first, and delete it then",
        )

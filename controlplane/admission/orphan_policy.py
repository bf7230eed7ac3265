"""The propagationPolicy Orphan of a deletion, which is refused for a template whose copies would be deleted anyway."""

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


def check_orphan_policy(state: State, objects: Iterable[Object], policy: str) -> None:
    """Raise Conflict if a deletion with propagationPolicy Orphan would delete the copies of a template nevertheless.

    The copies run on member clusters and are removed together with the binding. They are not dependents that an owner
    reference connects with the template, so Orphan cannot keep them [policy-matching].
    """
    if policy != ORPHAN:
        return
    templates = {bindings.binding_ref(obj.ref): obj for obj in objects if isinstance(obj, Template)}
    stored: dict[Any, Any] = state.get(list(templates)) if templates else {}
    for ref, binding in stored.items():
        if binding.spec.preserve_resources_on_deletion or not binding.spec.clusters:
            continue
        template = templates[ref]
        resource = KINDS[template.ref.kind].resource
        clusters = ", ".join(target.name for target in binding.spec.clusters[:5])
        raise Conflict.of(
            resource.plural,
            template.metadata.name,
            group=resource.group,
            why=f"propagationPolicy Orphan would not leave it running, because its copies on {clusters} are deleted "
            "with its binding; set spec.preserveResourcesOnDeletion: true in the policy that propagates it, then "
            "delete it again",
        )

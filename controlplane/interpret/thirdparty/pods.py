"""Pod templates in third-party kinds: what a pod requests, which objects it needs, and the components of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from controlplane.interpret import requirements
from controlplane.interpret.interpreter import Demand, Dependency, Document
from controlplane.interpret.replicas import with_spec
from controlplane.interpret.thirdparty.fields import at, counted, listed, needed, number
from controlplane.kinds.binding import Component, ReplicaRequirements
from controlplane.kinds.template.pods import referenced_objects

KINDS = ("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")


def requested(template: Any) -> ReplicaRequirements | None:
    """Return what one pod of a template requests. Raises ValueError if there is no template."""
    if not isinstance(template, dict):
        raise ValueError("the pod template is missing")
    return requirements.of_pod(template.get("spec") or {})


def replicas_at(field: str, template: str = "template", default: int = 1) -> Callable[[Document], Demand]:
    """Return the rule of kinds with a number of replicas and a pod template in their spec."""

    def replicas(doc: Document) -> Demand:
        value = needed(doc, "spec", field)
        count = default if value is None else int(counted(value, f"spec.{field}"))
        return Demand(count, requested(needed(doc, "spec", template)))

    return replicas


def with_field(field: str) -> Callable[[Document, int], Document]:
    """Return the rule that writes the number of replicas to a field of the spec."""
    return lambda doc, replicas: with_spec(doc, **{field: replicas})


def component(name: Any, replicas: Any, template: Any, default: int = 1) -> Component:
    """Return a component of a workload. `default`: its replicas if none are written. No template requests nothing."""
    return Component(
        name=str(name or ""),
        replicas=int(number(replicas, default)),
        replica_requirements=None if template is None else requested(template),
    )


def needs_of_template(*path: str) -> Callable[[Document], Sequence[Dependency]]:
    """Return the dependency rule of kinds with a pod template at this path."""

    def dependencies(doc: Document) -> Sequence[Dependency]:
        return needs_of(doc, [needed(doc, *path)])

    return dependencies


def needs_of(doc: Document, templates: Iterable[Any]) -> list[Dependency]:
    """Return what the pods of all templates need, each object once, in the namespace of the document or `default`.

    Raises ValueError if a template is missing.
    """
    namespace = str(at(doc, "metadata", "namespace") or "default")
    found: dict[tuple[str, str], None] = {}
    for template in templates:
        if not isinstance(template, dict):
            raise ValueError("the pod template is missing")
        found |= dict.fromkeys(referenced_objects(template.get("spec") or {}))
    return [Dependency("v1", kind, namespace, name) for kind, name in found]


def named(doc: Document, names: Mapping[str, Iterable[Any]]) -> list[Dependency]:
    """Return the objects with these names, by kind, in the namespace of the document; each object once."""
    namespace = str(at(doc, "metadata", "namespace") or "")
    return [
        Dependency("v1", kind, namespace, name)
        for kind in names
        for name in dict.fromkeys(map(str, filter(None, names[kind])))
    ]


def secret_name(reference: Any, field: str) -> str:
    """Return the name in a reference to a Secret; "" if there is no reference. Raises ValueError if it has no name."""
    if reference is None:
        return ""
    name = reference.get("name") if isinstance(reference, dict) else None
    if name is None:
        raise ValueError(f"{field}.name: the reference has no name")
    return str(name)


def names_in(entries: Any, *path: str) -> list[Any]:
    """Return the value at a path of each entry of a list."""
    return [at(entry, *path) for entry in listed(entries)]

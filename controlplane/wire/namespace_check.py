"""The check that the namespace of a new object exists and is not being deleted."""

from __future__ import annotations

from controlplane.apimachinery.errors import Cause, Forbidden, NotFound
from controlplane.wire.resource import Resource


def check_accepts_objects(resource: Resource, *, namespace: str, name: str, is_ending: bool | None) -> None:
    """Raise NotFound if the namespace does not exist (`is_ending` None), Forbidden if it is being deleted (True)."""
    if is_ending is None:
        raise NotFound.of("namespaces", namespace)
    if is_ending:
        raise Forbidden(
            f'{resource.plural} "{name}" is forbidden: unable to create new content in namespace {namespace} '
            "because it is being terminated",
            kind=resource.plural,
            group=resource.group,
            name=name,
            causes=[Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")],
        )

"""The namespace a new object is to live in: it has to be there, and to stay."""

from __future__ import annotations

from controlplane.apimachinery.errors import Cause, Forbidden, NotFound
from controlplane.wire.resource import Resource


def check_home(resource: Resource, *, namespace: str, name: str, is_ending: bool | None) -> None:
    """Raise NotFound where the namespace is missing (`is_ending` None), Forbidden where it is on its way out."""
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

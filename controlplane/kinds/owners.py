"""The index of objects by the owners that their owner references name."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.kind import Index

OWNER = "owner"
"""Name of the index."""


def _owners(obj: Any) -> list[str]:
    """Return the owners of an object as references, each with and without the object's namespace.

    An owner reference does not say whether the owner is namespaced. The caller that looks up an owner knows.
    """
    namespace = obj.metadata.namespace
    owners = [(kind_key(owner.api_version, owner.kind), owner.name) for owner in obj.metadata.owner_references]
    namespaces = ("", namespace) if namespace else ("",)
    return sorted({str(Ref(kind, space, name)) for kind, name in owners for space in namespaces})


OWNED = Index(OWNER, _owners, "controllers.owners: objects whose owner was deleted")

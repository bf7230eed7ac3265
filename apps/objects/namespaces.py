"""Creation of the namespaces that every installation has."""

from __future__ import annotations

from apps.objects.store import DjangoStore
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import AlreadyExists
from controlplane.apimachinery.meta import Ref
from controlplane.engine import lifecycle
from controlplane.kinds import KINDS, NAMESPACE
from controlplane.settings import Settings


def make_namespaces(store: DjangoStore) -> list[str]:
    """Create the namespaces that are missing; return their names. Their rules depend on no setting."""
    refs = [Ref(NAMESPACE, "", name) for name in lifecycle.PERMANENT_NAMESPACES]
    writer, found = Writer(store, Settings(), Author("prepare", "Prepare")), store.get(refs)
    created = []
    for ref in refs:
        if ref in found:
            continue
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ref.name}}
        try:
            writer.create(KINDS[NAMESPACE], document)
        except AlreadyExists:  # another process prepares the same database
            continue
        created.append(ref.name)
    return created

"""Creation of the roles that every installation has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.objects.store import DjangoStore
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import AlreadyExists, Conflict
from controlplane.apimachinery.meta import Ref
from controlplane.authorization import default_roles
from controlplane.authorization.policy import GROUP
from controlplane.kinds import KINDS
from controlplane.settings import Settings

Document = dict[str, Any]

AUTOUPDATE = f"{GROUP}/autoupdate"


def make_roles(store: DjangoStore, listed: Callable[[], list[Document]] = default_roles.documents) -> list[str]:
    """Create the listed roles and bindings that are missing; return what was written.

    A role or binding that exists gets the rules and subjects that it lacks, unless its annotation
    rbac.authorization.k8s.io/autoupdate is "false". Nothing is taken away.
    """
    documents = {_ref(document): document for document in listed()}
    writer, stored = Writer(store, Settings(), Author("prepare", "Prepare")), store.get(list(documents))
    written = []
    for ref, document in documents.items():
        try:
            if ref not in stored:
                writer.create(KINDS[ref.kind], document)
            elif not _complete(writer, ref, document):
                continue
        except (AlreadyExists, Conflict):  # another process prepares the same database
            continue
        written.append(f"{document['kind']} {ref.name}")
    return written


def _ref(document: Document) -> Ref:
    metadata = document["metadata"]
    return Ref(f"{GROUP}/{document['kind']}", metadata.get("namespace", ""), metadata["name"])


def _complete(writer: Writer, ref: Ref, document: Document) -> bool:
    """Add missing rules or subjects to a stored role or binding. Return whether something was missing."""
    live = writer.live(ref)
    if live.metadata.annotations.get(AUTOUPDATE) == "false" or "aggregationRule" in document:
        return False
    field = "subjects" if "roleRef" in document else "rules"
    present = list(live.content.get(field) or ())
    missing = [item for item in document[field] if item not in present]
    if missing:
        writer.act(ref, lambda role: role.with_content({**role.content, field: [*present, *missing]}))
    return bool(missing)

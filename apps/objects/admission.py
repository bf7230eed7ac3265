"""Admission of documents that users send to the API or on pages of the admin: from the document to the new object."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from apps.objects.cel_rules import check_rules
from apps.objects.lua_syntax import check_scripts
from apps.objects.store import DjangoStore
from controlplane.admission import admit, state_checks
from controlplane.admission.admit import Admitted
from controlplane.admission.node_ports import with_node_ports
from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine import lifecycle
from controlplane.kind import Kind
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template.node_port_index import SERVICE
from controlplane.settings import Settings
from controlplane.wire.namespace_check import check_accepts_objects

Document = dict[str, Any]


def check_namespace(look: Callable[[Ref], Any], kind: Kind, document: Document) -> None:
    """Check the namespace of a new object, which `look` finds. Objects of cluster-scoped kinds pass.

    Raises BadRequest if the document names no namespace, NotFound if the namespace does not exist, and Forbidden if it
    is being deleted.
    """
    resource, metadata = kind.resource, document["metadata"]
    if not resource.namespaced:
        return
    name = metadata.get("namespace") or ""
    if not name:
        raise BadRequest(
            f"{resource.plural} belong to a namespace: name the namespace in the URL or in metadata.namespace"
        )
    ref = Ref(NAMESPACE, "", str(name))
    namespace = look(ref)
    is_ending = None if namespace is None else namespace.metadata.deletion_timestamp is not None
    check_accepts_objects(resource, namespace=ref.name, name=str(metadata.get("name", "")), is_ending=is_ending)


def created(store: DjangoStore, kind: Kind, document: Document, *, settings: Settings, now: datetime) -> Admitted:
    """Return the first state of a new object, with warnings. Raises BadRequest, Invalid with every cause."""
    namespace = document["metadata"].get("namespace", "")
    admitted = admit.admit_create(
        kind, document, namespace=namespace, settings=settings, now=now, uid=str(uuid.uuid4())
    )
    check_scripts(kind, admitted.object)
    check_rules(kind, admitted.object, None)
    warnings = state_checks.check_write(store, kind, admitted.object, None, settings, now=now)
    made = lifecycle.prepare_created(admitted.object)
    if kind.key == SERVICE:
        made = with_node_ports(store, made, None)
    return Admitted(made, (*admitted.warnings, *warnings))


def changed(
    store: DjangoStore,
    kind: Kind,
    document: Document,
    live: Object,
    *,
    subresource: str = "",
    settings: Settings,
    now: datetime,
) -> Admitted:
    """Return the new state of a stored object, with warnings. Raises BadRequest, Conflict, Invalid with every cause.

    `subresource`: "status" if only the status is written; "": all other parts.
    """
    admitted = admit.admit_update(kind, document, live, subresource=subresource, settings=settings, now=now)
    if not subresource:
        check_scripts(kind, admitted.object)
    check_rules(kind, admitted.object, live)
    warnings = state_checks.check_write(store, kind, admitted.object, live, settings, now=now)
    if kind.key == SERVICE and not subresource:
        admitted = replace(admitted, object=with_node_ports(store, admitted.object, live))
    return replace(admitted, warnings=(*admitted.warnings, *warnings))

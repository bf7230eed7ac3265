"""The namespaces every installation has."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import msgspec

from apps.objects.store import DjangoStore
from controlplane.decision import Decision, Put
from controlplane.errors import Forbidden
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template import Template
from controlplane.meta import ObjectMeta, Ref, to_seconds
from controlplane.names import CLUSTER_NAMESPACE, NAMESPACE_CONTENT_FINALIZER, SYSTEM_NAMESPACE
from controlplane.state import Actor

ALWAYS = ("default", SYSTEM_NAMESPACE, CLUSTER_NAMESPACE)
NAME_LABEL = "kubernetes.io/metadata.name"


def make_namespaces(store: DjangoStore) -> list[str]:
    """Make what is missing; return which were."""
    refs = [Ref(NAMESPACE, "", name) for name in ALWAYS]
    found = store.get(refs)
    now = to_seconds(store.now())
    made = []
    for ref in refs:
        if ref in found:
            continue
        metadata = ObjectMeta(name=ref.name, uid=str(uuid.uuid4()), creation_timestamp=now, generation=1)
        new = opened(Template("v1", "Namespace", metadata))
        outcome = store.apply([(None, Decision(changes=(Put(new, None),)))], by=Actor("prepare"))[0]
        made += [] if outcome.lost else [ref.name]
    return made


def opened(namespace: Any) -> Any:
    """Return a new Namespace as Kubernetes shows one: Active, and with its name as a label."""
    labels = {**namespace.metadata.labels, NAME_LABEL: namespace.metadata.name}
    return msgspec.structs.replace(namespace.with_meta(labels=labels), status={"phase": "Active"})


def closed(namespace: Any, *, now: datetime) -> Any:
    """Return a Namespace on its way out: Terminating, held until what is in it is gone. Raises Forbidden for ours."""
    name = namespace.metadata.name
    if name in ALWAYS:
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted', kind="namespaces", name=name
        )
    kept = [one for one in namespace.metadata.finalizers if one != NAMESPACE_CONTENT_FINALIZER]
    held = namespace.with_meta(
        deletion_timestamp=to_seconds(now),
        deletion_grace_period_seconds=0,
        finalizers=(*kept, NAMESPACE_CONTENT_FINALIZER),
    )
    return msgspec.structs.replace(held, status={**namespace.status, "phase": "Terminating"})

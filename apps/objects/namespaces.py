"""Creation of the namespaces that every installation has."""

from __future__ import annotations

import uuid

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta, Ref, to_seconds
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template import Template


def make_namespaces(store: DjangoStore) -> list[str]:
    """Create the namespaces that are missing; return their names."""
    refs = [Ref(NAMESPACE, "", name) for name in lifecycle.PERMANENT_NAMESPACES]
    found = store.get(refs)
    now = to_seconds(store.now())
    created = []
    for ref in refs:
        if ref in found:
            continue
        metadata = ObjectMeta(name=ref.name, uid=str(uuid.uuid4()), creation_timestamp=now, generation=1)
        new = lifecycle.prepare_created(Template("v1", "Namespace", metadata))
        outcome = store.apply([(None, Decision(changes=(Put(new, None),)))], by=Actor("prepare"))[0]
        created += [] if outcome.lost else [ref.name]
    return created

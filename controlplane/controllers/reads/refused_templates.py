"""Templates whose requests were refused because quotas of their namespace had no room for them [federated-quotas]."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import cursor_after, page
from controlplane.engine.state import State
from controlplane.estimate.quota import counted_replicas
from controlplane.interpret import InterpretationFailed, Unanswered
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.federated_quota import FederatedResourceQuota
from controlplane.kinds.template import Template
from controlplane.propagation import bindings


def limits_edited(old: FederatedResourceQuota | None, new: FederatedResourceQuota | None) -> Iterator[Ref]:
    """Yield a quota of which a user edited the limits, or which was deleted.

    That it is less used does not count: that is often so, and all bindings of the namespace are read.
    """
    if old is None:
        return
    if (
        new is None
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.spec.overall != new.spec.overall
    ):
        yield old.ref


def refused_templates(state: State, quota: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return the templates in the namespace of a quota that request something else than their bindings.

    They are those of one page of the bindings. The cursor follows that page.
    """
    listed: list[Binding] = list(
        state.list(RESOURCE_BINDING, namespace=quota.namespace, after=cursor_after(after), limit=limit)
    )
    counted = {bindings.template_ref(binding): binding for binding in listed if counted_replicas(binding)}
    templates: dict[Ref, Template] = state.get(list(counted))
    found = [ref for ref, template in templates.items() if _differ(counted[ref], template)]
    return found, page([binding.ref for binding in listed], limit=limit)[1]


def _differ(binding: Binding, template: Template) -> bool:
    try:
        return bindings.with_requests(binding, template) is not binding
    except (InterpretationFailed, Unanswered):
        return True

"""Sets both eviction rates of FailoverConfiguration/default in one write, so that they always fit together."""

from __future__ import annotations

from typing import Any

from apps.objects.configuration import REF
from apps.objects.writer import Change, Writer, document_of
from controlplane.apimachinery.errors import AlreadyExists
from controlplane.engine.decision import Put
from controlplane.kind import KINDS
from controlplane.kinds import FAILOVER_CONFIGURATION


def rates_of(rate: float, secondary: float) -> dict[str, Any]:
    """Return the part of the spec that sets both rates, in evictions per second."""
    return {"resourceEvictionRate": rate, "secondaryResourceEvictionRate": secondary}


def set_rates(writer: Writer, *, rate: float, secondary: float) -> None:
    """Store both rates, in evictions per second. The object is created if it does not exist.

    Raises Invalid if a rate breaks a rule, with the field, and Conflict if other writes keep changing the object.
    """
    kind = KINDS[FAILOVER_CONFIGURATION]
    rates = rates_of(rate, secondary)
    if not writer.store.get([REF]):
        head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        try:
            writer.create(kind, {**head, "metadata": {"name": REF.name}, "spec": rates})
        except AlreadyExists:
            pass  # another request created the object meanwhile: change that object
        else:
            return

    def build() -> Change:
        live = writer.live(REF)
        document = document_of(live)
        admitted = writer.admit_change(kind, {**document, "spec": {**document.get("spec", {}), **rates}}, live)
        return Change(Put(admitted.object, live), admitted.warnings)

    writer.change(REF, build)

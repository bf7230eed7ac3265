"""Sets the gate Failover or both eviction rates of FailoverConfiguration/default, each in one write.

Both rates are set together, so that they always fit together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from apps.objects.configuration import REF
from apps.objects.writer import Change, Writer, Written, document_of
from controlplane.apimachinery.errors import AlreadyExists
from controlplane.engine.decision import Put
from controlplane.kind import KINDS
from controlplane.kinds import FAILOVER_CONFIGURATION

GATE: Final = "Failover"  # without it copies are not evicted
Spec = dict[str, Any]


def rates_of(rate: float, secondary: float) -> Spec:
    """Return the part of the spec that sets both rates, in evictions per second."""
    return {"resourceEvictionRate": rate, "secondaryResourceEvictionRate": secondary}


def set_rates(writer: Writer, *, rate: float, secondary: float) -> Written:
    """Store both rates, in evictions per second. The object is created if it does not exist.

    Raises Invalid if a rate breaks a rule, with the field, and Conflict if other writes keep changing the object.
    """
    return _set(writer, lambda spec: {**spec, **rates_of(rate, secondary)})


def gate_of(*, on: bool) -> Spec:
    """Return the part of the spec that sets the gate Failover."""
    return {"featureGates": {GATE: on}}


def set_gate(writer: Writer, *, on: bool) -> Written:
    """Store the gate Failover, and leave other gates as they are. The object is created if it does not exist.

    Raises Conflict if other writes keep changing the object.
    """
    return _set(writer, lambda spec: {**spec, "featureGates": {**spec.get("featureGates", {}), GATE: on}})


def apply_line(spec: Spec, *, part: str) -> str:
    """Return the command that sets a part of the spec and leaves the others as they are. The object may not exist yet.

    Each part has a field manager of its own, because kubectl apply removes what its manager has set before and does not
    set now: with one manager, the line of the rates would reset the gate.
    """
    resource = KINDS[FAILOVER_CONFIGURATION].resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": REF.name}}
    body = orjson.dumps({**head, "spec": spec}).decode()
    return f"kubectl apply --server-side --force-conflicts --field-manager=lifeboat-{part} -f - <<< '{body}'"


def _set(writer: Writer, change: Callable[[Spec], Spec]) -> Written:
    kind = KINDS[FAILOVER_CONFIGURATION]
    if not writer.store.get([REF]):
        head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        try:
            return writer.create(kind, {**head, "metadata": {"name": REF.name}, "spec": change({})})
        except AlreadyExists:
            pass  # another request created the object meanwhile: change that object

    def build() -> Change:
        live = writer.live(REF)
        document = document_of(live)
        admitted = writer.admit_change(kind, {**document, "spec": change(document.get("spec", {}))}, live)
        return Change(Put(admitted.object, live), admitted.warnings)

    return writer.change(REF, build)

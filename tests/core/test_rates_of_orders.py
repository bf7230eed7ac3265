"""The rate of a Drain, Failback or Drill is bounded as that of evictions is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.errors import Invalid
from controlplane.kind import KINDS
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL
from controlplane.kinds.failback import FAILBACK
from controlplane.settings import MAX_RATE, Settings
from tests.builders.bare import START

ORDERS: dict[str, dict[str, Any]] = {
    DRAIN: {"cluster": "member1"},
    FAILBACK: {"cluster": "member1"},
    DRILL: {"clusters": ["member1"]},
}


def document(key: str, rate: float, **spec: Any) -> dict[str, Any]:
    resource = KINDS[key].resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
    return {**head, "spec": {**ORDERS[key], "rate": rate, **spec}}


def admit(key: str, rate: float) -> Any:
    sent = document(key, rate)
    return admit_create(KINDS[key], sent, namespace="", settings=Settings(), now=START, uid="u").object


@pytest.mark.parametrize("key", ORDERS)
@pytest.mark.parametrize("rate", [MAX_RATE * 1.001, 1e300, 0, -1])
def test_a_rate_that_is_no_rate_is_refused(key: str, rate: float) -> None:
    with pytest.raises(Invalid) as refused:
        admit(key, rate)

    ((field, message),) = [(one.field, one.message) for one in refused.value.details.causes]
    assert field == "spec.rate"
    assert f"and at most {MAX_RATE}" in message


@pytest.mark.parametrize("key", ORDERS)
@pytest.mark.parametrize("rate", [1e-9, 0.5, MAX_RATE])
def test_every_other_rate_is_accepted(key: str, rate: float) -> None:
    assert admit(key, rate).spec.rate == rate


@pytest.mark.parametrize("key", ORDERS)
def test_an_order_from_before_the_bound_can_be_stopped(key: str) -> None:
    old = admit(key, 1)
    old = replace(old, spec=replace(old.spec, rate=1e300))

    stopped = admit_update(KINDS[key], document(key, 1e300, stop=True), old, settings=Settings(), now=START).object

    assert stopped.spec.stop

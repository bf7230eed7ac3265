"""`kubectl explain` has a text for every field of every kind of ours, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.kind import KINDS, Kind
from controlplane.kinds import failover_record, fleet_readiness, fleet_status, interpretation, placement_review
from controlplane.wire.schema import Schema

OURS = [one for one in KINDS if one.resource.group.endswith(("lifeboat.io", "karmada.io"))]
ALL = [*OURS, failover_record.KIND, fleet_readiness.KIND, fleet_status.KIND, placement_review.KIND, interpretation.KIND]
DEPTH = 12


def silent(schema: Schema, path: str, depth: int = 0) -> Iterator[str]:
    """Yield the fields below a schema that have no text; metadata is Kubernetes' own."""
    for name in schema.properties or () if depth < DEPTH else ():
        inner = schema.property(name)
        if inner is None or (name in ("apiVersion", "kind", "metadata") and not depth):
            continue
        if not inner.description:
            yield f"{path}.{name}"
        yield from silent(inner, f"{path}.{name}", depth + 1)
        if (item := inner.items) is not None:
            yield from silent(item, f"{path}.{name}[]", depth + 1)


@pytest.mark.parametrize("kind", ALL, ids=lambda one: one.key)
def test_every_field_of_a_kind_of_ours_has_a_text(kind: Kind) -> None:
    assert list(silent(kind.schema(), kind.resource.kind)) == []

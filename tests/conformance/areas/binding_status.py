"""What the Works of a binding add up to."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.binding import Binding
from controlplane.kinds.work import Work
from controlplane.propagation import aggregation
from tests.conformance.compare import equivalent
from tests.conformance.documents import plain, typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    binding = typed(given["binding"], Binding)
    items = aggregation.aggregated(typed(work, Work) for work in given["works"] or ())
    return {"aggregatedStatus": plain(items), "fullyApplied": plain(aggregation.fully_applied(binding, items))}


def agree(expect: Document, result: Document) -> bool:
    said = {key: result["fullyApplied"].get(key) for key in expect["fullyApplied"]}
    return equivalent(expect["aggregatedStatus"], result["aggregatedStatus"]) and said == expect["fullyApplied"]

"""No document, however misshapen, keeps the others of its list from being printed."""

from datetime import UTC, datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from controlplane.wire import builtin
from controlplane.wire.table import columns_of, table

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

# What cells look for.
# fmt: off
NAMES = st.sampled_from((
    "addresses", "conditions", "containers", "count", "current", "ingress", "involvedObject", "labels",
    "loadBalancer", "matchExpressions", "matchLabels", "metadata", "metrics", "name", "ports", "ready",
    "resource", "rules", "spec", "state", "status", "subsets", "template", "type",
))
# fmt: on
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.sampled_from(builtin.RESOURCES))
def test_a_misshapen_document_is_printed_with_the_rest(document, resource):
    document["metadata"] = {"name": "odd"}
    healthy = {"metadata": {"name": "fine", "creationTimestamp": "2026-11-20T11:59:00Z"}}

    rows = table(resource, [document, healthy], now=NOW)["rows"]

    assert [len(row["cells"]) for row in rows] == [len(columns_of(resource))] * 2
    assert "<invalid>" not in rows[1]["cells"]
    orjson.dumps(rows)

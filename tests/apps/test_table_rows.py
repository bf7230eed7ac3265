"""Rows that a process keeps: the same Table as one that is made again, for every kind, whatever has changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from apps.api.table_rows import LARGEST_ROW, TableRows
from controlplane.kinds import KINDS
from controlplane.wire.resource import Column
from controlplane.wire.table import columns_of, has_steady_rows, table
from tests.builders.documents import config_map, deployment

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
META = {"resourceVersion": "7", "continue": "abc"}
KEPT = [kind.resource for kind in KINDS if has_steady_rows(columns_of(kind.resource))]


def text(document: dict[str, Any], **metadata: Any) -> bytes:
    head = {"uid": "u", "creationTimestamp": "2026-03-01T11:59:00Z", "managedFields": [{"manager": "x"}], **metadata}
    return orjson.dumps({**document, "metadata": {**document["metadata"], **head}})


def again(resource: Any, texts: list[bytes], now: datetime) -> Any:
    return table(resource, map(orjson.loads, texts), now=now, list_meta=META)


def test_rows_of_most_built_in_kinds_are_kept() -> None:
    assert {"Deployment", "ConfigMap", "Secret", "Service", "StatefulSet"} <= {resource.kind for resource in KEPT}


@pytest.mark.parametrize("resource", KEPT, ids=lambda resource: f"{resource.group}-{resource.kind}")
def test_a_kept_row_is_the_row_of_a_new_table(resource: Any) -> None:
    rows = TableRows()
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    whole = {**head, **{key: value for key, value in deployment("web").items() if key not in head}}
    texts = [text(whole), text({**head, "metadata": {"name": 'odd"\\name'}, "spec": 3}), text(whole, name="other")]
    for now in (NOW, NOW + timedelta(hours=5)):  # the second time all rows are known
        found = rows.encoded(resource, texts, META, now=now)
        assert found is not None
        assert orjson.loads(found) == again(resource, texts, now)


def test_a_row_of_an_object_that_has_changed_is_made_again() -> None:
    resource, rows = KINDS["apps/Deployment"].resource, TableRows()
    for replicas in (1, 2):
        texts = [text(deployment("web", replicas=replicas))]
        found = rows.encoded(resource, texts, META, now=NOW)
        assert found is not None
        assert orjson.loads(found) == again(resource, texts, NOW)


def test_a_column_that_depends_on_the_time_is_never_kept() -> None:
    resource = KINDS["batch/CronJob"].resource  # since when the last Job was scheduled
    assert TableRows().encoded(resource, [], META, now=NOW) is None
    assert Column("Any", lambda document, now: "").is_timed


def test_rows_beyond_the_limits_are_not_kept() -> None:
    rows, resource = TableRows(most=2), KINDS["ConfigMap"].resource
    for number in range(4):
        rows.encoded(resource, [text(config_map(f"m{number}"))], META, now=NOW)
    rows.encoded(
        resource, [text(config_map("large", metadata={"annotations": {"a": "x" * LARGEST_ROW}}))], META, now=NOW
    )
    assert [orjson.loads(row.encoded(NOW))["cells"][0] for row in rows._rows.values()] == ["m2", "m3"]

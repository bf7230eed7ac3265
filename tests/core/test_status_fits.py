"""The status this product writes into built-in kinds is one their schemas allow, so that a typed client can send back
what it has read; and a write of the object itself is not judged by a status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import interpret
from controlplane.admission.admit import admit_update
from controlplane.apimachinery.meta import ObjectMeta, kind_key
from controlplane.controllers.template_status import TemplateStatus, TemplateStatusSnapshot
from controlplane.engine.decision import Put
from controlplane.interpret import reflect
from controlplane.interpret.native import NATIVE
from controlplane.kind import KINDS
from controlplane.kinds.binding import AggregatedStatusItem, ObjectReference, ResourceBindingSpec
from controlplane.kinds.binding import ResourceBindingStatus as BindingStatus
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from controlplane.wire import builtin, document_check
from controlplane.wire.schema import Schema
from tests.builders.objects import bound
from tests.builders.templates import template

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Document = dict[str, Any]
AGGREGATED = [
    (version, kind)
    for (version, kind), rule in NATIVE.items()
    if rule.aggregate and version != "flink.apache.org/v1beta1"
]


def _schema(api_version: str, kind: str) -> Schema:
    group, _, version = api_version.rpartition("/")
    return builtin.schema(group, version, kind)


def _whole(schema: Schema, depth: int = 0) -> Any:
    """Return a value that says every field of a schema."""
    if schema.int_or_string:
        return 1
    match schema.type:
        case "object":
            if schema.additional is not None:
                return {"a": _whole(schema.additional, depth + 1)}
            return {name: _whole(inner, depth + 1) for name, inner in schema.properties.items() if depth < 8}
        case "array":
            return [_whole(schema.items or Schema.OPEN, depth + 1)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return "2026-01-01T00:00:00Z" if schema.format == "date-time" else "1"


def _reports(schema: Schema) -> Iterator[Document]:
    """Yield what members may say: nothing, everything, and everything but one field; zero values are left out."""
    whole: Document = _whole(schema)
    yield {}
    yield whole
    for name in whole:
        yield {key: value for key, value in whole.items() if key != name}
        yield {name: whole[name]}


@pytest.mark.parametrize(("api_version", "kind"), AGGREGATED)
def test_an_aggregated_status_is_one_the_schema_allows(api_version: str, kind: str) -> None:
    schema = _schema(api_version, kind).property("status")
    assert schema is not None
    known = interpret.interpreter_for(api_version, kind)
    about = template(kind, "a", version=api_version, spec={"type": "LoadBalancer"})
    count = 0
    for report in _reports(schema):
        seen = (known.reflect or reflect.whole_status)({"spec": about.spec, "status": report, "metadata": {}})
        items = (
            AggregatedStatusItem("member1", seen, applied=True),
            AggregatedStatusItem("member2", None, applied=True),
        )
        spec = ResourceBindingSpec(ObjectReference(api_version, kind, "a"))
        binding = bound(spec, status=BindingStatus(aggregated_status=items))
        decision = TemplateStatus().decide(TemplateStatusSnapshot(about, binding), Settings(), now=NOW)
        for change in decision.changes:
            assert isinstance(change, Put)
            written: Any = change.new
            assert document_check.faults(written.status, schema) == [], f"{report} became {written.status}"
            count += 1
    assert count


@pytest.mark.parametrize("sent", [{"containerStatuses": [{"ready": True}]}, {"phase": 5, "stranger": []}, []])
def test_a_write_of_the_object_keeps_the_stored_status_and_judges_none(sent: Any) -> None:
    stored = {"containerStatuses": [{"ready": False, "state": {}}], "phase": "Running"}
    spec = {"containers": [{"name": "main", "image": "nginx"}]}
    old = Template("v1", "Pod", ObjectMeta(name="a", namespace="b", uid="c"), {"spec": spec}, stored)
    edited = {"metadata": {"name": "a", "labels": {"d": "e"}}, "spec": spec, "status": sent}

    made: Any = admit_update(KINDS[kind_key("v1", "Pod")], edited, old, settings=Settings(), now=NOW).object

    assert made.status == stored
    assert made.metadata.labels == {"d": "e"}

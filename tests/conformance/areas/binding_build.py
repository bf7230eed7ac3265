"""The binding made of a template and a PropagationPolicy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.apimachinery.names import RESOURCE_BINDING_ID_LABEL
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from tests.conformance.documents import typed

Document = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(given: Document) -> Binding:
    document = given["propagationPolicy"]
    policy = typed(document, Policy)
    # The original builds from whatever it is given; here a policy always carries the defaults of its type.
    unset = {field: "" for field in ("scheduler_name", "conflict_resolution") if _camel(field) not in document["spec"]}
    policy = policy.with_spec(**unset)
    built = bindings.create(Template.fold(given["object"]), policy, gates={}, now=NOW)
    return _comparable(built)


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _comparable(binding: Binding) -> Binding:
    """Return the binding without what only a stored object has: its own id, generation, time and status."""
    labels = {key: value for key, value in binding.metadata.labels.items() if key != RESOURCE_BINDING_ID_LABEL}
    place = binding.metadata
    metadata = ObjectMeta(
        name=place.name,
        namespace=place.namespace,
        labels=labels,
        annotations=place.annotations,
        finalizers=place.finalizers,
        owner_references=place.owner_references,
    )
    return replace(binding, metadata=metadata)


def agree(expect: Document, result: Binding) -> bool:
    wanted = typed({"apiVersion": result.api_version, "kind": result.kind, **expect["binding"]}, Binding)
    return _comparable(wanted) == result

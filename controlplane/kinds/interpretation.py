"""Interpretation (failover.lifeboat.io/v1alpha1): a dry run of the rules for a kind. It is never stored."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Int32, Object, Struct
from controlplane.kind import Kind
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of


class InterpretationSpec(Struct, frozen=True):
    object: Annotated[
        dict[str, Any] | None,
        Meta(description="The object, as you would apply it; for InterpretStatus and InterpretHealth with its status."),
    ] = None
    observed: Annotated[dict[str, Any] | None, Meta(description="For Retain: the object of the member.")] = None
    operations: Annotated[
        tuple[str, ...], Meta(description="Operations to interpret. Unset: all whose arguments are given.")
    ] = ()
    replicas: Annotated[Int32 | None, Meta(description="For ReviseReplica: the number of replicas.")] = None
    items: Annotated[
        tuple[dict[str, Any], ...] | None,
        Meta(description="For AggregateStatus: clusterName, status and health of each cluster."),
    ] = None
    customization: Annotated[
        dict[str, Any] | None,
        Meta(description="A ResourceInterpreterCustomization that counts as if it were stored, before those that are."),
    ] = None


class OperationResult(Struct, frozen=True):
    """What one operation gives for the object."""

    operation: str = ""
    rule: str = ""
    result: Any = None
    error: str = ""


class InterpretationStatus(Struct, frozen=True):
    results: tuple[OperationResult, ...] = ()


class Interpretation(Object, frozen=True):
    spec: InterpretationSpec = InterpretationSpec()
    status: InterpretationStatus = InterpretationStatus()


explain(
    {
        Interpretation: BOTH,
        InterpretationStatus: "results: The result of each operation.",
        OperationResult: """
operation: The operation.
rule: The rule that was used: a customization, a webhook, or what is known of the kind. Empty: there is none.
result: What the rule gives.
error: Why the rule gives nothing.
""",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "Interpretation",
    "interpretations",
    "interpretation",
    False,
    verbs=("create",),
)
KIND = Kind(resource=RESOURCE, type=Interpretation, schema=lambda: schema_of(Interpretation), has_generation=False)
"""Not registered, because it is never stored."""

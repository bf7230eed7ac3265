"""Generations and conditions of third-party kinds, combined over members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import to_seconds
from controlplane.apimachinery.names import TEMPLATE_GENERATION_ANNOTATION
from controlplane.interpret.interpreter import Document
from controlplane.interpret.thirdparty.fields import Items, at, generation_of, listed, number, status_of

Reflect = Callable[[Document], Document | None]
Ends = Callable[[Mapping[str, Any]], bool]


def with_generations(reflect: Reflect, annotation: str = TEMPLATE_GENERATION_ANNOTATION) -> Reflect:
    """Return a reflection rule that adds the member's generation, and the template's generation it was made from."""

    def reflected(doc: Document) -> Document | None:
        status = reflect(doc)
        if status is None:
            return None
        own = at(doc, "metadata", "generation")
        made_from = number(at(doc, "metadata", "annotations", annotation))
        found = {"generation": own, "resourceTemplateGeneration": made_from}
        return {**status, **{name: value for name, value in found.items() if value is not None}}

    return reflected


def caught_up(doc: Document, items: Items) -> int:
    """Return the template's generation if all members were sent it and have observed it, else the one before.

    An object that is on no cluster has nothing to wait for.
    """
    generation = generation_of(doc)
    for item in items:
        report = item.status or {}
        sent, own, seen = (
            number(report.get(name), 0) for name in ("resourceTemplateGeneration", "generation", "observedGeneration")
        )
        if sent != generation or own != seen:
            return int(number(status_of(doc).get("observedGeneration"), 0))
    return generation


def merged_conditions(items: Items) -> list[Document]:
    """Return the conditions of all members. Equal ones (type, status, reason) become one; each message names its
    cluster.

    Raises ValueError if a condition has no message.
    """
    merged: dict[tuple[Any, Any, Any], Document] = {}
    for item in items:
        for condition in listed((item.status or {}).get("conditions")):
            message = f"{item.cluster_name}={_message(condition)}"
            key = (condition.get("type"), condition.get("status"), condition.get("reason"))
            if key in merged:
                merged[key]["message"] += f", {message}"
            else:
                merged[key] = {**condition, "message": message}
    return list(merged.values())


def ended(type_: str, reason: str, message: str, *, doc: Document, now: datetime) -> Document:
    """Return a condition with status True. One that the template has already keeps its times."""
    found = {"type": type_, "status": "True", "reason": reason, "message": message}
    for old in listed(status_of(doc).get("conditions")):
        if all(old.get(name) == value for name, value in found.items()):
            return dict(old)
    moment = in_seconds(now)
    return {**found, "lastProbeTime": moment, "lastTransitionTime": moment}


def ends_with(*types: str) -> Ends:
    """Return the rule of kinds that have ended when a condition of one of these types is True."""
    return lambda status: any(
        isinstance(condition, dict) and condition.get("type") in types and condition.get("status") == "True"
        for condition in listed(status.get("conditions"))
    )


def ends_as(path: Sequence[str], *values: str) -> Ends:
    """Return the rule of kinds that have ended when the field at a path of their status has one of these values."""
    return lambda status: at(status, *path) in values


def in_seconds(now: datetime) -> str:
    return to_seconds(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_true(doc: Document, type_: str, *reasons: str) -> bool:
    """Test whether a condition is True, with one of the reasons if any are given."""
    return any(
        condition.get("type") == type_
        and condition.get("status") == "True"
        and (not reasons or condition.get("reason") in reasons)
        for condition in listed(at(doc, "status", "conditions"))
    )


def _message(condition: Document) -> str:
    message = condition.get("message")
    if message is None:
        raise ValueError(f"status.conditions: the condition {condition.get('type')} of a member has no message")
    return str(message)

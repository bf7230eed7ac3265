"""Kyverno (kyverno.io): policies of a cluster or a namespace."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.interpret.interpreter import Document, Interpreter
from controlplane.interpret.thirdparty.fields import Items, copied, counted, reports, status_of
from controlplane.interpret.thirdparty.rollout import is_true, merged_conditions

_RULES = ("validate", "generate", "mutate", "verifyimages")


def healthy(doc: Document) -> bool:
    """Test status.ready; a policy without it is healthy if it is Ready because it Succeeded."""
    ready = status_of(doc).get("ready")
    if ready is None:
        return is_true(doc, "Ready", "Succeeded")
    if not isinstance(ready, bool):
        raise ValueError(f"status.ready: {ready!r} is not true or false")
    return ready


def aggregate(doc: Document, items: Items, now: datetime) -> Document:
    """Return the rules of all members, added up by their type, and the merged conditions.

    Raises ValueError if a member reports rules without one of the types.
    """
    if not items:
        return status_of(doc)
    counts = [report["rulecount"] for report in reports(items) if report.get("rulecount") is not None]
    status: Document = {
        "rulecount": {name: sum(counted(count.get(name), f"rulecount.{name}") for count in counts) for name in _RULES},
        "conditions": merged_conditions(items),
    }
    for name in ("autogen", "ready"):
        values: list[Any] = [report[name] for report in reports(items) if report.get(name) is not None]
        if values:
            status[name] = values[-1]
    return status


POLICY = Interpreter(
    healthy=healthy, aggregate=aggregate, reflect=copied("ready", "conditions", "autogen", "rulecount")
)

"""Says why a member has not removed an object yet that is being deleted there."""

from __future__ import annotations

from typing import Any


def held_back(held: Any) -> str:
    """Return a sentence on what the deletion waits for: finalizers, and the conditions of a Namespace.

    `held`: the object on the member.
    """
    if not isinstance(held, dict):
        return "the member is still deleting it"
    finalizers = (
        *(held.get("metadata", {}).get("finalizers") or ()),
        *((held.get("spec") or {}).get("finalizers") or ()),
    )
    conditions = (held.get("status") or {}).get("conditions") or () if held.get("kind") == "Namespace" else ()
    remaining = [condition.get("message", "") for condition in conditions if condition.get("status") == "True"]
    waits = f" and waits for the finalizers {', '.join(map(str, finalizers))}" if finalizers else ""
    return f"the member is still deleting it{waits}{''.join(f'; {text}' for text in remaining)}"

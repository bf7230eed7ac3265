"""What still holds an object that a member is deleting."""

from __future__ import annotations

from typing import Any


def held_back(held: Any) -> str:
    """Return what a deleted object waits for on its member, as finalizers and the conditions of a Namespace say it."""
    if not isinstance(held, dict):
        return "the member is still deleting it"
    finalizers = (
        *(held.get("metadata", {}).get("finalizers") or ()),
        *((held.get("spec") or {}).get("finalizers") or ()),
    )
    conditions = (held.get("status") or {}).get("conditions") or () if held.get("kind") == "Namespace" else ()
    remaining = [one.get("message", "") for one in conditions if one.get("status") == "True"]
    waits = f" and waits for the finalizers {', '.join(map(str, finalizers))}" if finalizers else ""
    return f"the member is still deleting it{waits}{''.join(f'; {text}' for text in remaining)}"

"""Reflection rules: which fields of a member object's status are copied into the control plane."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.apimachinery.names import TEMPLATE_GENERATION_ANNOTATION
from controlplane.interpret.interpreter import Document

READY = "readyReplicas"


def whole_status(doc: Document) -> Document | None:
    """Return the whole status. Raises ValueError if the status is not an object."""
    status = doc.get("status")
    if status is not None and not isinstance(status, dict):
        raise ValueError(f'status: "{status}" is not an object; nothing can be reflected from it')
    return status


def status_fields(*names: str, generations: bool = False) -> Callable[[Document], Document | None]:
    """Return the rule that copies these fields, if they are set.

    With `generations`, the object's own generation and the template's generation it was made from are added.
    Aggregation needs both to test whether a member has caught up.
    """

    def reflect(doc: Document) -> Document | None:
        status = whole_status(doc)
        if status is None:
            return None
        out = {name: status[name] for name in names if status.get(name)}
        if READY in names:
            out.setdefault(READY, 0)  # members omit zero, and the health rule needs the number
        if generations:
            metadata = doc.get("metadata") or {}
            if metadata.get("generation"):
                out["generation"] = metadata["generation"]
            made_from = (metadata.get("annotations") or {}).get(TEMPLATE_GENERATION_ANNOTATION, "")
            if made_from.isdecimal():
                out["resourceTemplateGeneration"] = int(made_from)
        return out

    return reflect


def service(doc: Document) -> Document | None:
    """Return the addresses of a LoadBalancer; None for other Services."""
    if (doc.get("spec") or {}).get("type") != "LoadBalancer":
        return None
    return status_fields("loadBalancer")(doc)

"""What of a member object's status is carried back (semantics 4)."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.apimachinery.names import TEMPLATE_GENERATION_ANNOTATION
from controlplane.interpret.interpreter import Document

READY = "readyReplicas"


def whole_status(doc: Document) -> Document | None:
    """Return all of the status. Raises ValueError where it is no object."""
    status = doc.get("status")
    if status is not None and not isinstance(status, dict):
        raise ValueError(f'status: "{status}" is not an object; nothing can be reflected from it')
    return status


def status_fields(*names: str, generations: bool = False) -> Callable[[Document], Document | None]:
    """Return the rule that carries back some fields where they are set.

    `generations`: also the object's own generation and the template's it was made from, so that it can be told when a
    member has caught up.
    """

    def reflect(doc: Document) -> Document | None:
        status = whole_status(doc)
        if status is None:
            return None
        out = {name: status[name] for name in names if status.get(name)}
        if READY in names:
            out.setdefault(READY, 0)  # members leave zero out; fewer ready replicas than asked are no health (D11)
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
    """The addresses of a LoadBalancer; other Services have nothing to say."""
    if (doc.get("spec") or {}).get("type") != "LoadBalancer":
        return None
    return status_fields("loadBalancer")(doc)

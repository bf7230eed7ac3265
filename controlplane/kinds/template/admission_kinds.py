"""Warnings about kinds of admissionregistration.k8s.io, which this API stores and propagates, and does not act on."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.template import Template
from controlplane.wire.resource import Resource

GROUP = "admissionregistration.k8s.io"


def warnings(resource: Resource, new: Template, old: Template | None, settings: Any) -> list[str]:
    """Return the warning that an admission policy or webhook has no effect on this API, when it is created."""
    if resource.group != GROUP or old is not None:
        return []
    return [f"{resource.kind}: this API does not apply it to its own writes; member clusters with a copy of it do"]

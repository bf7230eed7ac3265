"""The index `scaleTarget`: finds the HorizontalPodAutoscalers that scale a workload."""

from __future__ import annotations

from typing import Final

from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.kinds.template import Template

AUTOSCALER: Final = "autoscaling/HorizontalPodAutoscaler"
SCALE_TARGET: Final = "scaleTarget"
"""Name of the index."""


def scale_target(autoscaler: Template) -> Ref | None:
    """Return the workload that an autoscaler scales; None: it names none."""
    target = autoscaler.spec.get("scaleTargetRef")
    if not isinstance(target, dict) or not target.get("kind") or not target.get("name"):
        return None
    kind = kind_key(str(target.get("apiVersion") or ""), str(target["kind"]))
    return Ref(kind, autoscaler.metadata.namespace, str(target["name"]))


def scale_targets(autoscaler: Template) -> list[str]:
    """Return the reference of the workload that an autoscaler scales, as an index value."""
    target = scale_target(autoscaler)
    return [] if target is None else [str(target)]

"""What an OverridePolicy leaves as it is: which object is written, and where [override-policies].

A member gets the result with the rights of the control plane. A user of one namespace writes OverridePolicies, and must
not reach other namespaces, other kinds or the whole member with them. ClusterOverridePolicies have no such bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.apimachinery.equality import same
from controlplane.authorization.policy import GROUP as RBAC
from controlplane.propagation.overriders import OverrideError

Document = Mapping[str, Any]

GRANTING = ("rules", "aggregationRule", "roleRef", "subjects")
"""What decides which rights a role or a binding gives, and to whom. The template was checked when it was written
[no-escalation]."""


def check(before: Document, after: Document) -> None:
    """Raise OverrideError if an OverridePolicy has changed more of a manifest than it may."""
    changed = [name for name, old, new in _fixed(before, after) if not same(old, new)]
    if changed:
        raise OverrideError(
            f"{', '.join(changed)}: an OverridePolicy cannot change this, because it acts within its namespace only; "
            "ask an administrator for a ClusterOverridePolicy"
        )


def _fixed(before: Document, after: Document) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts that stay as they are, each with its name, its old and its new value."""
    yield "the API group", _group(before), _group(after)
    yield "kind", before.get("kind"), after.get("kind")
    yield "metadata.namespace", _namespace(before), _namespace(after)
    if _group(before) == RBAC:
        for field in GRANTING:
            yield field, before.get(field), after.get(field)


def _group(manifest: Document) -> str:
    return str(manifest.get("apiVersion", "")).rpartition("/")[0]


def _namespace(manifest: Document) -> Any:
    return (manifest.get("metadata") or {}).get("namespace")

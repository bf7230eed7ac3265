"""What an OverridePolicy leaves as it is, and how much work override policies may be [override-policies].

A member gets the result with the rights of the control plane. A user of one namespace writes OverridePolicies, and must
not reach other namespaces, other kinds or the whole member with them. ClusterOverridePolicies have no such bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.equality import same
from controlplane.authorization.policy import GROUP as RBAC
from controlplane.propagation.overriders import OverrideError

Document = Mapping[str, Any]

GRANTING = ("rules", "aggregationRule", "roleRef", "subjects")
"""What decides which rights a role or a binding gives, and to whom. The template was checked when it was written
[no-escalation]."""


MOST_WORK: Final = 32 * 2**20
"""Bytes that all changes of one copy may go through: 1,600 changes of an object of 20 KB. That takes some seconds."""


class Work:
    """What the changes of one copy have cost. They are made by the process that places the workloads of all teams."""

    def __init__(self) -> None:
        self._done = 0

    def add(self, manifest: Document, text: int) -> None:
        """Count the work of a change before it is made (`overriders.Count`). Raises OverrideError if it is too much.

        An earlier change may have made the object larger, so it is measured each time.
        """
        self._done += len(msgspec.json.encode(manifest, enc_hook=plain)) + text
        if self._done > MOST_WORK:
            raise OverrideError(
                f"the rules for one copy go through more than {MOST_WORK // 2**20} MiB of it; write several changes "
                "into one plaintext or fieldOverrider, or divide the object"
            )


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

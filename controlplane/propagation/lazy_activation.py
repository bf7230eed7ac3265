"""Lazy activation: a Lazy policy changes a binding only when the user edits the template."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template

LAZY: Final = "Lazy"
LAZY_ANNOTATION: Final = "policy.lifeboat.io/template-seen"  # the digest of the template at the last look


def lazily_active(template: Template, policy: Policy, current: str, *, applied: bool) -> bool:
    """Test whether a Lazy policy applies to a template now.

    It does if the user edited the template since the policy claimed it, or created the template after the policy.

    `current`: the digest of the template now. `applied`: the policy has claimed the template and its binding exists. If
    the policy was not Lazy then, it waits for the next edit of the template.
    """
    seen = template.metadata.annotations.get(LAZY_ANNOTATION)
    if seen is not None:
        return seen != current
    if applied:
        return False
    created, since = template.metadata.creation_timestamp, policy.metadata.creation_timestamp
    return created is None or since is None or created >= since


def not_seen(claimed: Template, before: Template) -> Template:
    """Return a claimed template whose edit has not reached its binding as a whole: a Lazy policy looks at it again."""
    annotations = claimed.metadata.annotations
    if LAZY_ANNOTATION not in annotations:
        return claimed
    seen = before.metadata.annotations.get(LAZY_ANNOTATION, "")
    return claimed.with_meta(annotations={**annotations, LAZY_ANNOTATION: seen})


def digest(template: Template) -> str:
    """Return a short hash of what the user wrote: content, labels and annotations, without those of controllers."""
    metadata = template.metadata
    own = [
        sorted((key, value) for key, value in entries.items() if not _of_controllers(key))
        for entries in (metadata.labels, metadata.annotations)
    ]
    text = msgspec.json.encode([own, template.content], order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _of_controllers(key: str) -> bool:
    prefix = key.partition("/")[0]
    return prefix.endswith(("karmada.io", "lifeboat.io"))

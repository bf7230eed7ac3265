"""Builds the create and update requests for objects that a member cannot apply server-side.

Example: a container that lists an environment variable twice.
"""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.names import MANAGED_ANNOTATIONS_ANNOTATION, MANAGED_LABELS_ANNOTATION
from controlplane.clusters.questions import FIELD_MANAGER, Answer, Ensure
from controlplane.wire.fieldset import Fields, is_readable, union

Document = dict[str, Any]

# What API servers answer, with code 500, where field ownership of a document cannot be computed.
_UNTYPED = ("failed to create typed patch object", "failed to create typed live object", "duplicate entries for key")


def is_unapplicable(answer: Answer) -> bool:
    """Test whether a member refuses to apply a document server-side and may accept it by create or update."""
    return answer.code == 500 and any(text in answer.problem for text in _UNTYPED)


def replacement(question: Ensure, held: Document) -> Document:
    """Return the document of a PUT that replaces the member's object (`held`) at its resourceVersion.

    Labels, annotations, finalizers and owner references that others added on the member stay. Labels and annotations
    that an earlier manifest set, and this one does not have, are removed. Annotations of the object list these.
    """
    wanted = question.over(held)
    metadata, present = wanted.get("metadata") or {}, held.get("metadata") or {}
    record = present.get("annotations") or {}
    merged = {
        **metadata,
        "labels": _kept(metadata, present, "labels", record.get(MANAGED_LABELS_ANNOTATION, "")),
        "annotations": _kept(metadata, present, "annotations", record.get(MANAGED_ANNOTATIONS_ANNOTATION, "")),
        **{name: present[name] for name in ("uid", "resourceVersion", "ownerReferences") if present.get(name)},
    }
    finalizers = dict.fromkeys((*(present.get("finalizers") or ()), *(metadata.get("finalizers") or ())))
    if finalizers:
        merged["finalizers"] = list(finalizers)
    return {**wanted, "metadata": merged}


def _kept(metadata: Document, present: Document, part: str, record: str) -> dict[str, str]:
    wanted, ours = metadata.get(part) or {}, set(record.split(","))
    theirs = {name: value for name, value in (present.get(part) or {}).items() if name not in ours}
    return {**theirs, **wanted}


def taken_over(held: Document) -> Document | None:
    """Return the merge patch by which our server-side apply owns the fields that our earlier create or update set.

    Server-side apply removes only fields that an apply set. Without this patch a field that a later manifest does not
    have would stay. None: managedFields list no create or update of ours.
    """
    entries = (held.get("metadata") or {}).get("managedFields") or []
    ours = [entry for entry in entries if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")]
    updates = [entry for entry in ours if entry.get("operation") == "Update" and is_readable(entry.get("fieldsV1"))]
    if not updates:
        return None
    applied = next((entry for entry in ours if entry.get("operation") == "Apply"), updates[-1])
    fields: Fields = applied.get("fieldsV1") or {}
    for entry in updates:
        fields = union(fields, entry["fieldsV1"])
    rest = [entry for entry in entries if entry not in ours]
    owned = {**applied, "operation": "Apply", "fieldsV1": fields}
    return {"metadata": {"resourceVersion": held["metadata"]["resourceVersion"], "managedFields": [*rest, owned]}}

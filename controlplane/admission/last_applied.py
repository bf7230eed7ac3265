"""The annotation with what `kubectl apply` applied last. It follows what kubectl applies server-side, too.

Otherwise the next apply without --server-side would compare with an older manifest: it would keep fields that are gone
from the manifest, and remove fields that others have set since.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from controlplane.admission.metadata_rules import MAX_ANNOTATIONS, size_of

Document = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"  # as a kube-apiserver, so that other field managers opt out


def with_last_applied(document: Document, applied: Document, *, manager: str) -> Document:
    """Return an object to which `manager` has applied `applied`, with the annotation up to date if it has one.

    If there is no room for the annotation, it is removed. Then the next client-side apply writes it again.
    """
    annotations = document["metadata"].get("annotations") or {}
    if manager != _KUBECTL or not annotations.get(LAST_APPLIED):
        return document
    metadata = dict(applied["metadata"])
    if metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
    text = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    if text == annotations[LAST_APPLIED]:
        return document
    new = {**annotations, LAST_APPLIED: text}
    if size_of(new) > MAX_ANNOTATIONS:
        del new[LAST_APPLIED]
    return {**document, "metadata": {**document["metadata"], "annotations": new}}

"""Remembers with which share of a Job's completions each copy was made [work-rendering].

Members do not let the completions of a Job change, so a copy keeps its share when the Job is scaled or loses a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.apimachinery.names import COMPLETIONS_ANNOTATION, TEMPLATE_UID_ANNOTATION
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work


def begun(stored: Mapping[str, Work], template: Template) -> dict[str, int]:
    """Return the shares of the copies of a Job, by cluster. Copies of an earlier Job of its name have none."""
    if template.kind != "Job":
        return {}
    shares = {name: _share(work, template) for name, work in stored.items()}
    return {name: share for name, share in shares.items() if share is not None}


def noted(work: Work, stored: Work | None, template: Template, *, share: int | None) -> Work:
    """Return a rendered Work with the share of its copy. `share`: of a new copy; None: completions are not divided."""
    if share is None:
        return work
    known = None if stored is None else _share(stored, template)
    note = {COMPLETIONS_ANNOTATION: str(share if known is None else known)}
    return work.with_meta(annotations={**work.metadata.annotations, **note})


def _share(work: Work, template: Template) -> int | None:
    """Return the share that a Work was made with; None: it is not of this template, or has none.

    A Work of an earlier version has only its manifest. An override policy may have written anything there.
    """
    manifest = work.manifest
    metadata, spec = manifest.get("metadata"), manifest.get("spec")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or annotations.get(TEMPLATE_UID_ANNOTATION) != template.metadata.uid:
        return None
    note = work.metadata.annotations.get(COMPLETIONS_ANNOTATION, "")
    if note.isdecimal():
        return int(note)
    written = spec.get("completions") if isinstance(spec, dict) else None
    return written if isinstance(written, int) and not isinstance(written, bool) else None

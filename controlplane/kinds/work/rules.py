"""Defaults and validation of Works, which users and agents can write as well [work-objects]."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.causes import forbidden
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.names import (
    BINDING_ANNOTATION,
    COMPLETIONS_ANNOTATION,
    HELD_ANNOTATION,
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    REPLICAS_HELD_ANNOTATION,
    WORK_FINALIZER,
    WORK_ID_LABEL,
)
from controlplane.kinds.permanent_id import with_permanent_id
from controlplane.kinds.work import Work, Workload, manifest_rules
from controlplane.settings import Settings

_WRITTEN_HERE = (
    BINDING_ANNOTATION,
    COMPLETIONS_ANNOTATION,
    HELD_ANNOTATION,
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    REPLICAS_HELD_ANNOTATION,
)


def default(new: Work, old: Work | None, settings: Settings) -> Work:
    """Return a Work with its permanent id, and with manifests without null fields."""
    return _completed(new, old)


def _completed(new: Work, old: Work | None) -> Work:
    manifests = tuple(manifest_rules.without_nulls(manifest) for manifest in new.spec.workload.manifests)
    return with_permanent_id(new.with_spec(workload=Workload(manifests)), old, WORK_ID_LABEL)


def agent_work_faults(new: Work, old: Work) -> list[Cause]:
    """Return the causes to refuse an agent's write of a Work.

    An agent may change the status, and remove its own finalizer while the Work is being deleted. Defaults that
    admission adds, such as the permanent id, do not count as changes.
    """
    completed = _completed(old, None)
    causes = [
        forbidden(field, "an agent may only write the status of its Works")
        for field, allowed, after in (
            ("metadata.labels", (old.metadata.labels, completed.metadata.labels), new.metadata.labels),
            ("metadata.annotations", (old.metadata.annotations,), new.metadata.annotations),
            ("metadata.ownerReferences", (old.metadata.owner_references,), new.metadata.owner_references),
            ("spec", (old.spec, completed.spec), new.spec),
        )
        if not any(same(after, value) for value in allowed)
    ]
    before, after = old.metadata.finalizers, new.metadata.finalizers
    freed = tuple(finalizer for finalizer in before if finalizer != WORK_FINALIZER)
    if after != before and (after != freed or old.metadata.deletion_timestamp is None):
        rule = f"an agent may only remove {WORK_FINALIZER}, and only while the Work is being deleted"
        causes.append(forbidden("metadata.finalizers", rule))
    return causes


def validate(new: Work, old: Work | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a Work. Manifests are only validated if they change."""
    return [*_reserved(new, old), *_manifests(new, old)]


def _reserved(new: Work, old: Work | None) -> Iterator[Cause]:
    """Yield the causes if a write changes the annotations that controllers use to manage the Work."""
    before = {} if old is None else old.metadata.annotations
    for name in _WRITTEN_HERE:
        if new.metadata.annotations.get(name) != before.get(name):
            yield forbidden(f"metadata.annotations[{name}]", "is written by Lifeboat only; leave it unchanged")


def _manifests(new: Work, old: Work | None) -> list[Cause]:
    manifests = new.spec.workload.manifests
    if old is not None and same(old.spec.workload.manifests, manifests):
        return []
    return [
        cause
        for index, manifest in enumerate(manifests)
        for cause in manifest_rules.faults(manifest, f"spec.workload.manifests[{index}]")
    ]

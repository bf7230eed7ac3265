"""What has to hold of Works that are written by hand (semantics 1.5)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.causes import forbidden
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.names import (
    BINDING_ANNOTATION,
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    WORK_FINALIZER,
    WORK_ID_LABEL,
)
from controlplane.kinds.permanent_id import with_permanent_id
from controlplane.kinds.work import Work, Workload, manifest_rules
from controlplane.settings import Settings


def default(new: Work, old: Work | None, settings: Settings) -> Work:
    """Return the Work with its permanent id, and manifests that leave out what they do not set."""
    return _completed(new, old)


def _completed(new: Work, old: Work | None) -> Work:
    manifests = tuple(manifest_rules.without_nulls(one) for one in new.spec.workload.manifests)
    return with_permanent_id(new.with_spec(workload=Workload(manifests)), old, WORK_ID_LABEL)


def agent_work_faults(new: Work, old: Work) -> list[Cause]:
    """Return what an agent changed of a Work beside its status: nothing but its own finalizer, once the Work is being
    deleted. What admission itself completes (the permanent id of a Work that a controller made) is no change."""
    completed = _completed(old, None)
    causes = [
        forbidden(field, "an agent writes the status of its Works, and nothing else")
        for field, allowed, after in (
            ("metadata.labels", (old.metadata.labels, completed.metadata.labels), new.metadata.labels),
            ("metadata.annotations", (old.metadata.annotations,), new.metadata.annotations),
            ("metadata.ownerReferences", (old.metadata.owner_references,), new.metadata.owner_references),
            ("spec", (old.spec, completed.spec), new.spec),
        )
        if after not in allowed
    ]
    before, after = old.metadata.finalizers, new.metadata.finalizers
    freed = tuple(one for one in before if one != WORK_FINALIZER)
    if after != before and (after != freed or old.metadata.deletion_timestamp is None):
        rule = f"an agent takes off {WORK_FINALIZER}, when the Work is being deleted, and changes no other finalizer"
        causes.append(forbidden("metadata.finalizers", rule))
    return causes


def validate(new: Work, old: Work | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a Work. Manifests that stay as they are hinder nobody."""
    return [*_reserved(new, old), *_manifests(new, old)]


def _reserved(new: Work, old: Work | None) -> Iterator[Cause]:
    """Controllers find out by these annotations what a Work was made for: they alone write them."""
    before = {} if old is None else old.metadata.annotations
    for name in (BINDING_ANNOTATION, LEFTOVER_ANNOTATION, REDUCED_ANNOTATION):
        if new.metadata.annotations.get(name) != before.get(name):
            yield forbidden(f"metadata.annotations[{name}]", "is written by Lifeboat alone; leave it as it is")


def _manifests(new: Work, old: Work | None) -> list[Cause]:
    manifests = new.spec.workload.manifests
    if old is not None and old.spec.workload.manifests == manifests:
        return []
    return [
        cause
        for index, manifest in enumerate(manifests)
        for cause in manifest_rules.faults(manifest, f"spec.workload.manifests[{index}]")
    ]

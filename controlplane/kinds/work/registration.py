"""Registers Work."""

from __future__ import annotations

from controlplane.apimachinery.names import LEFTOVER_ANNOTATION
from controlplane.kind import Index, Kind
from controlplane.kinds.field_texts import explain
from controlplane.kinds.work import Work, rules
from controlplane.kinds.work.columns import COLUMNS
from controlplane.kinds.work.field_texts import TEXTS
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of

explain(TEXTS)


def _cluster(work: Work) -> list[str]:
    cluster = work.cluster
    return [cluster] if cluster else []


def _leftover(work: Work) -> list[str]:
    return _cluster(work) if LEFTOVER_ANNOTATION in work.metadata.annotations else []


def _binding(work: Work) -> list[str]:
    made_for = work.made_for
    return [] if made_for is None else [str(made_for)]


DECLARED = (
    Kind(
        resource=Resource(
            "work.karmada.io",
            "v1alpha1",
            "Work",
            "works",
            "work",
            True,
            short_names=("wk",),
            categories=("karmada-io",),
            subresources=("status",),
            columns=COLUMNS,
        ),
        type=Work,
        table="resources.Work",
        schema=lambda: schema_of(Work),
        default=rules.default,
        validate=rules.validate,
        indexes=(
            Index("binding", _binding, "controllers.works, status: Works of a binding"),
            Index("cluster", _cluster, "members: Works that a cluster has to apply"),
            Index("leftover", _leftover, "controllers.works: copies that stayed on a cluster that is back"),
        ),
    ),
)

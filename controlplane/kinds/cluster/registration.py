"""Registers Cluster."""

from __future__ import annotations

from controlplane.kind import Index, Kind
from controlplane.kinds.cluster import Cluster, normalise, rules, status_rules, taint_effects
from controlplane.kinds.cluster.columns import COLUMNS
from controlplane.kinds.cluster.field_texts import TEXTS
from controlplane.kinds.field_texts import explain
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of

explain(TEXTS)

DECLARED = (
    Kind(
        resource=Resource(
            "cluster.karmada.io",
            "v1alpha1",
            "Cluster",
            "clusters",
            "cluster",
            False,
            categories=("karmada-io",),
            subresources=("status", "fence", "proxy"),
            columns=COLUMNS,
        ),
        type=Cluster,
        table="clusters.Cluster",
        schema=lambda: schema_of(Cluster),
        normalise=normalise,
        default=rules.default,
        validate=rules.validate,
        validate_status=status_rules.validate_status,
        warn=rules.warn,
        indexes=(Index("taint", taint_effects, "fleet health: clusters that are faulty"),),
    ),
)

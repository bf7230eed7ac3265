"""Registers ClusterTaintPolicy."""

from __future__ import annotations

from controlplane.kind import Kind
from controlplane.kinds.field_texts import explain
from controlplane.kinds.taint_policy import ClusterTaintPolicy, rules
from controlplane.kinds.taint_policy.columns import COLUMNS
from controlplane.kinds.taint_policy.field_texts import TEXTS
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of

explain(TEXTS)

DECLARED = (
    Kind(
        resource=Resource(
            "policy.karmada.io",
            "v1alpha1",
            "ClusterTaintPolicy",
            "clustertaintpolicies",
            "clustertaintpolicy",
            False,
            short_names=("ctp",),
            categories=("karmada-io",),
            columns=COLUMNS,
        ),
        type=ClusterTaintPolicy,
        table="policies.ClusterTaintPolicy",
        schema=lambda: schema_of(ClusterTaintPolicy),
        validate=rules.validate,
        warn=rules.warn,
        has_status=False,
    ),
)

"""Registers FailoverConfiguration."""

from __future__ import annotations

from controlplane.kind import Kind
from controlplane.kinds.configuration import EXPLAINED, FailoverConfiguration, rules
from controlplane.kinds.configuration.columns import COLUMNS
from controlplane.kinds.field_texts import SPEC, explain
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of

explain({FailoverConfiguration: SPEC, EXPLAINED: SPEC})

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "FailoverConfiguration",
            "failoverconfigurations",
            "failoverconfiguration",
            False,
            categories=("lifeboat",),
            columns=COLUMNS,
        ),
        type=FailoverConfiguration,
        schema=lambda: schema_of(EXPLAINED),
        validate=rules.validate,
        warn=rules.warn,
        has_status=False,
    ),
)

"""Registers ResourceBinding and ClusterResourceBinding."""

from __future__ import annotations

from controlplane.kind import Kind
from controlplane.kinds.binding import Binding, rules
from controlplane.kinds.binding.columns import COLUMNS
from controlplane.kinds.binding.field_texts import TEXTS
from controlplane.kinds.binding.indexes import INDEXES
from controlplane.kinds.field_texts import explain
from controlplane.wire.resource import Resource
from controlplane.wire.structs import schema_of

explain(TEXTS)


def _kind(name: str, plural: str, short: str, *, namespaced: bool) -> Kind:
    return Kind(
        resource=Resource(
            "work.karmada.io",
            "v1alpha2",
            name,
            plural,
            name.lower(),
            namespaced,
            short_names=(short,),
            categories=("karmada-io",),
            subresources=("status", "explain", "revert", "readiness"),
            columns=COLUMNS,
        ),
        type=Binding,
        table="resources.Binding",
        schema=lambda: schema_of(Binding),
        normalise=rules.normalise,
        default=rules.default,
        validate=rules.validate,
        indexes=INDEXES,
    )


DECLARED = (
    _kind("ResourceBinding", "resourcebindings", "rb", namespaced=True),
    _kind("ClusterResourceBinding", "clusterresourcebindings", "crb", namespaced=False),
)

"""How the policies of propagation and of overrides are served."""

from __future__ import annotations

from controlplane.wire.resource import Column, Resource


def policy_resource(
    kind: str, plural: str, short_name: str, *, namespaced: bool, columns: tuple[Column, ...]
) -> Resource:
    """Return the resource of a kind of policy in Karmada's group of policies."""
    return Resource(
        "policy.karmada.io",
        "v1alpha1",
        kind,
        plural,
        kind.lower(),
        namespaced,
        short_names=(short_name,),
        categories=("karmada-io",),
        columns=columns,
    )

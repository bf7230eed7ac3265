"""EvictionHold (failover.lifeboat.io/v1alpha1): prevents evictions while it is open."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.causes import invalid, reason
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.apimachinery.selectors import LabelSelector, dns1123_label_errors, matches, selector_errors
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import SPEC, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

EVICTION_HOLD = "failover.lifeboat.io/EvictionHold"


class EvictionHoldSpec(UserStruct, frozen=True):
    """The evictions to hold. They have to match all fields that are set. Without any, the whole fleet is held."""

    reason: Annotated[str, Meta(description="Why nothing may be evicted. Held evictions show this reason.")] = ""
    clusters: Annotated[
        tuple[str, ...], Meta(description="Hold evictions from these clusters. Unset: from all clusters.")
    ] = ()
    namespaces: Annotated[
        tuple[str, ...], Meta(description="Hold evictions of workloads in these namespaces. Unset: in all.")
    ] = ()
    selector: Annotated[
        LabelSelector | None, Meta(description="Hold evictions of workloads with these labels. Unset: of all.")
    ] = None
    who: Annotated[str, Meta(description="Person or team to contact about the hold.")] = ""
    expires_at: Annotated[
        datetime | None, Meta(description="Time at which the hold ends, with a time zone. Unset: when it is deleted.")
    ] = None


class EvictionHold(Object, frozen=True):
    """Prevents evictions by taints while it is open. Every open hold applies, immediately."""

    spec: EvictionHoldSpec = EvictionHoldSpec()

    def open(self, *, now: datetime) -> bool:
        """Test whether the hold is in force: not being deleted, and not expired."""
        expires = self.spec.expires_at
        return self.metadata.deletion_timestamp is None and (expires is None or now < expires)

    def covers(self, cluster: str, namespace: str, labels: dict[str, str]) -> bool:
        """Test whether the hold applies to the eviction of a workload from a cluster.

        `labels` are those of the workload.
        """
        spec = self.spec
        return (
            (not spec.clusters or cluster in spec.clusters)
            and (not spec.namespaces or namespace in spec.namespaces)
            and (spec.selector is None or matches(spec.selector, labels))
        )


def validate(new: EvictionHold, old: EvictionHold | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a hold."""
    why = "write why nothing may be evicted; held evictions show this reason"
    causes = reason("spec.reason", new.spec.reason, why)
    for index, name in enumerate(new.spec.namespaces):
        causes += [invalid(f"spec.namespaces[{index}]", name, rule) for rule in dns1123_label_errors(name)]
    if new.spec.selector is not None:
        for field, message in selector_errors(new.spec.selector):
            causes.append(invalid(f"spec.selector.{field}", new.spec.selector, message))
    return causes


def state(doc: dict[str, Any], now: datetime) -> str:
    """Return the cell State: Open, or Expired and how long ago."""
    return cells.open_until(doc.get("spec", {}).get("expiresAt"), "Expired", now=now)


def _scope(doc: dict[str, Any], now: datetime) -> str:
    spec = doc.get("spec", {})
    parts = [f"cluster {name}" for name in spec.get("clusters", ())]
    parts += [f"namespace {name}" for name in spec.get("namespaces", ())]
    return ", ".join(parts + (["selector"] if spec.get("selector") else [])) or "fleet"


explain({EvictionHold: SPEC})

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "EvictionHold",
            "evictionholds",
            "evictionhold",
            False,
            categories=("lifeboat",),
            columns=(
                Column("Scope", _scope),
                Column("Reason", cells.field("spec", "reason")),
                Column("Who", cells.field("spec", "who")),
                Column("State", state),
                Column("Expires", cells.field("spec", "expiresAt")),
            ),
        ),
        type=EvictionHold,
        schema=lambda: schema_of(EvictionHold),
        validate=validate,
        has_status=False,
    ),
)

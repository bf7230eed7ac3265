"""EvictionHold (failover.lifeboat.io/v1alpha1): nothing it covers is evicted while it is open."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from controlplane.apimachinery.causes import invalid, reason
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.apimachinery.selectors import LabelSelector, dns1123_label_errors, matches, selector_errors
from controlplane.settings import Settings


class EvictionHoldSpec(UserStruct, frozen=True):
    """What is held. All that is given has to fit; with nothing given it is the whole fleet."""

    reason: Annotated[str, Meta(description="Why nothing shall be evicted; everybody who waits reads it.")] = ""
    clusters: Annotated[tuple[str, ...], Meta(description="Clusters that are left. Unset: any.")] = ()
    namespaces: Annotated[tuple[str, ...], Meta(description="Of the workloads. Unset: any.")] = ()
    selector: Annotated[LabelSelector | None, Meta(description="On the labels of the workloads. Unset: any.")] = None
    who: Annotated[str, Meta(description="Whom to ask about it.")] = ""
    expires_at: Annotated[
        datetime | None, Meta(description="Until when it holds, with a time zone. Unset: until it is deleted.")
    ] = None


class EvictionHold(Object, frozen=True):
    """Evictions by taints that it covers wait while it is open. Every open hold counts, and at once."""

    spec: EvictionHoldSpec = EvictionHoldSpec()

    def open(self, *, now: datetime) -> bool:
        """Test whether the hold counts: it is not being deleted and has not expired."""
        expires = self.spec.expires_at
        return self.metadata.deletion_timestamp is None and (expires is None or now < expires)

    def covers(self, cluster: str, namespace: str, labels: dict[str, str]) -> bool:
        """Test whether a workload with those labels shall not be evicted from that cluster."""
        spec = self.spec
        return (
            (not spec.clusters or cluster in spec.clusters)
            and (not spec.namespaces or namespace in spec.namespaces)
            and (spec.selector is None or matches(spec.selector, labels))
        )


def validate(new: EvictionHold, old: EvictionHold | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a hold."""
    why = "say why nothing shall be evicted; everybody who waits reads it"
    causes = reason("spec.reason", new.spec.reason, why)
    for index, name in enumerate(new.spec.namespaces):
        causes += [invalid(f"spec.namespaces[{index}]", name, rule) for rule in dns1123_label_errors(name)]
    if new.spec.selector is not None:
        for field, message in selector_errors(new.spec.selector):
            causes.append(invalid(f"spec.selector.{field}", new.spec.selector, message))
    return causes

"""The index of bindings that wait for room in a FederatedResourceQuota [federated-quotas]."""

from __future__ import annotations

from typing import Final

from controlplane.apimachinery.meta import condition
from controlplane.kinds.binding import SCHEDULED, Binding

OVER_QUOTA: Final = "over-quota"
REASON: Final = "QuotaExceeded"  # of the condition Scheduled


def over_quota_keys(binding: Binding) -> list[str]:
    """Return the namespace of a binding that waits for room in a quota, as an index value; []: it does not wait."""
    scheduled = condition(binding.status.conditions, SCHEDULED)
    waits = scheduled is not None and scheduled.status == "False" and scheduled.reason == REASON
    return [binding.metadata.namespace] if waits else []

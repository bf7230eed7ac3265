"""The Events about a template that no policy selects."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from controlplane.apimachinery.meta import Struct
from controlplane.engine.decision import Event
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.kinds.template.pods import KINDS_WITH_PODS
from controlplane.propagation import matching

NO_POLICY: Final = "NoPolicyMatches"
SOON: Final = timedelta(seconds=10)
"""How long a new workload waits for its policy before an Event reports that it has none."""


class Report(Struct, frozen=True):
    """The Events to write, and when to check again. None: only after a change."""

    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None


NO_EVENTS: Final = Report()


def report(
    template: Template, binding: Binding | None, policies: Iterable[Policy], *, lost: bool, now: datetime
) -> Report:
    """Return the Events about a template that no policy selects. `lost`: a policy had claimed it until now.

    A Warning: the template has lost its policy, or all policies that match it are being deleted. A Normal Event: a
    workload without a controlling owner never had a policy. Other templates get no Event, because a ConfigMap without a
    policy is usual.
    """
    deleted = [policy for policy in policies if matching.policy_precision(policy, template)]
    if lost or deleted:
        return Report((Event(template, NO_POLICY, _lost(binding, deleted), warning=True),))
    metadata = template.metadata
    owned = any(reference.controller for reference in metadata.owner_references)
    if binding is not None or owned or template.kind not in KINDS_WITH_PODS:
        return NO_EVENTS
    due = (metadata.creation_timestamp or now) + SOON
    if now < due:
        return Report(wake_at=due)
    message = "no PropagationPolicy or ClusterPropagationPolicy selects it, so it runs on no cluster"
    return Report((Event(template, NO_POLICY, message),))


def _lost(binding: Binding | None, deleted: Iterable[Policy]) -> str:
    after = "its copies stay as they are" if binding is not None else "it runs on no cluster"
    message = f"no policy selects it any more: {after} until one does"
    names = ", ".join(f"{policy.kind} {policy.metadata.name}" for policy in deleted)
    return f"{message}; {names} is being deleted: apply it again once it is gone" if names else message

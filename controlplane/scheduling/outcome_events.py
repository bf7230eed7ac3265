"""The Events about a decision of the scheduler."""

from __future__ import annotations

from controlplane.apimachinery.meta import condition
from controlplane.engine.decision import Event
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.schedule import Placed


def deserves_event(old: Binding, new: Binding) -> bool:
    """Test whether a decision deserves an Event: the clusters or the condition Scheduled changed."""
    before, after = (condition(binding.status.conditions, SCHEDULED) for binding in (old, new))
    return old.spec.clusters != new.spec.clusters or before != after


def refuge_replaced_events(binding: Binding, message: str) -> tuple[Event, ...]:
    """Return the Events about a binding that was placed elsewhere than on the refuge that its eviction had reserved."""
    abouts = (binding, template_of(binding)) if message else ()
    return tuple(Event(about, "EvictionRefugeReplaced", message) for about in abouts)


def success_events(binding: Binding, outcome: Placed) -> tuple[Event, ...]:
    result = ", ".join(
        f"{target.name}:{target.replicas}" if target.replicas else target.name for target in outcome.clusters
    )
    message = f"Binding has been scheduled successfully. Result: {{{result}}}"
    reason = "ScheduleBindingSucceed"
    return Event(binding, reason, message), Event(template_of(binding), reason, message, step=True)

"""What is told about a template that no policy selects."""

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
"""How long a new workload is given for its policy to arrive before it says that it has none."""


class Told(Struct, frozen=True):
    """Events to write, and when to look again; None: only when something changes."""

    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None


SILENT: Final = Told()


def told(template: Template, binding: Binding | None, facing: Iterable[Policy], *, lost: bool, now: datetime) -> Told:
    """Return what is told about a template that no policy selects. `lost`: a policy had claimed it until now.

    A Warning where a policy was lost, or the only ones that select the template are being deleted. A Normal Event where
    a workload that nothing else owns never had a policy. Nothing otherwise: a ConfigMap that nobody means to propagate
    is no news.
    """
    going = [one for one in facing if matching.policy_precision(one, template)]
    if lost or going:
        return Told((Event(template, NO_POLICY, _lost(binding, going), warning=True),))
    metadata = template.metadata
    owned = any(one.controller for one in metadata.owner_references)
    if binding is not None or owned or template.kind not in KINDS_WITH_PODS:
        return SILENT
    due = (metadata.creation_timestamp or now) + SOON
    if now < due:
        return Told(wake_at=due)
    message = "no PropagationPolicy or ClusterPropagationPolicy selects it, so it runs on no cluster"
    return Told((Event(template, NO_POLICY, message),))


def _lost(binding: Binding | None, going: Iterable[Policy]) -> str:
    after = "its copies stay as they are" if binding is not None else "it runs on no cluster"
    message = f"no policy selects it any more: {after} until one does"
    names = ", ".join(f"{one.kind} {one.metadata.name}" for one in going)
    return f"{message}; {names} is being deleted: apply it again once it is gone" if names else message

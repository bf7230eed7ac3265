"""What-if on the stored state: reads what a question needs and answers it. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from apps.objects.access import may, reader_of
from apps.objects.configuration import base, configuration
from apps.objects.store import DjangoStore, store
from apps.objects.tallies import most_on_one
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.supposed_snapshot import count_concerned, supposed_snapshot
from controlplane.insight.changes import Change
from controlplane.insight.effects import Affected, Effects, readable
from controlplane.insight.supposed.override_edits import without_fields
from controlplane.insight.what_if import what_if
from controlplane.kinds import BINDINGS, KINDS
from controlplane.kinds.what_if import FINISHED, WhatIfStatus
from controlplane.propagation.bindings import template_ref

SMALL = 200
"""Most bindings of a question that is answered within a request. It takes about 200 ms then."""


def is_small(store: DjangoStore, changes: Sequence[Change]) -> bool:
    """Test whether a question concerns so few bindings that a request may wait for the answer.

    Clusters with many bindings are known from their tallies, without a search for the bindings.
    """
    return count_concerned(store, changes, limit=SMALL + 1, at_least=most_on_one) <= SMALL


def status_of(effects: Effects) -> WhatIfStatus:
    """Return the status of a WhatIf with these effects."""
    return WhatIfStatus(FINISHED, progress=1.0, sentence=effects.sentence, effects=msgspec.to_builtins(effects))


def readable_status(status: WhatIfStatus, user: Any) -> WhatIfStatus:
    """Return the status of a WhatIf without the names of workloads that a user may not see, and without the fields of
    workloads that the user may not get [names-of-others]."""
    if not status.effects:
        return status
    effects = msgspec.convert(status.effects, Effects)
    if not all(may(user, "list", KINDS[kind]) for kind in BINDINGS):
        effects = readable(effects, reader_of(user))
    if effects.overridden:
        shown = without_fields(effects.overridden, _getter_of(user, effects.overridden))
        effects = msgspec.structs.replace(effects, overridden=shown)
    return msgspec.structs.replace(status, effects=msgspec.to_builtins(effects))


def _getter_of(user: Any, found: Sequence[Affected]) -> Callable[[Affected], bool]:
    """Return a function that tests whether a user may get the workload of a changed copy. One query."""
    bindings = store().get({Ref.parse(one.binding) for one in found})

    @cache
    def may_get(ref: Ref) -> bool:
        kind = KINDS.get(ref.kind)
        return kind is not None and may(user, "get", kind, namespace=ref.namespace, name=ref.name)

    def may_get_workload(one: Affected) -> bool:
        binding = bindings.get(Ref.parse(one.binding))
        return binding is not None and may_get(template_ref(binding))

    return may_get_workload


def effects_of(
    store: DjangoStore, changes: Sequence[Change], *, progress: Callable[[float], None] = lambda share: None
) -> Effects:
    """Return what the changes would do now. The number of queries does not depend on the number of bindings."""
    settings, now = configuration().settings(), store.now()
    snapshot = supposed_snapshot(store, changes, settings=settings, base=base(), now=now)
    return what_if(snapshot, changes, settings, progress=progress, now=now)

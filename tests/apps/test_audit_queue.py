"""Audit events of requests that stored nothing wait in a queue, and each is stored whatever the others hold."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from apps.objects import audit
from apps.objects.audit_queue import AuditQueue
from apps.objects.models import AuditEvent as Stored
from controlplane.authorization.attributes import Caller
from controlplane.authorization.audit_event import Answered

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("place", range(5))
def test_an_event_that_the_database_cannot_hold_keeps_no_other_from_being_stored(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LONGEST_KEY", 10**6)
    queue, long = AuditQueue(), "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))
    for number in range(5):
        trail = audit.Trail(method="DELETE", path=f"/{number}")
        trail.caller = Caller("eva")
        trail.request = replace(trail.request, name=long if number == place else f"n{number}")
        queue.put(trail, Answered(403))

    queue.stop()

    stored: Any = Stored.objects.order_by("name").values_list("name", flat=True)
    assert list(stored) == [f"n{number}" for number in range(5) if number != place]

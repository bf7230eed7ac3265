"""The outbox: notices that a webhook or a mail server is to get, written in the transaction of their cause.

A notice has a row for each channel. `apps.worker.notices` sends the rows and marks them. A channel that is not set has
no rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from django.conf import settings

from controlplane.engine.decision import Decision, Save
from controlplane.insight.notices import notices
from controlplane.kinds import rows

WEBHOOK, MAIL = "webhook", "e-mail"
GATHER: Final = timedelta(seconds=5)  # a row is sent so much later, so that notices of one moment are one message


def channels() -> tuple[str, ...]:
    """Return the channels that are set."""
    given = {WEBHOOK: settings.NOTIFY_WEBHOOK, MAIL: settings.NOTIFY_EMAIL}
    return tuple(channel for channel, value in given.items() if value)


def outgoing(decisions: Iterable[Decision], *, now: datetime) -> list[Save]:
    """Return the rows to store with decisions: for each notice a row for each channel."""
    to = channels()
    if not to:
        return []
    return [
        Save(
            rows.Notice(
                f"{channel}|{uuid4().hex}",
                channel=channel,
                topic=notice.topic,
                subject=notice.subject,
                severity=notice.severity,
                text=notice.text,
                count=notice.count,
                at=now,
                due_at=now + GATHER,
            )
        )
        for notice in notices(decisions)
        for channel in to
    ]

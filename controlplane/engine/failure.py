"""Decisions that failed, with all that is needed to make them again."""

from __future__ import annotations

import traceback
from datetime import datetime
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Event
from controlplane.settings import Settings


class Failure(msgspec.Struct, frozen=True):
    """A decision that raised an exception or could not be stored, with its arguments for `make replay`."""

    controller: str
    ref: Ref
    snapshot: Any
    error: str
    trace: str
    now: datetime
    settings: Settings | None = None
    answer: Any = None


def failure_of(
    controller: str, ref: Ref, snapshot: Any, error: Exception, settings: Settings, *, now: datetime, answer: Any
) -> Failure:
    trace = "".join(traceback.format_exception(error))
    return Failure(controller, ref, snapshot, f"{type(error).__name__}: {error}", trace, now, settings, answer)


def failure_events(snapshot: Any, failure: Failure) -> tuple[Event, ...]:
    """Return the Event about a failure; no Event if the snapshot names no object (`subject`) to attach it to."""
    about = getattr(snapshot, "subject", None)
    if about is None:
        return ()
    message = f"{failure.controller} could not decide about {failure.ref}: {failure.error}"
    return (Event(about, "ControllerFailed", message, warning=True),)

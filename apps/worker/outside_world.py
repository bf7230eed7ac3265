"""What controllers of Celery workers need from outside: the token bucket, and a place for failed decisions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from apps.failover.bucket import RedisBucket
from apps.interpretation.service import interpretation
from apps.objects.instruments import phase
from apps.worker import broker, credentials, signing
from apps.worker.failures import keep
from controlplane.authentication.questions import NewTokens
from controlplane.authentication.signing_requests import Sign
from controlplane.engine.run import World
from controlplane.eviction.rate import TakeTokens
from controlplane.interpret.customized import Question


@lru_cache(maxsize=1)
def world() -> World:
    """Return the functions that answer questions of controllers and report failed decisions."""
    bucket = RedisBucket(broker.client())

    def answer(question: Any) -> Any:
        if isinstance(question, TakeTokens):
            return bucket.answer(question)
        if isinstance(question, NewTokens):
            return credentials.issued(question)
        if isinstance(question, Sign):
            return signing.signed(question)
        raise TypeError(f"no answer exists for a question of type {type(question).__name__}")

    return World(answer=answer, report=keep, interpret=_interpret, phase=phase)


def _interpret(questions: Sequence[Question]) -> bool:
    """Have scripts and webhooks answer questions; return whether some were answered in time.

    The processes that answer start with the first question.
    """
    return interpretation().interpret(questions)

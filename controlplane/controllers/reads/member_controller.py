"""The base of controllers that send a request to a member before they decide. The members process runs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.clusters.questions import Question
from controlplane.engine.controller import Controller, Inquiry
from controlplane.engine.decision import Decision
from controlplane.settings import Settings


class MemberController(Controller):
    """A controller whose decision about a snapshot needs the answer of one member to one request."""

    def question(self, snapshot: Any, settings: Settings, *, now: datetime) -> Question | None:
        """Return the request to the member. None: the decision needs no answer."""
        raise NotImplementedError

    def ask(self, snapshots: Sequence[Any], settings: Settings, *, now: datetime) -> Inquiry:
        questions = [self.question(snapshot, settings, now=now) for snapshot in snapshots]
        return Inquiry(snapshots, questions if any(question is not None for question in questions) else None)

    def decide_all(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        answers = answer if answer is not None else [None] * len(snapshots)
        return [
            self.decide_or_error(snapshot, settings, now=now, answer=one_answer)
            for snapshot, one_answer in zip(snapshots, answers, strict=True)
        ]

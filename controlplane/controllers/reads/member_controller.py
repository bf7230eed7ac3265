"""Controllers that need a member's answer before they can decide: one question per snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.clusters.questions import Question
from controlplane.engine.controller import Controller, Inquiry
from controlplane.engine.decision import Decision
from controlplane.settings import Settings


class MemberController(Controller):
    """A controller whose decisions need a member's answer, one question per snapshot."""

    def question(self, snapshot: Any, settings: Settings, *, now: datetime) -> Question | None:
        """Return what to ask before deciding; None where nothing needs to be asked."""
        raise NotImplementedError

    def ask(self, snapshots: Sequence[Any], settings: Settings, *, now: datetime) -> Inquiry:
        questions = [self.question(snapshot, settings, now=now) for snapshot in snapshots]
        return Inquiry(snapshots, questions if any(question is not None for question in questions) else None)

    def decide_all(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        answers = answer if answer is not None else [None] * len(snapshots)
        return [
            self.decide_or_error(snapshot, settings, now=now, answer=one)
            for snapshot, one in zip(snapshots, answers, strict=True)
        ]

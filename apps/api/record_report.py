"""Failover records as Markdown: the report about them, for `Accept: text/markdown` and `?format=md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.api.answer import Answer
from apps.api.renderers import FormRenderer
from apps.failover.begun import probe_turns
from apps.objects.store import store
from controlplane.insight.report import report
from controlplane.kinds.failover_record import FailoverRecord


class MarkdownRenderer(FormRenderer):
    """Markdown. Answers that are no report, for example errors, are JSON."""

    media_type = "text/markdown"
    format = "md"
    content_type = "text/markdown; charset=utf-8"

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return answer.markdown.encode() if isinstance(answer, RecordReport) else answer.text


class RecordReport(Answer):
    """The report about some records."""

    def __init__(self, records: Sequence[FailoverRecord], *, title: str, omissions: Iterable[str] = ()) -> None:
        reading = store()
        turns = probe_turns(reading, records)
        self.markdown = report(records, title=title, turned_at=turns, omissions=omissions, now=reading.now())
        super().__init__({"report": self.markdown})

"""The guard rail of the admin: a dangerous write shows its dry run first, and is done with a reason.

The rules are those of the console (`apps/objects/confirmation.py`). A write that does nothing to workloads is done at
once, except for deletions, which are always confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from apps.objects.confirmation import REASON_LENGTH, THRESHOLD, problems
from apps.objects.preview import Preview

ANSWERS = ("reason", "typed", "concerned", "chosen", "csrfmiddlewaretoken")
WATCHED = (("Situation", "console:situation"), ("Queue", "console:queue"), ("Records", "console:records"))


class Question(NamedTuple):
    """What is confirmed. `trial` returns the dry run; it raises StatusError if the write would be refused.

    subject: what is typed if many workloads are concerned, unless the dry run names another subject.
    kubectl: a command that does the same. program: whose command it is.
    keeper: what keeps the reason with the name of the user.
    facts: what the page says besides the dry run.
    always: it is confirmed even if the dry run finds nothing.
    chosen: the names of the objects, if a list chose them: "all that the filter finds" may be others a minute later.
    """

    title: str
    button: str
    subject: str
    kubectl: str
    trial: Callable[[], Preview]
    facts: tuple[str, ...] = ()
    always: bool = False
    chosen: Iterable[str] = ()
    program: str = "kubectl"
    keeper: str = "change log"


def confirmed(question: Question, request: HttpRequest, context: dict[str, Any]) -> str | HttpResponse:
    """Return the reason with which a write is to be done ("": it needs none), or the page that asks for it.

    `context`: what every page of this admin gets. The page sends all fields of the request again, so that the same view
    does the write. Raises StatusError.
    """
    found = question.trial()
    subject, threshold = found.subject or question.subject, -1 if found.is_final else THRESHOLD
    if not found.texts and not question.always:
        return ""
    wrong: dict[str, str] = {}
    chosen = sha256("\0".join(sorted(question.chosen)).encode()).hexdigest()
    if "reason" in request.POST and "concerned" in request.POST:
        wrong = problems(request.POST, subject=subject, concerned=found.concerned, threshold=threshold)
        if not wrong and request.POST.get("chosen", chosen) != chosen:
            wrong = {"act": "Nothing was done: other objects are chosen now than when you looked. Check them again."}
        if not wrong:
            return request.POST["reason"].strip()
    shown = {
        "title": question.title,
        "question": question,
        "effects": [text.removeprefix("effects: ") for text in found.texts],
        "concerned": found.concerned,
        "chosen": chosen,
        "subject": subject,
        "must_type": found.concerned > threshold,
        "threshold": threshold,
        "reason_length": REASON_LENGTH,
        "problems": wrong,
        "sent": request.POST,
        "hidden": list(_hidden(request)),
    }
    return TemplateResponse(request, "admin/objects/confirm.html", {**context, **shown})


def show_where_to_watch(request: HttpRequest) -> None:
    """Show links to the pages on which a confirmed write can be watched, on the next page of the admin."""
    links = format_html_join(", ", '<a href="{}">{}</a>', ((reverse(name), text) for text, name in WATCHED))
    messages.info(request, format_html("Watch it: {}", links))


def _hidden(request: HttpRequest) -> Iterable[tuple[str, str]]:
    """Yield the fields of a request that the page sends again."""
    for name, values in request.POST.lists():
        if name not in ANSWERS:
            yield from ((name, str(value)) for value in values)

"""Guard rail: the pages of dangerous acts. Each first shows what the act would do, then asks for a reason, then acts.

An act is a page of its own, in two steps that work without JavaScript:

1. GET shows the dry run ("moves 43 workloads, 2 without a place, in 5 namespaces") and the kubectl line. An act with
   parameters has a form for them (`form_class`), which is sent by GET as well: the URL of a dry run can be shared.
2. POST asks for a reason and, if more than `threshold` workloads are concerned, for the typed name. The dry run is made
   again. If it has become worse since the reader saw it, it is shown again and nothing is done.

Afterwards the browser is sent to the page where the act can be watched.

A form is done once. It has a number of its own (`once`), and what an act creates (`created_once`) is named after it: a
double click, or a browser that sends the form again, finds the object and leads to the same page. What an act takes
away may be gone when its form is sent again (`already`): a warning names the reason, and the same page follows.

    class DrainPage(ActPage):
        form_class = DrainForm                        # or None: the act has no parameters

        def asked(self, request) -> Attributes:       # the right that the act needs, as the API asks for it
            return Attributes(request.user, "create", drain.GROUP, "drains")

        def act(self, request, values: dict) -> Act:  # values: cleaned_data of the form, {} without a form
            return Act("Drain member1", "member1", lambda: Effects(...), lambda reason: "/watch/here", "kubectl …")

`apply` writes through `apps.objects.writer` (`self.writer` names the user and the reason), and returns the URL
at which the act can be watched. Errors of the API (StatusError) are shown on the page.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.page import Page
from apps.objects import confirmation
from apps.objects.configuration import configuration
from apps.objects.confirmation import REASON_LENGTH, THRESHOLD
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import AlreadyExists, NotFound, StatusError
from controlplane.kind import Kind

MANAGER: Final = "lifeboat-console"  # field manager of the writes
LONGEST_QUERY: Final = 4000  # characters with which a dry run is shown again; a proxy may refuse longer URLs
_ONCE: Final = re.compile(r"[0-9a-f]{8}")  # the number of a form


class Effects(NamedTuple):
    """What an act would do now, as its dry run found.

    `concerned`: workloads that move or stop. `refused`: why the act is not possible; "": it is possible. `what_if`: the
    URL of the same question on the page What if; "": there is none.
    """

    sentence: str
    concerned: int = 0
    lines: tuple[str, ...] = ()
    refused: str = ""
    what_if: str = ""


class Already(NamedTuple):
    """An act that is sent although its end is reached, for example because its form is sent again: nothing is done.

    `name`: what the act does. `why`: there is nothing to do. `watch`: the URL to which the act leads.
    """

    name: str
    why: str
    watch: str


class Act(NamedTuple):
    """One dangerous act. `name`: what it does, also the text of its button. `subject`: what is typed to confirm it.

    `threshold`: with more workloads than this the subject has to be typed; -1: always. `already`: why there is nothing
    to do; None: there is.
    """

    name: str
    subject: str
    effects: Callable[[], Effects]
    apply: Callable[[str], str]
    kubectl: str
    threshold: int = THRESHOLD
    explanation: str = ""
    is_destructive: bool = True
    already: Already | None = None


class ActPage(Page):
    """Base of the pages of acts. The docstring of this file describes its use."""

    template_name = "console/guard.html"
    form_class: ClassVar[type[forms.Form] | None] = None
    back: str = "/"
    _is_repeated = False

    def asked(self, request: Request) -> Attributes:
        """Return the right that the act needs."""
        raise NotImplementedError

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        """Return the act with these parameters. Raises StatusError, for example NotFound."""
        raise NotImplementedError

    def already(self, values: dict[str, Any]) -> Already | None:
        """Return what is said if the object is gone that the act removes, or takes something from; None: it is an
        error."""
        return None

    def attributes(self, request: Request) -> Attributes:
        return self.asked(request)

    def basis(self) -> str:
        """Return what names the state that the act is about, for example the uid of its object; "": nothing does.

        If it changes after the page was shown, nothing is done and the dry run is shown again. Raises StatusError.
        """
        return ""

    def is_stale(self, seen: str, values: dict[str, Any]) -> bool:
        """Test whether the state that the act is about is no longer the one whose `basis` the reader has seen."""
        return seen != self.basis()

    def first_values(self, request: Request) -> dict[str, Any]:
        """Return the values with which the form is shown first."""
        return {}

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        form = self._form(request.query_params) if self._has_values(request) else self._empty(request)
        if form is not None and not form.is_valid():
            return self.show(request, {"form": form, "back": self.back})
        act = self.act(request, self._values(form))
        return self._shown(request, form, act, act.effects())

    def post(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        sent = request._request.POST
        form = self._form(sent) if self.form_class is not None else None
        if form is not None and not form.is_valid():
            return self.show(request, {"form": form, "back": self.back}, status=422)
        values = self._values(form)
        try:
            return self._posted(request, form, values)
        except NotFound:  # also after the first look: the same form may be under way a second time
            if (already := self.already(values)) is None:
                raise
            return self._nothing_to_do(request, already)

    def _posted(self, request: Request, form: forms.Form | None, values: dict[str, Any]) -> HttpResponseBase:
        """Return the answer to a form that is complete. Raises NotFound if the object of the act is gone."""
        sent = request._request.POST
        act = self.act(request, values)
        if act.already is not None:
            return self._nothing_to_do(request, act.already)
        effects = act.effects()
        stale = "basis" in sent and self.is_stale(sent["basis"], values)
        problems = _problems(sent, act, effects, stale=stale)
        if not problems:
            try:
                watch = act.apply(sent["reason"].strip())
            except StatusError as error:
                if isinstance(error, NotFound) and self.already(values) is not None:
                    raise
                problems = {"act": error.message}
            else:
                if self._is_repeated:
                    again = "this form was sent before, and was done once. To do it again, open its page again."
                    messages.warning(request._request, f"{act.name}: {again}")
                else:
                    messages.success(request._request, f"{act.name}: done. Reason: {sent['reason'].strip()}")
                return HttpResponseRedirect(watch, status=303)
        return self._shown(request, form, act, effects, status=422, problems=problems, sent=sent)

    def _nothing_to_do(self, request: Request, already: Already) -> HttpResponseBase:
        messages.warning(request._request, f"{already.name}: nothing to do, because {already.why}.")
        return HttpResponseRedirect(already.watch, status=303)

    def writer(self, request: Request, reason: str, *, act: str) -> Writer:
        """Return a writer for the user. The change log keeps the act and the reason."""
        author = Author(request.user.get_username(), f"{act}: {reason}"[:200], MANAGER)
        return Writer(store(), configuration().settings(), author)

    def created_once(self, writer: Writer, kind: Kind, document: dict[str, Any]) -> str:
        """Create an object whose document has a generateName, and return its name. A form that is sent again creates
        nothing, also while its first request is under way. Raises StatusError."""
        once = _once(self.request._request.POST)
        if not once:  # it was not sent by our form
            return str(writer.create(kind, document).stored.metadata.name)
        metadata = dict(document["metadata"])
        name = f"{metadata.pop('generateName')}{once}"
        try:
            writer.create(kind, {**document, "metadata": {**metadata, "name": name}})
        except AlreadyExists:
            self._is_repeated = True
        return name

    def _shown(
        self, request: Request, form: forms.Form | None, act: Act, effects: Effects, *, status: int = 200, **more: Any
    ) -> HttpResponseBase:
        hidden = [] if form is None else self.parameters(form)
        shown = {
            "title": act.name,
            "form": form,
            "act": act,
            "effects": effects,
            "hidden": [(name, value) for name, value in hidden if value not in (None, "", False)],
            "must_type": effects.concerned > act.threshold,
            "kubectl": act.kubectl,
            "back": self.back,
            "reason_length": REASON_LENGTH,
            "basis": self.basis(),
            "once": _once(more.get("sent", {})) or secrets.token_hex(4),
        }
        return self.show(request, {**shown, **more}, status=status)

    def address_of_form(self, http: HttpRequest) -> str:
        names = () if self.form_class is None else self.form_class.base_fields
        query = urlencode([(name, value) for name in names for value in http.POST.getlist(name)])
        return f"{http.path}?{query}" if query and len(query) <= LONGEST_QUERY else http.path

    def parameters(self, form: forms.Form) -> list[tuple[str, Any]]:
        """Return the fields and values that are sent with the confirmation, so that the same act is done."""
        return [pair for name in form.fields for pair in _pairs(name, form[name].value())]

    def _has_values(self, request: Request) -> bool:
        return self.form_class is not None and any(name in request.query_params for name in self.form_class.base_fields)

    def _form(self, sent: Any) -> forms.Form | None:
        return None if self.form_class is None else self.form_class(sent)

    def _empty(self, request: Request) -> forms.Form | None:
        return None if self.form_class is None else self.form_class(initial=self.first_values(request))

    def _values(self, form: forms.Form | None) -> dict[str, Any]:
        return {} if form is None else form.cleaned_data


def _once(sent: Any) -> str:
    """Return the number of the form that was sent; "": it has none."""
    once = sent.get("once", "")
    return once if _ONCE.fullmatch(once) else ""


def _pairs(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return a field as the inputs that send it: a choice of several has an input for each."""
    return [(name, each) for each in value] if isinstance(value, list) else [(name, value)]


def _problems(sent: Any, act: Act, effects: Effects, *, stale: bool) -> dict[str, str]:
    """Return why the act is not done yet, by the field of the page that each problem concerns."""
    if effects.refused:
        return {"act": effects.refused}
    if stale:
        return {
            "act": "Nothing was done: what the act is about was changed or replaced since you looked. "
            "Check the dry run again and confirm it."
        }
    return confirmation.problems(sent, subject=act.subject, concerned=effects.concerned, threshold=act.threshold)

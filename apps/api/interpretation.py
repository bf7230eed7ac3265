"""Dry runs of interpretation rules: what scripts, webhooks and built-in rules give for an object. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies
from apps.api.answer import Answer
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.views import KubernetesView, warning
from apps.interpretation.service import interpretation
from apps.objects.configuration import configuration
from apps.objects.lua_syntax import check_scripts
from apps.objects.store import store
from controlplane.apimachinery.errors import ServiceUnavailable
from controlplane.insight import interpretation as insight
from controlplane.interpret import INTERPRETERS, Unanswered
from controlplane.kind import KINDS
from controlplane.kinds import INTERPRETER_CUSTOMIZATION
from controlplane.kinds.interpretation import KIND, RESOURCE, InterpretationStatus

T = TypeVar("T")

LONGEST_SECONDS = 40.0  # for all rules together; a webhook may take 30 s


def with_answers(ask: Callable[[], T]) -> T:
    """Return what a function returns once scripts and webhooks of users have answered its questions.

    Raises ServiceUnavailable if they have not within LONGEST_SECONDS.
    """
    ends = time.monotonic() + LONGEST_SECONDS
    while True:
        try:
            return ask()
        except Unanswered as error:
            left = ends - time.monotonic()
            if left <= 0:
                raise ServiceUnavailable(f"no answer within {LONGEST_SECONDS:g} s: {error}") from None
            interpretation().interpret(error.questions, patience=left)


class InterpretationView(KubernetesView):
    """Serves POST of an Interpretation. The answer is the Interpretation with its status."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope())

    def post(self, request: Request) -> Response:
        document, warnings = bodies.question(request, KIND)
        settings, now = configuration().settings(), store().now()
        asked = insight.decoded(document, settings=settings, now=now)
        draft = insight.draft(asked.spec, settings=settings, now=now)
        if draft is not None:
            check_scripts(KINDS[INTERPRETER_CUSTOMIZATION], draft)
        rules = INTERPRETERS if draft is None else INTERPRETERS.with_draft(draft)
        results = with_answers(lambda: insight.results(asked.spec, rules, now=now))
        head = {"kind": RESOURCE.kind, "apiVersion": RESOURCE.api_version}
        status = msgspec.to_builtins(InterpretationStatus(results))
        return warning(Response(Answer({**document, **head, "status": status}), status=201), warnings)

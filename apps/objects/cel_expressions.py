"""Expressions in CEL of admission policies and webhooks, run in the processes of `cel_pool`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from apps.objects.access import authorize_caller
from apps.objects.cel_pool import MAX_INPUT, Ended, cause_of, for_definitions, for_writes
from controlplane.admission.rights import MAX_QUESTIONS, asked_of
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause, ServiceUnavailable
from controlplane.kinds.template.admission_expressions import Written

Document = dict[str, Any]


def faults(written: Written) -> list[Cause]:
    """Return a cause for every expression that does not compile or has another type than it must have.

    Raises ServiceUnavailable if the expressions cannot be compiled.
    """
    if not (written.expressions or written.variables):
        return []
    call = {"do": "expressions", **written._asdict()}
    try:
        found = for_definitions().ask(call)
    except Ended as ended:
        field, text = ended.at
        if not text:
            raise ServiceUnavailable(f"the expressions cannot be compiled: {ended}") from ended
        return [invalid(field, text, f"the compilation {ended}")]
    if "error" in found:
        return [Cause("FieldValueInvalid", f"Invalid value: the expressions cannot be compiled: {found['error']}")]
    return [cause_of(*fault) for fault in found["faults"]]


def checked(digest: str, spec: Document, request: Mapping[str, Any], params: Sequence[Any]) -> list[Document]:
    """Return what a policy says about a request for each object of parameters (`admission_checks.checked`).

    Expressions that need more time or memory than they may have are an error of the policy.
    """
    call = {"do": "checks", "digest": digest, "params": params, **request}
    found = _asked(call, spec)
    return [found] * len(params) if "error" in found else list(found["answers"])


def matched(digest: str, conditions: Sequence[Document], request: Mapping[str, Any]) -> Document:
    """Return whether the matchConditions of a webhook match a request: `matches`, or `error`."""
    return _asked({"do": "matched", "digest": digest, **request}, {"matchConditions": conditions})


def _asked(call: Mapping[str, Any], spec: Document) -> Document:
    """Return the answer to a call. What expressions ask about rights is decided, and the call is repeated."""
    decisions: dict[str, tuple[bool, str]] = {}
    while True:
        found = _answered({**call, "decisions": decisions} if decisions else call, spec)
        questions = {one for answer in found.get("answers", (found,)) for one in answer.get("undecided", ())}
        if not questions:
            return found
        if len(decisions) + len(questions) > MAX_QUESTIONS or questions <= decisions.keys():
            return {"error": f"the expressions ask for more than {MAX_QUESTIONS} decisions of authorizer, or one twice"}
        for question in questions:
            caller, request = asked_of(orjson.loads(question), call["request"]["userInfo"])
            verdict = authorize_caller(caller, request)
            decisions[question] = (verdict.allowed, verdict.reason)


def _answered(call: Mapping[str, Any], spec: Document) -> Document:
    if len(orjson.dumps(call)) > MAX_INPUT:
        return {"error": f"an object with admission policies may have at most {MAX_INPUT // 2} bytes"}
    try:
        return for_writes().ask(call, also={"spec": spec})
    except Ended as ended:
        text = ended.at[1]
        return {"error": f"expression '{text}' resulted in error: {ended}" if text else str(ended)}

"""What the expressions of admission policies and webhooks say about a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controlplane.wire.cel import authorizer, environment
from controlplane.wire.cel.admission_types import values

Begins = Callable[[str, str], None]
Answer = dict[str, Any]

_MAX_MESSAGE: Final = 5 * 1024
_MAX_ANNOTATION: Final = 10 * 1024
_NO_KEY: Final = "no such key: "
_USED: Final = re.compile(r"(?<![\w.])variables\.\??([A-Za-z_]\w*)")
_CONVERSION: Final = re.compile(r"cannot convert (\w+) to (\w+)")


class Expressions:
    """Compiled expressions of a policy or a webhook, with its variables."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.asks = authorizer.AUTHORIZER in str(spec)  # whether any of them may ask what a user may do
        self._variables = {one["name"]: one["expression"] for one in spec.get("variables") or ()}
        self._programs: dict[tuple[str, tuple[str, ...]], Any] = {}

    def conditions(self, request: Evaluation) -> tuple[bool, str]:
        """Return whether all matchConditions are true, and the error of the first that has no value ("": none has).

        A condition that is false decides, also where another has no value.
        """
        error = ""
        for condition in self.spec.get("matchConditions") or ():
            try:
                if request.value(self, condition["expression"]) is not True:
                    return False, ""
            except ValueError as failed:
                error = error or resulted(condition["expression"], failed)
        return not error, error

    def program(self, text: str, names: tuple[str, ...]) -> Any:
        """Return a compiled expression. Its types were checked when it was written. Raises CompileError."""
        found = self._programs.get((text, names))
        if found is None:
            found = self._programs[text, names] = environment.compiled(environment.runner(names), text)
        return found

    def variable(self, name: str) -> str | None:
        """Return the expression of a variable; None: there is no such variable."""
        return self._variables.get(name)


class Evaluation:
    """The evaluation of expressions for one request, with one object of parameters or none.

    `undecided`: the questions about rights that have no answer yet. While there are any, a result means nothing.
    """

    def __init__(self, known: dict[str, Any], begins: Begins) -> None:
        self.known = known
        self.undecided: list[str] = []
        self._begins = begins
        self._variables: dict[str, Any] = {}
        self._failed: dict[str, str] = {}

    def value(self, expressions: Expressions, text: str) -> Any:
        """Return the value of an expression. Raises ValueError with the reason if it has none."""
        self._begins("", text)
        self._prepare(expressions, text)
        known = {**self.known, "variables": self._variables}
        try:
            return environment.run(expressions.program(text, tuple(known)), known)
        except ValueError as error:
            if (question := authorizer.undecided(str(error))) is not None:
                self.undecided.append(question)
            raise ValueError(self._said(str(error), text)) from error

    def without_authorizer(self) -> Evaluation:
        """Return the evaluation of expressions that may not ask what a user may do."""
        known = {name: value for name, value in self.known.items() if name not in authorizer.VARIABLES}
        return Evaluation(known, self._begins)

    def _prepare(self, expressions: Expressions, text: str) -> None:
        """Evaluate the variables that an expression names. The error of one is reported where its value is used."""
        for name in _USED.findall(text):
            inner = expressions.variable(name)
            if inner is None or name in self._variables or name in self._failed:
                continue
            self._failed[name] = "is defined by itself"  # until it is known
            try:
                self._variables[name] = self.value(expressions, inner)
                del self._failed[name]
            except ValueError as error:
                self._failed[name] = str(error)

    def _said(self, message: str, text: str) -> str:
        """Return the message of an error in the words of Kubernetes."""
        if f"undeclared reference to '{authorizer.AUTHORIZER}" in message:
            return f"no such attribute(s): {authorizer.AUTHORIZER}"
        name = message.removeprefix(_NO_KEY)
        if name in self._failed and message.startswith(_NO_KEY):
            return f'composited variable "{name}" fails to evaluate: {self._failed[name]}'
        if message == "Applying SELECT to non-message type":  # a field of null
            for root in ("object", "oldObject", "params", "namespaceObject"):
                field = re.search(rf"(?<![\w.]){root}\.([A-Za-z_]\w*)", text)
                if self.known.get(root, "") is None and field:
                    return f"{_NO_KEY}{field[1]}"
        return _CONVERSION.sub(r"type conversion error from '\1' to '\2'", message)


def resulted(expression: str, error: ValueError) -> str:
    """Return why an expression has no value, as messages of Kubernetes say it."""
    return f"expression '{expression}' resulted in error: {error}"


def checked(expressions: Expressions, call: Mapping[str, Any], params: Sequence[Any], begins: Begins) -> list[Answer]:
    """Return what a policy says about a request for each object of parameters: an answer with

    - `matches`: whether its conditions match, or `error`: why that is not known
    - `denied`: for each validation that is not true its `index`, `message` and `reason`, or `error`: why it has none
    - `annotations`: (key, value) for the audit, or (key, None, error)
    - `undecided`: the questions about rights that `call["decisions"]` has to answer first; it is then the only field
    """
    known = values(call, asks=expressions.asks)
    return [_decided(Evaluation({**known, "params": param}, begins), expressions, _checked) for param in params]


def _decided(request: Evaluation, expressions: Expressions, ask: Callable[[Expressions, Evaluation], Answer]) -> Answer:
    """Return an answer, or the questions about rights that it depends on."""
    answer = ask(expressions, request)
    return {"undecided": request.undecided} if request.undecided else answer


def _checked(expressions: Expressions, request: Evaluation) -> Answer:
    matches, error = expressions.conditions(request)
    if not matches:
        return {"error": error} if error else {"matches": False}
    spec = expressions.spec
    quiet = request.without_authorizer() if expressions.asks else request
    denied = [
        {"index": index, **answer}
        for index, one in enumerate(spec.get("validations") or ())
        if (answer := _denied(expressions, request, quiet, one)) is not None
    ]
    notes = [_note(expressions, quiet, one) for one in spec.get("auditAnnotations") or ()]
    return {"matches": True, "denied": denied, "annotations": [note for note in notes if note]}


def _denied(
    expressions: Expressions, request: Evaluation, quiet: Evaluation, stated: Mapping[str, Any]
) -> Answer | None:
    """Return why a validation denies the request; None: it is true. `quiet` makes its message."""
    text = stated["expression"]
    try:
        if request.value(expressions, text) is True:
            return None
    except ValueError as error:
        return {"error": resulted(text.strip(), error)}
    message = _message(expressions, quiet, stated.get("messageExpression") or "")
    message = message or str(stated.get("message") or "").strip() or f"failed expression: {text.strip()}"
    return {"message": message, "reason": stated.get("reason") or "Invalid"}


def _message(expressions: Expressions, request: Evaluation, text: str) -> str:
    """Return the message that an expression makes; "": it makes none that can be used."""
    if not text:
        return ""
    try:
        found = request.value(expressions, text)
    except ValueError:
        return ""
    usable = isinstance(found, str) and len(found) <= _MAX_MESSAGE and "\n" not in found.strip()
    return found.strip() if usable else ""


def _note(expressions: Expressions, request: Evaluation, stated: Mapping[str, Any]) -> list[Any] | None:
    """Return key and value of an audit annotation, or key, None and the error; None: there is nothing to note."""
    try:
        found = request.value(expressions, stated["valueExpression"])
    except ValueError as error:
        return [stated["key"], None, resulted(stated["valueExpression"], error)]
    text = found.strip() if isinstance(found, str) else ""
    return [stated["key"], text[:_MAX_ANNOTATION]] if text else None


def matched(hook: Expressions, call: Mapping[str, Any], begins: Begins) -> Answer:
    """Return whether the matchConditions of a webhook match a request: `matches`, `error`, or `undecided`."""
    return _decided(Evaluation(values(call, asks=hook.asks), begins), hook, _matched)


def _matched(hook: Expressions, request: Evaluation) -> Answer:
    matches, error = hook.conditions(request)
    return {"error": error} if error else {"matches": matches}

"""Rules of users for a kind: scripts of ResourceInterpreterCustomizations and calls of webhooks [resource-interpreter].

A rule of a user is not run here. `Interpreters` looks its answer up by the question, which consists of the rule and of
the documents it is about. An answer that is not known yet is an exception, `Unanswered`, with the question: the
process that decides has the question answered and decides again. So a decision depends only on its arguments and on
answers, which are data as well.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from controlplane.interpret import results
from controlplane.interpret.interpreter import Document, Interpreter
from controlplane.kinds.interpreter_customization import OPERATIONS, InterpreterCustomization
from controlplane.kinds.interpreter_webhook import Webhook

REMEMBERED_BYTES = 64 * 2**20  # of answers
DEPENDENCIES: Final = "InterpretDependency"

T = TypeVar("T")
R = TypeVar("R")


class Script(NamedTuple):
    """A script of a customization."""

    customization: str
    operation: str
    text: str

    @property
    def shown(self) -> str:
        return f"customization {self.customization}"


class Hook(NamedTuple):
    """A webhook that interprets a kind. `configuration` is the ResourceInterpreterWebhookConfiguration it is in."""

    configuration: str
    operation: str
    webhook: Webhook

    @property
    def shown(self) -> str:
        return f"webhook {self.webhook.name} of {self.configuration}"


class Question(msgspec.Struct, frozen=True):
    """What a rule of a user is asked. `arguments`: those of the operation, as JSON. `key` identifies the question."""

    rule: Script | Hook
    arguments: bytes
    key: str


class Answer(msgspec.Struct, frozen=True):
    """The results of a rule as JSON values, or the reason why there are none (`error`)."""

    values: tuple[Any, ...] = ()
    error: str = ""


class Unanswered(Exception):
    """Answers that a decision needs are not known yet. `questions`: those that were found so far."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(", ".join(sorted({f"{each.rule.operation} by {each.rule.shown}" for each in questions})))
        self.questions = tuple(questions)


class Rule(Protocol):
    """What answers for an operation of a kind. `shown`: it, for people."""

    @property
    def operation(self) -> str: ...

    @property
    def shown(self) -> str: ...


class InterpretationFailed(ValueError):
    """A rule failed, or its result cannot be used. `operation`: what it was asked for."""

    def __init__(self, rule: Rule, error: str) -> None:
        super().__init__(f"{rule.operation} by {rule.shown} failed: {error}")
        self.operation = rule.operation


class Interpreters:
    """The interpreters of all kinds: what is known of them here, and the rules of users in force, which come first.

    Rules and answers are replaced and added by the process that runs decisions; `revision` grows with every change of
    the rules. Any thread may read it; one at a time may change it.
    """

    def __init__(self, known: dict[tuple[str, str], Interpreter], none: Interpreter) -> None:
        self._known, self._none = known, none
        self._scripts: dict[tuple[str, str], dict[str, tuple[Script, ...]]] = {}
        self._hooks: tuple[tuple[str, Webhook], ...] = ()
        self._of: dict[tuple[str, str], Interpreter] = known
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._customizations: tuple[InterpreterCustomization, ...] = ()
        self.any_for_dependencies = False  # whether a rule of a user says what objects need, which may be of any kind
        self.revision = 0

    def of(self, api_version: str, kind: str) -> Interpreter:
        """Return the interpreter of a kind. All operations of a kind without rules are None."""
        found = self._of.get((api_version, kind))
        if found is not None:
            return found
        if not self._hooks and (api_version, kind) not in self._scripts:
            return self._none
        made = self._of[api_version, kind] = self._customized(api_version, kind)
        return made

    def set_rules(
        self, customizations: Iterable[InterpreterCustomization], hooks: Iterable[tuple[str, Webhook]] = ()
    ) -> None:
        """Replace the rules of users. `hooks`: webhooks with the names of their configurations.

        If several customizations have a script for the same operation of a kind, the first by name counts; scripts for
        dependencies all count.
        """
        customizations = list(customizations)
        scripts: dict[tuple[str, str], dict[str, tuple[Script, ...]]] = {}
        for customization in sorted(customizations, key=lambda each: each.metadata.name):
            target = customization.spec.target
            of_kind = scripts.setdefault((target.api_version, target.kind), {})
            for operation, text in customization.scripts():
                script = Script(customization.metadata.name, operation, text)
                if operation == DEPENDENCIES:
                    of_kind[operation] = (*of_kind.get(operation, ()), script)
                else:
                    of_kind.setdefault(operation, (script,))
        self._customizations = tuple(customizations)
        self._scripts, self._hooks = scripts, tuple(sorted(hooks, key=lambda each: (each[0], each[1].name)))
        self.any_for_dependencies = any(DEPENDENCIES in of_kind for of_kind in scripts.values()) or any(
            webhook.offers(DEPENDENCIES) for _, webhook in self._hooks
        )
        customized = set(scripts) if not self._hooks else {*scripts, *self._known}
        self._of = {key: rules for key, rules in self._known.items() if key not in customized}
        self.revision += 1

    def with_draft(self, draft: InterpreterCustomization) -> Interpreters:
        """Return interpreters with a customization that is not stored. It replaces stored scripts for its operations.

        They know the same answers, and learn those that these learn.
        """
        made = Interpreters(self._known, self._none)
        made._answers = self._answers
        made.set_rules([*self._customizations, draft], self._hooks)
        target = draft.spec.target.api_version, draft.spec.target.kind
        for operation, text in draft.scripts():
            made._scripts[target][operation] = (Script(draft.metadata.name, operation, text),)
        return made

    def rule_of(self, api_version: str, kind: str, operation: str) -> str:
        """Return which rule an operation of a kind has, for people; "": it has none."""
        scripts = self._scripts.get((api_version, kind), {}).get(operation, ())
        rules: tuple[Script | Hook, ...] = scripts or self._hook(api_version, kind, operation)
        if rules:
            return ", ".join(rule.shown for rule in rules)
        found = self._known.get((api_version, kind), self._none)
        return "" if getattr(found, _FIELDS[operation][0]) is None else f"what is known of {api_version} {kind}"

    def learn(self, question: Question, answer: Answer) -> None:
        """Remember an answer. The oldest answers are forgotten beyond REMEMBERED_BYTES."""
        text = msgspec.json.encode(answer)
        self._size += len(text) - len(self._answers.pop(question.key, b""))
        self._answers[question.key] = text
        while self._size > REMEMBERED_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._size -= len(oldest)

    def forget(self, keys: Iterable[str]) -> None:
        """Forget answers that hold for a limited time, such as failures and those of webhooks."""
        for key in keys:
            self._size -= len(self._answers.pop(key, b""))

    def knows(self, question: Question) -> bool:
        return question.key in self._answers

    def _customized(self, api_version: str, kind: str) -> Interpreter:
        found = self._known.get((api_version, kind), self._none)
        scripts = self._scripts.get((api_version, kind), {})
        rules: dict[str, Any] = {}
        for operation in OPERATIONS:
            of_operation: tuple[Script | Hook, ...] = scripts.get(operation) or self._hook(api_version, kind, operation)
            if of_operation:
                field, rule = _FIELDS[operation]
                rules[field] = partial(rule, partial(self._answered, of_operation))
        return msgspec.structs.replace(found, **rules) if rules else found

    def _hook(self, api_version: str, kind: str, operation: str) -> tuple[Hook, ...]:
        for configuration, webhook in self._hooks:
            if webhook.covers(api_version, kind, operation):
                return (Hook(configuration, operation, webhook),)
        return ()

    def _answered(self, rules: Sequence[Script | Hook], *arguments: Any) -> list[tuple[Script | Hook, tuple[Any, ...]]]:
        """Return each rule with its results. Raises Unanswered, and InterpretationFailed if a rule failed."""
        text = msgspec.json.encode(arguments, order="sorted")
        questions = [Question(rule, text, _key(rule, text)) for rule in rules]
        texts = [self._answers.get(question.key) for question in questions]
        missing = [question for question, known in zip(questions, texts, strict=True) if known is None]
        if missing:
            raise Unanswered(missing)
        found = []
        for question, known in zip(questions, texts, strict=True):
            answer = msgspec.json.decode(known or b"", type=Answer)
            if answer.error:
                raise InterpretationFailed(question.rule, answer.error)
            found.append((question.rule, answer.values))
        return found


def for_each(function: Callable[[T], R], values: Iterable[T]) -> list[R | Exception]:
    """Return the result of a function for each value, or the Unanswered or ValueError that it raised."""
    found: list[R | Exception] = []
    for value in values:
        try:
            found.append(function(value))
        except (Unanswered, ValueError) as error:
            found.append(error)
    return found


def _key(rule: Script | Hook, arguments: bytes) -> str:
    digest = hashlib.blake2b(arguments, digest_size=16)
    digest.update(msgspec.json.encode(rule))
    return digest.hexdigest()


Ask = Callable[..., list[tuple[Script | Hook, tuple[Any, ...]]]]


def _one(ask: Ask, read: Callable[..., R], *arguments: Any, about: tuple[Any, ...] = ()) -> R:
    """Return the answer of the only rule of an operation. Raises InterpretationFailed if `read` refuses the answer."""
    ((rule, values),) = ask(*arguments)
    try:
        return read(*about, *values)
    except (TypeError, ValueError) as error:
        raise InterpretationFailed(rule, str(error)) from error


def _dependencies(ask: Ask, doc: Document) -> Any:
    found: dict[str, Any] = {}
    for rule, values in ask(doc):
        try:
            found |= {str(each): each for each in results.dependencies(*values)}
        except (TypeError, ValueError) as error:
            raise InterpretationFailed(rule, str(error)) from error
    return [found[text] for text in sorted(found)]


_FIELDS: dict[str, tuple[str, Callable[..., Any]]] = {
    "InterpretReplica": ("replicas", lambda ask, doc: results.in_namespace(_one(ask, results.demand, doc), doc)),
    "InterpretComponent": ("components", lambda ask, doc: _one(ask, results.components, doc)),
    "ReviseReplica": ("revise", lambda ask, doc, count: _one(ask, results.same_object, doc, count, about=(doc,))),
    "Retain": ("retain", lambda ask, doc, held: _one(ask, results.same_object, doc, held, about=(doc,))),
    "AggregateStatus": (
        "aggregate",
        lambda ask, doc, items, now: _one(ask, results.status_in, doc, results.plain_items(items)),
    ),
    "InterpretStatus": ("reflect", lambda ask, doc: _one(ask, results.status, doc)),
    "InterpretHealth": ("healthy", lambda ask, doc: _one(ask, results.health, doc)),
    DEPENDENCIES: ("dependencies", _dependencies),
}

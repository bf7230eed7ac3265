"""Run: one call of the command, with its options, its connection and its output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import typer

from apps.command import exit_codes, kubeconfig, output
from apps.command.api import Api
from apps.command.errors import CommandError, Document, usage
from apps.command.kubeconfig import Access
from apps.command.kubectl import Attempt, kubectl_line
from apps.command.output import Output

EFFECTS: Final = "effects: "  # with this begins the warning of the API about what a write does to the workloads

MOST_SHOWN: Final = 10  # of many writes, the effects and kubectl lines of the first are printed
NO_REASON: Final = "…"  # stands for the reason in a dry run, and in a kubectl line, as long as there is none
LARGE: Final = 10  # workloads; an act that concerns more is confirmed by typing its subject, as on the pages


class Run:
    """One call of the command. The API is connected to when `api` is first read."""

    def __init__(
        self,
        *,
        kubeconfig: Path | None = None,
        context: str = "",
        namespace: str = "",
        output: str = Output.TABLE,
        yes: bool = False,
        dry_run: bool = False,
        reason: str = "",
    ) -> None:
        self.chosen_namespace = namespace  # "": the option was not given
        self.how = str(output)
        self.dry_run = dry_run
        self.reason = reason.strip()  # of the act; a terminal asks for it
        self._kubeconfig, self._context, self._yes = kubeconfig, context, yes
        self._warned: dict[str, None] = {}  # warnings that were printed
        self._effects: dict[str, None] = {}  # what the act does, as the API warns; printed before the question
        self.concerned = 0  # workloads that the act moves, stops or leaves without a place, as far as is known
        self.effects_known = False  # they were printed, or a preview has said more, or that they are not known

    @cached_property
    def out(self) -> Any:
        return output.console()

    @cached_property
    def err(self) -> Any:
        return output.console(stderr=True)

    @cached_property
    def _access(self) -> Access:
        return kubeconfig.read(self._kubeconfig, self._context)

    @cached_property
    def api(self) -> Api:
        return Api(self._access, warn=self._warn, reason=self.reason)

    def _warn(self, text: str) -> None:
        """Print a warning of the API, each once. What an act does is printed before its question."""
        if text.startswith(EFFECTS):
            self._effects[text.removeprefix(EFFECTS)] = None
        elif text not in self._warned:
            self._warned[text] = None
            self.remark(f"Warning: {text}", style="yellow")

    @property
    def has_effects(self) -> bool:
        """Test whether the API has warned about what the act does."""
        return bool(self._effects)

    def _show_effects(self) -> None:
        """Print what the API warned about; nothing if a preview has said more."""
        if self.effects_known:
            return
        for text in list(self._effects)[:MOST_SHOWN] or ["none on workloads that run now"]:
            self.remark(f"Effects: {text}", style="bold")
        if (more := len(self._effects) - MOST_SHOWN) > 0:
            self.remark(f"… and {more} more")
        self.effects_known = True

    @property
    def namespace(self) -> str:
        """The namespace of -n, else of the context."""
        return self.chosen_namespace or self._access.namespace

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def is_structured(self) -> bool:
        """Test whether the output is for programs."""
        return self.how in (Output.JSON, Output.YAML)

    def say(self, text: Any = "", *, style: str = "") -> None:
        """Print a part of the answer."""
        self.out.print(text, style=style or None)

    def remark(self, text: Any, *, style: str = "") -> None:
        """Print what is not a part of the answer: warnings, progress, questions."""
        self.err.print(text, style=style or None)

    def show(self, document: Document) -> bool:
        """Print a document if the output is JSON or YAML. Return whether it was printed."""
        if self.is_structured:
            self.out.print(output.structured(document, self.how))
        return self.is_structured

    def done(self, text: str, document: Document, *, watch: str = "") -> None:
        """Report what was done: a sentence, or the object as the API returned it.

        watch: the command that shows what becomes of it; "": there is nothing to watch.
        """
        if not self.show(document):
            self.say(text)
        if watch:
            self.remark(f"watch it: {watch}")

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table."""
        self.say(output.table(columns, rows, now=self.now))

    def table(self, path: str, *, namespaces: bool = False, **query: Any) -> None:
        """Print a list of the API as kubectl prints it, or as JSON or YAML."""
        if self.is_structured:
            self.show(self.api.items(path, **query))
            return
        found = self.api.table(path, **query)
        columns, rows = output.rows_of(found, wide=self.how == Output.WIDE, namespaces=namespaces)
        if not rows:
            self.remark("none")
            return
        self.rows(columns, rows)

    @property
    def reason_or_blank(self) -> str:
        """The reason, or what stands for it in a dry run."""
        return self.reason or NO_REASON

    def require_reason(self) -> None:
        """Raise CommandError if the act needs a reason that was not given, and nothing will ask for it."""
        if not self.reason and self._yes and not self.dry_run:
            raise _without_reason()

    def confirm(
        self,
        question: str,
        *,
        subject: str = "",
        always: bool = False,
        back: bool = False,
        same: Sequence[Attempt | str] | None = None,
    ) -> None:
        """Return if the user confirms an act: its effects and its kubectl lines are shown before.

        With --dry-run the command ends here, successfully; --yes confirms, and needs --reason. A terminal asks for a
        reason that was not given.

        question: "": the act is urgent and moves nothing, so that its reason is enough.
        subject: what is typed to confirm an act that concerns more than LARGE workloads, or, with `always`, every one.
        "": it is confirmed as every other one.
        back: the act takes another one back, so it may be done without a reason.
        same: the requests, or commands, that do the same. None: the writes that were tried.

        Raises CommandError if the answer is no, if no terminal can ask, or if the reason is missing.
        """
        self._show_effects()
        self._show_kubectl(self.api.tried if same is None else same)
        if self.dry_run:
            self.remark("dry run: nothing was changed")
            raise typer.Exit(exit_codes.OK.code)
        asks = sys.stdin.isatty() and not self._yes
        needed = not self.reason and not back
        if question and not self._yes and not asks:
            raise CommandError(
                "nothing was changed, because no terminal can confirm",
                code=exit_codes.NOT_CONFIRMED,
                advice=f"repeat the command with --yes{' and --reason' if needed else ''}",
            )
        if needed:
            self._set_reason(self._answer("Reason:") if asks else "")
        if question and asks:
            self._ask(question, subject if always or self.concerned > LARGE else "")

    def _ask(self, question: str, typed: str) -> None:
        many = f"{self.concerned} workloads are concerned: " if self.concerned > LARGE else ""
        answer = self._answer(f"{question} {f'{many}type {typed} to confirm:' if typed else '[y/N]'}")
        if answer != typed if typed else answer.lower() not in ("y", "yes"):
            raise CommandError("not confirmed, nothing was changed", code=exit_codes.NOT_CONFIRMED)

    def _answer(self, question: str) -> str:
        self.err.print(f"{question} ", end="")
        return sys.stdin.readline().strip()

    def _set_reason(self, reason: str) -> None:
        if not reason:
            raise _without_reason()
        self.reason = self.api.reason = reason

    def _show_kubectl(self, same: Sequence[Attempt | str]) -> None:
        if self._yes and not self.dry_run:
            return  # a script does not read it
        for one in same[:MOST_SHOWN]:
            self.remark(f"as kubectl: {one if isinstance(one, str) else kubectl_line(one)}")
        if (more := len(same) - MOST_SHOWN) > 0:
            self.remark(f"… and {more} more")


def _without_reason() -> CommandError:
    return usage(
        "--reason is missing, nothing was changed",
        advice='repeat the command with --reason "…": the change log keeps it with your name',
    )

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
from apps.command.errors import CommandError, Document
from apps.command.kubeconfig import Access
from apps.command.output import Output

EFFECTS: Final = "effects: "  # with this begins the warning of the API about what a write does to the workloads

MOST_EFFECTS: Final = 10  # of many orders, those of the first are printed
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
    ) -> None:
        self.chosen_namespace = namespace  # "": the option was not given
        self.how = str(output)
        self.dry_run = dry_run
        self._kubeconfig, self._context, self._yes = kubeconfig, context, yes
        self._warned: dict[str, None] = {}  # warnings that were printed
        self._effects: dict[str, None] = {}  # what the act does, as the API warns; printed before the question
        self.concerned = 0  # workloads that the act moves, stops or leaves without a place, as far as is known
        self.effects_known = False  # they were printed, or a preview has said more

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
        return Api(self._access, warn=self._warn)

    def _warn(self, text: str) -> None:
        """Print a warning of the API, each once. What an act does is printed before its question."""
        if text.startswith(EFFECTS):
            self._effects[text.removeprefix(EFFECTS)] = None
        elif text not in self._warned:
            self._warned[text] = None
            self.remark(f"Warning: {text}", style="yellow")

    def _show_effects(self) -> None:
        if not self.effects_known:
            for text in list(self._effects)[:MOST_EFFECTS]:
                self.remark(f"Effects: {text}", style="bold")
            if (more := len(self._effects) - MOST_EFFECTS) > 0:
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

    def done(self, text: str, document: Document) -> None:
        """Report what was done: a sentence, or the object as the API returned it."""
        self._show_effects()
        if not self.show(document):
            self.say(text)

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

    def confirm(self, question: str, *, subject: str = "") -> None:
        """Return if the user confirms. With --dry-run the command ends here, successfully; --yes confirms.

        subject: what is typed to confirm an act that concerns more than LARGE workloads. "": such an act is confirmed
        as every other one.

        Raises CommandError if the answer is no, or if no terminal can ask.
        """
        self._show_effects()
        if self.dry_run:
            self.remark("dry run: nothing was changed")
            raise typer.Exit(exit_codes.OK.code)
        if self._yes:
            return
        if not sys.stdin.isatty():
            raise CommandError(
                "nothing was changed, because no terminal can confirm",
                code=exit_codes.NOT_CONFIRMED,
                advice="repeat the command with --yes",
            )
        typed = subject if self.concerned > LARGE else ""
        many = f"{self.concerned} workloads are concerned: type {typed} to confirm:" if typed else "[y/N]"
        self.err.print(f"{question} {many} ", end="")
        answer = sys.stdin.readline().strip()
        if answer != typed if typed else answer.lower() not in ("y", "yes"):
            raise CommandError("not confirmed, nothing was changed", code=exit_codes.NOT_CONFIRMED)

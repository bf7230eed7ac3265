"""The host of the members process: the database, and the settings and rules that are stored in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import OperationalError, close_old_connections

from apps.interpretation.service import interpretation
from apps.objects import origin
from apps.objects.configuration import Configuration
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.failures import keep
from controlplane.engine.failure import Failure
from controlplane.interpret.customized import Question
from controlplane.settings import Settings


class DatabaseHost:
    """A host whose store is the database."""

    away: type[Exception] = OperationalError

    def __init__(self, store: DjangoStore, configuration: Configuration) -> None:
        self.store = store
        self.configuration = configuration

    def seen(self) -> object:
        """Return a value that is the same as long as no object was written."""
        return origin.seen()

    def settings(self, *, reread: bool = False) -> Settings:
        """Return the settings in force. `reread`: read them again first."""
        return self.configuration.settings(reread=reread)

    def interpret(self, questions: Sequence[Question]) -> bool:
        """Send questions to scripts and webhooks. Return whether the answer to one of them is known now."""
        return interpretation().interpret(questions)

    def keep(self, failure: Failure) -> None:
        """Log a decision that raised an exception, and write its inputs to a file."""
        keep(failure)

    def connected(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, then close database connections of this thread that are broken."""
        try:
            return function(*arguments)
        finally:
            close_old_connections()

    def cause(self, error: Exception) -> str:
        """Return why the database is away, without secrets."""
        return cause(error)

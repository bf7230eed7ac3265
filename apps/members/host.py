"""What pumps and answers to questions need of the process that they run in.

The members process works on the database (`apps.members.database`), the agent of a Pull member on a store in memory
(`apps.agent`). Nothing that both of them run imports Django.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from controlplane.engine.failure import Failure
from controlplane.engine.state import Claim, Store
from controlplane.interpret.customized import Question
from controlplane.settings import Settings


class MemberStore(Store, Protocol):
    """A store whose claims last until the members have answered."""

    def extend(self, claims: Sequence[tuple[Claim, datetime]], *, lease_seconds: float) -> datetime:
        """Extend claims, given with the times at which they end, to `lease_seconds` from now; return now.

        A claim that has ended is not extended.
        """


class Host(Protocol):
    """The process that runs pumps. `away`: the exception that the store raises while it cannot be reached."""

    @property
    def store(self) -> MemberStore: ...

    @property
    def away(self) -> type[Exception]: ...

    def seen(self) -> object:
        """Return a value that is the same as long as nothing was written to the store; None: it is not known."""

    def settings(self, *, reread: bool = False) -> Settings:
        """Return the settings in force. `reread`: read them again first."""

    def interpret(self, questions: Sequence[Question]) -> bool:
        """Send questions to scripts and webhooks. Return whether the answer to one of them is known now."""

    def keep(self, failure: Failure) -> None:
        """Log a decision that raised an exception."""

    def connected(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that uses the store, and return its result. Called in a thread."""

    def cause(self, error: Exception) -> str:
        """Return why the store is away, without secrets."""

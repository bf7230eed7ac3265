"""The exit codes of the command, and their meaning. Each command raises the code that applies, as `moving.drain` does.

`docs/command.md` has the same table, and a test compares both.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ExitCode(NamedTuple):
    """An exit code, its name and its meaning."""

    code: int
    name: str
    meaning: str


OK: Final = ExitCode(0, "ok", "The command did what was asked.")
PROBLEM: Final = ExitCode(
    1, "problem", "The answer is a problem: obstacles, a failed check, a drain or failback that failed or was stopped."
)
USAGE: Final = ExitCode(2, "usage", "An option or argument is wrong, or the reason is missing. Nothing was changed.")
REFUSED: Final = ExitCode(3, "refused", "The API refuses the request: an invalid value, a conflict.")
NOT_FOUND: Final = ExitCode(4, "not found", "An object, a context or a file does not exist.")
DENIED: Final = ExitCode(5, "denied", "The login is missing, has expired, or may not do this.")
UNREACHABLE: Final = ExitCode(6, "unreachable", "The API does not answer, or cannot process requests now.")
NOT_CONFIRMED: Final = ExitCode(7, "not confirmed", "The act was not confirmed. Nothing was changed.")
TIMED_OUT: Final = ExitCode(8, "timed out", "The end was not reached within --timeout. What was started continues.")
INTERRUPTED: Final = ExitCode(130, "interrupted", "Ctrl-C. What was started on the server continues.")

ALL: Final = (OK, PROBLEM, USAGE, REFUSED, NOT_FOUND, DENIED, UNREACHABLE, NOT_CONFIRMED, TIMED_OUT, INTERRUPTED)

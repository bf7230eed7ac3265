"""What is printed again and again by `-w`: news only, and through a time without the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from apps.command import exit_codes, follow
from apps.command.errors import CommandError
from apps.command.run import Run

AWAY = CommandError("https://lifeboat cannot be reached: refused", code=exit_codes.UNREACHABLE)


class Ended(Exception):
    """The reader presses Ctrl-C."""


def answers(*given: str | Exception) -> Callable[[], str]:
    """Return a function that gives these answers one after the other, and then ends the reading."""
    following: Iterator[str | Exception] = iter((*given, Ended()))

    def answer() -> str:
        found = next(following)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def followed(*given: str | Exception) -> None:
    with pytest.raises(Ended):
        follow.follow(Run(), answers(*given), every=0.001)


def test_in_a_pipe_only_news_is_printed_again(capsys: pytest.CaptureFixture[str]) -> None:
    first = "2 queued.\nAs of 21:05:03Z (0s ago)\nweb   21:05:01Z (in 9s)"
    older = "2 queued.\nAs of 21:05:05Z (0s ago)\nweb   21:05:01Z (in 11s)"

    followed(first, older, "1 queued.\nAs of 21:05:07Z (0s ago)", older.replace("11s", "3h5m"))

    printed = capsys.readouterr().out
    assert printed == f"{first}\n1 queued.\nAs of 21:05:07Z (0s ago)\n{older.replace('11s', '3h5m')}\n"


def test_an_api_that_is_away_for_a_while_ends_no_watching(capsys: pytest.CaptureFixture[str]) -> None:
    followed("2 queued.", AWAY, AWAY, "2 queued.", AWAY, "1 queued.")

    printed = capsys.readouterr()
    assert printed.out == "2 queued.\n1 queued.\n"
    assert printed.err == 2 * f"{AWAY.message}; it is asked again\n"


def test_an_api_that_was_never_reached_ends_the_command() -> None:
    with pytest.raises(CommandError):
        follow.follow(Run(), answers(AWAY), every=1)

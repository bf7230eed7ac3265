"""Log lines: what a library repeats several times a second is logged once in a while."""

import logging
import time

import pytest

from config.logging import Seldom


def test_a_repeated_message_passes_once_in_its_time_and_others_are_not_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    seldom = Seldom(30)

    def passes(message: str, *values: object) -> bool:
        return seldom.filter(logging.LogRecord("x", logging.ERROR, "x.py", 1, message, values, None))

    assert passes("cannot connect: %s", "first")
    assert not passes("cannot connect: %s", "second")
    assert passes("ended")
    moment[0] += 30
    assert passes("cannot connect: %s", "third")

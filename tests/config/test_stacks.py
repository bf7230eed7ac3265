"""The stacks of a process that hangs: they are in its log, and in the message of a test whose wait has failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import Processes, until

HANGS = """
import threading, config

def waits_for_ever():
    print("hangs", flush=True)
    threading.Event().wait()

threading.Thread(target=waits_for_ever).start()
"""


def test_a_failed_wait_shows_the_stacks_of_the_processes_that_a_test_started(tmp_path: Path) -> None:
    with Processes(tmp_path, os.environ) as processes:
        hanging = processes.start("hanging", ["-c", HANGS], says="hangs")

        with pytest.raises(AssertionError, match=r"not within 0 s: never\n(.|\n)* in waits_for_ever\n"):
            until(never, within=0)

        assert hanging.poll() is None


def never() -> bool:
    return False

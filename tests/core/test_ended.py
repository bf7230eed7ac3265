"""Objects that have ended are recognised by their status, whatever a member reports as one."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.interpret import interpreter_for

COMPLETE = {"type": "Complete", "status": "True"}


@pytest.mark.parametrize(
    ("kind", "status", "finished"),
    [
        ("Job", {"conditions": [COMPLETE]}, True),
        ("Job", {"conditions": [{**COMPLETE, "type": "Failed"}]}, True),
        ("Job", {"conditions": [{**COMPLETE, "status": "False"}]}, False),
        ("Job", {"active": 1}, False),
        ("Job", None, False),
        ("Job", {"conditions": "all is well"}, False),
        ("Job", {"conditions": 7}, False),
        ("Job", {"conditions": [None]}, False),
        ("CronJob", {"conditions": [COMPLETE]}, False),
    ],
)
def test_a_job_has_finished_when_it_says_so(kind: str, status: Any, finished: bool) -> None:
    assert interpreter_for("batch/v1", kind).has_finished(status) == finished


@pytest.mark.parametrize(("phase", "finished"), [("Succeeded", True), ("Failed", False), ("Running", False)])
def test_a_pod_that_failed_is_replaced(phase: str, finished: bool) -> None:
    assert interpreter_for("v1", "Pod").has_finished({"phase": phase}) == finished

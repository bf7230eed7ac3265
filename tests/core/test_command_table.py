"""Tables of the command on terminals of any width."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from apps.command import output
from apps.command.program import ordered
from apps.command.table import Table

NOW = datetime(2026, 3, 1, 3, 12, 0, tzinfo=UTC)
COLUMNS = ("Cluster", "State", "Since", "Workloads", "Why")
WHY = "Cannot connect to host 10.0.0.1:6443 ssl:default [Connect call failed]"
ROWS = [["member1", "NotReady", "2026-03-01T03:08:00Z", 40, WHY], ["member2", "Ready", None, 3, ""]]


def printed(width: int) -> list[str]:
    return [line.plain for line in Table(COLUMNS, ROWS, now=NOW).lines(width)]


def test_a_wide_terminal_shows_each_row_on_a_line_with_its_times() -> None:
    head, first, second = printed(140)

    assert head.split() == ["CLUSTER", "STATE", "SINCE", "WORKLOADS", "WHY"]
    assert first == f"member1   NotReady   03:08:00Z (4m ago)   40          {WHY}"
    assert second.split() == ["member2", "Ready", "-", "3", "-"]


def test_a_narrow_terminal_shows_texts_below_their_rows_and_cuts_nothing_off() -> None:
    assert printed(60) == [
        "CLUSTER  STATE     SINCE   WORKLOADS",
        "member1  NotReady  4m ago  40",
        "  why: Cannot connect to host 10.0.0.1:6443 ssl:default",
        "    [Connect call failed]",
        "member2  Ready     -       3",
    ]


@pytest.mark.parametrize("width", [10, 20, 40, 80, 120])
def test_every_word_is_there_at_every_width(width: int) -> None:
    text = " ".join(printed(width))

    assert {*WHY.split(), "member1", "NotReady", "40", "member2"} <= set(text.split())


@pytest.mark.parametrize("how", ["table", "text", "json", "yaml"])
def test_a_text_of_a_user_sends_no_commands_to_the_terminal(how: str) -> None:
    console, text = output.console(), "\x1b]0;title\x07\x1b[2J\x9b31m\rmember1"
    shown = {"table": Table(("Why",), [[text]], now=NOW), "text": text}.get(how) or output.structured({"a": text}, how)

    with console.capture() as captured:
        console.print(shown)
    printed = captured.get()

    assert "[2J" in printed
    assert not {"\x1b", "\x07", "\r", "\x9b"} & set(printed)
    assert how != "json" or json.loads(printed) == {"a": text}


def test_a_text_of_several_lines_makes_no_row() -> None:
    lines = Table(COLUMNS, [["member1", "Ready", None, 0, "one\nmember2   Ready\r\nthree"]], now=NOW).lines(140)

    assert [line.plain.split()[0] for line in lines] == ["CLUSTER", "member1"]


def test_options_of_every_command_may_stand_before_it_as_for_kubectl() -> None:
    assert ordered(["-n", "shop", "--context=prod", "queue", "-w"]) == ["queue", "-n", "shop", "--context=prod", "-w"]
    assert ordered(["-A", "record"]) == ["record", "-A"]
    assert ordered(["queue", "-n", "shop"]) == ["queue", "-n", "shop"]
    assert ordered(["--help"]) == ["--help"]

"""Log lines: their forms, and what a library repeats several times a second is logged once in a while."""

import json
import logging
import time

import pytest

from config.logging import LineFormatter, Seldom, TextFormatter


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


def test_a_line_has_the_fields_of_its_caller_as_json_or_as_text() -> None:
    record = logging.makeLogRecord(
        {
            "name": "lifeboat.decisions",
            "levelname": "INFO",
            "msg": "%s: Evicted",
            "args": ("evictions",),
            "created": 0.0,
        }
    )
    record.versions = [7, 8]

    line = json.loads(LineFormatter().format(record))

    assert (line["at"], line["message"]) == ("1970-01-01T00:00:00.000+00:00", "evictions: Evicted")
    assert (line["logger"], line["versions"]) == ("lifeboat.decisions", [7, 8])
    text = TextFormatter().format(record)
    assert text == "1970-01-01 00:00:00.000Z INFO lifeboat.decisions: evictions: Evicted versions=[7, 8]"


def test_a_record_of_several_lines_is_written_as_so_many_lines() -> None:
    record = logging.makeLogRecord({"name": "lifeboat.decisions", "levelname": "INFO", "msg": "2 decisions"})
    record.lines = [{"message": "first", "versions": [7]}, {"message": "second"}]

    lines = [json.loads(line) for line in LineFormatter().format(record).splitlines()]

    assert [(line["message"], line.get("versions")) for line in lines] == [("first", [7]), ("second", None)]
    assert {line["logger"] for line in lines} == {"lifeboat.decisions"}
    assert [line.partition(": ")[2] for line in TextFormatter().format(record).splitlines()] == [
        "first versions=[7]",
        "second",
    ]


def test_no_value_of_a_request_writes_a_line_of_its_own_as_text() -> None:
    ends = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    forged = f"/api/v1/x{ends}2026-11-30 03:12:00.000Z INFO lifeboat.decisions: forged\x1b[2J"
    fields = {"name": "lifeboat.refused", "levelname": "WARNING", "msg": "refused %s", "args": (forged,)}
    record = logging.makeLogRecord(fields)
    record.way = forged
    try:
        raise ValueError(forged)
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    several = logging.makeLogRecord(fields)
    several.lines = [{"message": forged, "way": forged}]

    lines = TextFormatter().format(record).splitlines()

    assert lines[0].count("x\\n\\r\\x0b\\x0c\\x1c\\x1d\\x1e\\x85\\u2028\\u20292026-11-30") == 2
    assert len(lines) > 3
    assert all(line.startswith("    ") for line in lines[1:])
    assert len(TextFormatter().format(several).splitlines()) == 1
    assert not any("\x1b" in line for line in lines)

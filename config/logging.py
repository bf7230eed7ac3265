"""Log lines: JSON objects, so that they can be searched by field, or text for people in development."""

import logging
import time
from datetime import UTC, datetime

import orjson

LINES = "lines"
# Characters that end a line or steer a terminal: a request could write a line of its own with them.
_ESCAPES = {sign: f"\\x{sign:02x}" for sign in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPES |= {0x2028: "\\u2028", 0x2029: "\\u2029", **{ord(sign): repr(sign)[1:-1] for sign in "\n\r\t"}}
# The attributes of every LogRecord. All others were passed by the caller in extra={...}.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Formats a record as {"at", "level", "logger", "pid", "message", …extra, "exception"}.

    A record with `lines` in its extra becomes a line for each of these; they have a message of their own.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
        }
        if lines := getattr(record, LINES, None):
            return "\n".join(_json({**line, **one}) for one in lines)
        line |= {"message": record.getMessage()} | _extra(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _json(line)


class TextFormatter(logging.Formatter):
    """Formats a record as one line of text: time, level, logger, message, and the extra fields as name=value.

    A record with `lines` in its extra becomes a line for each of these. Line ends in messages and values are escaped.
    The lines of an exception are indented, so that none of them can be taken for a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(sep=" ", timespec="milliseconds")
        begin = f"{at[:-6]}Z {record.levelname} {record.name}: "
        if lines := getattr(record, LINES, None):
            return "\n".join(f"{begin}{_escaped(one['message'])}{_fields(one)}" for one in lines)
        text = f"{begin}{_escaped(record.getMessage())}{_fields(_extra(record))}"
        if not record.exc_info:
            return text
        trace = self.formatException(record.exc_info).splitlines()
        return "\n".join((text, *(f"    {_escaped(line)}" for line in trace)))


def _json(line: dict[str, object]) -> str:
    return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _escaped(text: object) -> str:
    return str(text).translate(_ESCAPES)


def _fields(line: dict[str, object]) -> str:
    return "".join(f" {name}={_escaped(value)}" for name, value in line.items() if name != "message")


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


class Seldom(logging.Filter):
    """Passes a message at most once in `seconds`, whatever its arguments: for libraries that log in a loop."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed.get(str(record.msg), -self._seconds) < self._seconds:
            return False
        self._passed[str(record.msg)] = now
        return True

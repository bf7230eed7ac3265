"""Log lines: JSON objects, so that they can be searched by field, or text for people in development."""

import logging
import time
from datetime import UTC, datetime

import orjson

# The attributes of every LogRecord. All others were passed by the caller in extra={...}.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Formats a record as {"at", "level", "logger", "pid", "message", …extra, "exception"}."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        line |= _extra(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextFormatter(logging.Formatter):
    """Formats a record as one line of text: time, level, logger, message, and the extra fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(sep=" ", timespec="milliseconds")
        fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
        text = f"{at[:-6]}Z {record.levelname} {record.name}: {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


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

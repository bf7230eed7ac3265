"""Log lines as JSON objects, so that they can be searched by field."""

import json
import logging
import time
from datetime import UTC, datetime

# The attributes of every LogRecord. All others were passed by the caller in extra={...}.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Formats a record as {"at", "level", "logger", "message", …extra, "exception"}."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _ORDINARY}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


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

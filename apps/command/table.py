"""Tables as kubectl prints them: capital headings, no lines. On a narrow terminal nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from apps.command import durations

GAP, NARROW_GAP = 3, 2  # blanks between two columns
NOTHING: Final = ("", "-")
# These columns move below their row, the first of them first, until a table fits into the terminal.
BELOW: Final = (
    "Why",
    "Message",
    "Problem",
    "What to do",
    "Command",
    "Examples",
    "Taints",
    "Reason",
    "Version",
    "Since",
)
# The colour of a word in a cell. The word itself is always printed, so colour is never the only sign.
_STYLES: Final = {
    **dict.fromkeys(("True", "Ready", "Normal", "Finished", "On", "Passed", "ok"), "green"),
    **dict.fromkeys(("False", "Unknown", "Failed", "Stopped", "Blind", "Blocks", "Abandoned", "failed"), "red"),
    **dict.fromkeys(("Held", "Paused", "Secondary", "Warns", "Recovering", "Off", "NotReady"), "yellow"),
}


class Table:
    """Rows under headings. Times show how long ago they were; on a narrow terminal they show only that.

    A text of several lines is shown on one, so that each line of the table begins with a row.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, now: datetime) -> None:
        self.columns = tuple(columns)
        self.rows = [["" if value is None else " ".join(str(value).splitlines()) for value in row] for row in rows]
        self.now = now

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width)

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table for a terminal with so many columns.

        If it does not fit, times become shorter, and then texts move below their rows. Lines that are still too long
        are wrapped by the terminal, as those of kubectl.
        """
        every = range(len(self.columns))
        if self._fits(width, every, durations.relative, GAP):
            yield from self._printed(every, durations.relative, GAP)
            return
        kept = list(every)
        for name in BELOW:
            if self._fits(width, kept, durations.distance, NARROW_GAP):
                break
            kept = [index for index in kept if self.columns[index] != name]
        yield from self._printed(kept, durations.distance, NARROW_GAP, width)

    def _fits(self, width: int, kept: Sequence[int], times: Callable[..., str], gap: int) -> bool:
        return sum(self._widths(kept, times)) + gap * (len(kept) - 1) <= width

    def _widths(self, kept: Sequence[int], times: Callable[..., str]) -> list[int]:
        cells = [[self.columns[index], *(self._text(row[index], times) for row in self.rows)] for index in kept]
        return [max(map(len, texts)) for texts in cells]

    def _text(self, value: str, times: Callable[..., str]) -> str:
        return times(value, now=self.now) or "-"

    def _printed(self, kept: Sequence[int], times: Callable[..., str], gap: int, width: int = 0) -> Iterator[Text]:
        widths = self._widths(kept, times)
        below = [index for index in range(len(self.columns)) if index not in kept]
        yield _line([(self.columns[index].upper(), "bold") for index in kept], widths, gap)
        for row in self.rows:
            cells = [self._text(row[index], times) for index in kept]
            yield _line([(text, _STYLES.get(text, "")) for text in cells], widths, gap)
            for index in below:
                if (text := self._text(row[index], times)) not in NOTHING:
                    begin = f"  {self.columns[index].lower()}: "
                    yield from map(
                        Text, wrap(text, width, initial_indent=begin, subsequent_indent="    ", break_long_words=False)
                    )


def _line(cells: Sequence[tuple[str, str]], widths: Sequence[int], gap: int) -> Text:
    made = Text()
    for (text, style), width in zip(cells, widths, strict=True):
        made.append(text, style=style or None)
        made.append(" " * (width - len(text) + gap))
    made.rstrip()
    return made

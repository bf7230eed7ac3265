"""Waiting for an order of the API to end: a bar on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from apps.command import durations, exit_codes
from apps.command.errors import CommandError, Document, Refused
from apps.command.run import Run

RETRY_SECONDS: Final = 2.0  # while the API does not answer


class State(NamedTuple):
    """How far an order is. `end` "": it continues; else how it ended."""

    done: int
    total: int
    text: str
    end: str = ""


def watched(run: Run, collection: str, name: str, *, timeout: str) -> Iterator[Document]:
    """Yield an object whenever it changes, until it is deleted. Raises CommandError when the time is over.

    A watch that the server ends early is started again, also after the API was away.
    """
    limit = durations.seconds(timeout, option="--timeout")
    end, away = time.monotonic() + limit, False
    while (left := end - time.monotonic()) > 0:
        try:
            run.api.get(f"{collection}/{name}")
            away = False
            yield from run.api.watch(collection, name, seconds=min(round(left) or 1, 3000))
        except CommandError as error:
            if isinstance(error, Refused) and error.http == 404:
                return
            if error.code != exit_codes.UNREACHABLE:
                raise
            if not away:
                run.remark(f"{error.message}; {name} continues on the server, and this command waits", style="yellow")
            away = True
            time.sleep(min(RETRY_SECONDS, left))
    raise CommandError(
        f"{name} has not ended within {timeout}; it continues on the server",
        code=exit_codes.TIMED_OUT,
        advice=f"see it with: kubectl get {collection.rsplit('/', 1)[-1]} {name}",
    )


def followed(
    run: Run, collection: str, name: str, state: Callable[[Document], State], *, timeout: str, stop: str
) -> Document:
    """Show the progress of an order until it ends; return its last document.

    `stop`: the command that stops the order, shown when the user interrupts the waiting. Raises CommandError if the
    time is over, or if the object was deleted.
    """
    with _bar(run) as show:
        try:
            for document in watched(run, collection, name, timeout=timeout):
                now = state(document)
                show(now)
                if now.end:
                    return document
        except KeyboardInterrupt:
            run.remark(f"{name} continues on the server; to stop it: {stop}")
            raise
    raise CommandError(f"{name} was deleted before it ended", code=exit_codes.PROBLEM)


def gone(run: Run, collection: str, name: str, *, timeout: str) -> None:
    """Return when an object is gone. Raises CommandError if that takes longer than the timeout."""
    kind = collection.rsplit("/", 1)[-1]
    run.remark(f"waiting until {name} is gone; kubectl describe {kind} {name} shows what its deletion waits for")
    for _ in watched(run, collection, name, timeout=timeout):
        pass


@contextmanager
def _bar(run: Run) -> Iterator[Callable[[State], None]]:
    if not run.err.is_terminal:
        yield _lines(run)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=run.err, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda now: progress.update(task, completed=now.done, total=now.total or None, description=now.text)


def _lines(run: Run) -> Callable[[State], None]:
    printed: set[str] = set()

    def show(now: State) -> None:
        line = f"{now.done} of {now.total}: {now.text}" if now.total else now.text
        if line not in printed:
            printed.add(line)
            run.remark(line)

    return show

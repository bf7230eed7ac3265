"""`python -m tests.profile`: where the time of workers goes while bindings are placed and evicted.

Workers are sampled by py-spy, statements are counted by pg_stat_statements, and bytes are those of the log of the
database. The tables between the marks of "workers" in docs/performance.md are written again; other text there stays.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from apps.development.supervise import lifetime
from tests.bench import __main__ as benches
from tests.bench.figure import machine
from tests.services import VARIABLES, OwnServices

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- workers: begin, written by `make profile` -->", "<!-- workers: end -->"
BINDINGS = 2_000
SAMPLES = 100  # in a second
FUNCTIONS, STATEMENTS = 24, 16  # rows of the tables
WAITS = ("Connection.wait", "Nudges.wait", "select", "poll")
_OURS = re.compile(r"(.+) \(((?:apps|controlplane|psycopg)/[^:]+):\d+\)")
_WRITES = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) \w+")
_STATEMENTS = """
    SELECT query, calls, total_exec_time, wal_bytes::bigint FROM pg_stat_statements
    WHERE query NOT LIKE '%%pg_stat_statements%%' ORDER BY total_exec_time DESC LIMIT %s"""


class Taken(NamedTuple):
    """What one kind of work cost: samples by function, and statements with calls, milliseconds and bytes of log."""

    title: str
    samples: int
    functions: Counter[str]
    statements: list[tuple[str, int, float, int]]


def main() -> int:
    benches.set_environment()
    own = OwnServices(throwaway=False)
    try:
        _count_statements(own)
        taken = benches.with_database(_take)
    finally:
        own.stop()
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{_document(taken)}\n{END}{after}")
    return 0


def _count_statements(own: OwnServices) -> None:
    """Restart the servers with pg_stat_statements, which can only be loaded at the start."""
    import psycopg  # here: the servers' addresses are known by now

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    lifetime.down(own.home)
    own.process.wait(300)
    for name in VARIABLES:
        del os.environ[name]  # else the supervisor takes the servers that have just ended
    arguments = ["services", "--foreground", "--with-parent", "--dir", str(own.home.root)]
    own.process, facts = lifetime.detach(own.home, arguments, within=300.0, say=lambda line: None)
    os.environ.update(facts["environment"])


def _take() -> list[Taken]:
    from tests.bench import failover, propagate  # here: Django is set up by now
    from tests.emptied import empty_database

    works: dict[str, Callable[[Callable[[list[int]], AbstractContextManager[object]]], object]] = {
        f"{BINDINGS:,} bindings are placed": lambda during: propagate.placed(BINDINGS, during=during),
        f"{BINDINGS:,} bindings leave a lost cluster": lambda during: failover.lost(
            BINDINGS, placed_in=1.0, during=during
        ),
    }
    taken: list[Taken] = []
    for title, work in works.items():
        empty_database()
        with tempfile.TemporaryDirectory(prefix="lifeboat-profile-") as name:
            statements: list[tuple[str, int, float, int]] = []
            work(partial(_watched, Path(name), statements))
            functions = _functions(line for file in Path(name).glob("*.raw") for line in file.read_text().splitlines())
        taken.append(Taken(title, functions.pop("", 0), functions, statements))
    return taken


@contextmanager
def _watched(folder: Path, statements: list[tuple[str, int, float, int]], pids: list[int]) -> Iterator[None]:
    """Sample processes and count statements while the block runs."""
    from django.db import connection

    spy = [str(Path(sys.executable).with_name("py-spy")), "record", "--format", "raw", "--duration", "600"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        cursor.execute("SELECT pg_stat_statements_reset()")
    spies = [
        subprocess.Popen(
            [*spy, "--rate", str(SAMPLES), "--pid", str(pid), "--output", str(folder / f"{pid}.raw")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for pid in pids
    ]
    try:
        yield
        with connection.cursor() as cursor:
            cursor.execute(_STATEMENTS, [STATEMENTS])
            statements += cursor.fetchall()
    finally:
        for process in spies:
            process.send_signal(signal.SIGINT)
        for process in spies:
            process.wait(60)


def _functions(lines: Iterable[str]) -> Counter[str]:
    """Return the samples in which each of our functions ran or had called what ran; under "" those of all turns.

    Samples of waiting are left out: they say how busy the machine was.
    """
    found = Counter[str]()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if "Turn.work" not in stack or frames[-1].startswith(WAITS):
            continue
        found[""] += int(count)
        for name in {f"`{m[1]}` in {m[2]}" for frame in frames if (m := _OURS.fullmatch(frame))}:
            found[name] += int(count)
    return found


def _document(taken: Sequence[Taken]) -> str:
    parts = [f"Machine: {machine()}. py-spy slows what it samples, so shares count and times do not."]
    for one in taken:
        rows = [
            f"| {name} | {100 * count / one.samples:.1f} % |"
            for name, count in one.functions.most_common()
            if 1 < 100 * count / one.samples < 90
        ][:FUNCTIONS]
        parts += [f"#### {one.title}", "\n".join(["| Function, with what it calls | Samples |", "|---|---|", *rows])]
        total = sum(milliseconds for _, _, milliseconds, _ in one.statements)
        counted = [
            f"| {_named(query)} | {calls:,} | {100 * milliseconds / total:.1f} % | {wal / BINDINGS:,.0f} |"
            for query, calls, milliseconds, wal in one.statements
        ]
        head = ["| Statement | Calls | Time | Bytes of log for each binding |", "|---|---|---|---|"]
        parts.append("\n".join([*head, *counted]))
    return "\n\n".join(parts)


def _named(query: str) -> str:
    """Return the writes of a statement, else its beginning."""
    text = " ".join(query.split())
    return f"`{', '.join(_WRITES.findall(text)) or text[:70]}`".replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())

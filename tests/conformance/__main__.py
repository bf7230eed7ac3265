"""``python -m tests.conformance``: one line an area, failures on standard error, exit code 1 when anything fails."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.areas import AREAS
from tests.conformance.runner import SHOWN_FAILURES, Failure, check, folder, vector_files


def main() -> int:
    where = folder()
    files = vector_files(where)
    named = [area for area in os.environ.get("CONFORMANCE_AREAS", "").replace(",", " ").split() if area]
    failed = False
    for area in named or files:
        problem = _cannot_run(area, files, where)
        if problem:
            print(f"{area}: {problem}", file=sys.stderr)
            failed = failed or bool(named)
            continue
        report = check(area, files[area])
        print(report, flush=True)
        _show(report.failures[:SHOWN_FAILURES])
        failed = failed or bool(report.failures)
    if not named and not files:
        print(f"{where} holds no vectors: CONFORMANCE_VECTORS has to name a folder with *.jsonl.gz", file=sys.stderr)
    return int(failed or not files)


def _cannot_run(area: str, files: dict[str, Path], where: Path) -> str:
    if area not in AREAS:
        return (
            f"nothing runs this area: enter it into tests/conformance/areas/__init__.py (there are {', '.join(AREAS)})"
        )
    if area not in files:
        return f"{where} has no {area}.jsonl or {area}.jsonl.gz"
    return ""


def _show(failures: Iterable[Failure]) -> None:
    for failure in failures:
        print(f"  {failure.id}", file=sys.stderr)
        print(f"    expected {json.dumps(failure.expected, ensure_ascii=False, default=str)[:2000]}", file=sys.stderr)
        print(f"    actual   {json.dumps(failure.actual, ensure_ascii=False, default=str)[:2000]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

"""Reads vectors, asks the areas, counts."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.areas import AREAS

HERE = Path(__file__).parent
SHOWN_FAILURES = 5
PARTS = ("id", "input", "expect")


@dataclass
class Failure:
    id: str
    expected: Any
    actual: Any


@dataclass
class Report:
    """What became of one area's vectors."""

    area: str
    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        line = f"{self.area}: {self.passed} passed, {len(self.failures)} failed, {self.reasons.total()} differ"
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.reasons.items()))
        return f"{line} ({reasons})" if reasons else line


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the vectors are: the folder CONFORMANCE_VECTORS names, or this one."""
    return Path(environment.get("CONFORMANCE_VECTORS") or HERE)


def vector_files(where: Path) -> dict[str, Path]:
    """Return the vector file of each area in a folder."""
    found = {path.name.removesuffix(".gz").removesuffix(".jsonl"): path for path in where.glob("*.jsonl*")}
    return dict(sorted(found.items()))


def read_vectors(path: Path) -> Iterator[dict[str, Any] | Failure]:
    """Yield the vectors of a file, gzipped or not; a Failure that names the line in place of one that is none."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        yield Failure(path.name, "a file of vectors, gzipped where its name ends in .gz", str(error))
        return
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            yield _vector(line, f"line {number} of {path.name}")


def _vector(line: bytes, place: str) -> dict[str, Any] | Failure:
    try:
        vector = json.loads(line)
    except ValueError as error:
        return Failure(place, "one JSON object a line", str(error))
    missing = PARTS if not isinstance(vector, dict) else [part for part in PARTS if part not in vector]
    return Failure(place, f"an object with {', '.join(PARTS)}", f"no {', '.join(missing)}") if missing else vector


def check(area: str, path: Path) -> Report:
    """Return what one area makes of its vectors. Raise KeyError where nothing can run the area."""
    module = importlib.import_module(AREAS[area])
    differs = getattr(module, "differs", lambda _input, _expect, _result: None)
    report = Report(area)
    for vector in read_vectors(path):
        if isinstance(vector, Failure):
            report.failures.append(vector)
            continue
        expect = vector["expect"]
        try:
            result = module.run(vector["input"])
            agrees = module.agree(expect, result)
            reason = None if agrees else differs(vector["input"], expect, result)
        except Exception:  # noqa: BLE001 - one vector's exception is that vector's failure
            report.failures.append(Failure(vector["id"], expect, traceback.format_exc()))
            continue
        if agrees:
            report.passed += 1
        elif reason:
            report.reasons[reason] += 1
        else:
            report.failures.append(Failure(vector["id"], expect, result))
    return report

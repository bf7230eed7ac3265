"""The summary of Karmada's end-to-end suite by spec: read from ginkgo's report, merged into docs/e2e.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HEAD = """# Karmada's end-to-end suite

The specs of Karmada's own suite, unchanged, against Lifeboat with real members (kube-apiserver, controller-manager,
a stand-in for the kubelet). `make e2e LAB=FOLDER FILES='karmadactl_test.go|namespace_test.go'` starts members and a
stack, runs the files, and replaces their rows here. A note has the reason of a failure; a difference on purpose names
its rule. The specs of interpreter webhooks expect the webhook of Karmada's example, which is no part of the suite's
programs: `make e2e` starts a stand-in that answers as that example does (`tests/e2e/interpreter_webhook.py`).
Specs that make a cluster remove its folder at their end. The script of the suite's programs that does this has to
remove folders as well (`rm -rf`), or these specs fail after everything they test has passed.

"""
_ROW = re.compile(
    r"\| (?P<file>[^|]+) \| (?P<spec>.+) \| (?P<result>\w+) \| (?P<seconds>[\d.]+) \| (?P<ran>[\d-]*) "
    r"\| ?(?P<note>.*?) ?\|"
)
_FOLDER = re.compile(r"(?<![\w:/])/(?:[\w.-]+/)+")  # of a path on the machine of a run
NOTE = 160  # characters of the reason of a failure


class Spec(NamedTuple):
    """One spec. `ran`: the day of its last run; "": not known. `note`: the reason of a failure, or what a person wrote
    about it."""

    file: str
    name: str
    result: str
    seconds: float
    note: str = ""
    ran: str = ""


def of_report(report: Any) -> list[Spec]:
    """Return the specs that ran, from the decoded JSON report of ginkgo. Specs that were not selected are left out."""
    found: dict[tuple[str, str], Spec] = {}
    for suite in report:
        for entry in suite.get("SpecReports") or ():
            failure = entry.get("Failure") or {}
            skipped = entry["State"] == "skipped" and not failure.get("Message")
            if entry["LeafNodeType"] != "It" or entry["State"] == "pending" or skipped:
                continue
            name = " ".join([*(entry.get("ContainerHierarchyTexts") or ()), entry["LeafNodeText"]])
            file = Path(entry["LeafNodeLocation"]["FileName"]).name
            note = _FOLDER.sub("", _cell(failure.get("Message", "")))[:NOTE]
            ran, seconds = suite.get("StartTime", "")[:10], round(entry["RunTime"] / 1e9, 1)
            found[file, name] = Spec(file, _cell(name), entry["State"], seconds, note, ran)
    return sorted(found.values())


def of_document(text: str) -> list[Spec]:
    """Return the specs of an earlier summary."""
    rows = (_ROW.fullmatch(line) for line in text.splitlines())
    return [
        Spec(row["file"], row["spec"], row["result"], float(row["seconds"]), row["note"], row["ran"])
        for row in rows
        if row is not None
    ]


def merged(before: Iterable[Spec], after: Iterable[Spec]) -> list[Spec]:
    """Return the later result of each spec. The note of a spec that failed before stays while it fails."""
    known: Mapping[tuple[str, str], Spec] = {(spec.file, spec.name): spec for spec in before}
    result = dict(known)
    for spec in after:
        old = known.get((spec.file, spec.name))
        keeps = old is not None and old.note and spec.result != "passed" and old.result != "passed"
        result[spec.file, spec.name] = spec._replace(note=old.note) if keeps and old is not None else spec
    return sorted(result.values())


def document(specs: Iterable[Spec]) -> str:
    """Return the summary: a table of the files and a table of the specs."""
    listed = list(specs)
    counts: dict[str, Counter[str]] = {}
    for spec in listed:
        counts.setdefault(spec.file, Counter())["passed" if spec.result == "passed" else "not passed"] += 1
    lines = ["| File | Passed | Not passed |", "|---|---|---|"]
    lines += [f"| {file} | {count['passed']} | {count['not passed']} |" for file, count in sorted(counts.items())]
    lines += ["", "| File | Spec | Result | Seconds | Ran | Note |", "|---|---|---|---|---|---|"]
    lines += [f"| {s.file} | {s.name} | {s.result} | {s.seconds:g} | {s.ran} | {s.note} |" for s in listed]
    return HEAD + "\n".join(lines) + "\n"


def update(path: Path, report: Path) -> list[Spec]:
    """Merge a report of ginkgo into the summary and return the specs of the report."""
    ran = of_report(json.loads(report.read_text()))
    before = of_document(path.read_text()) if path.exists() else []
    path.write_text(document(merged(before, ran)))
    return ran


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "/").strip()

"""Tests get their clusters, bindings, policies, Works and queue rows from tests/builders."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.config.prose import relative, tracked

BUILT = {"Binding", "Cluster", "ClusterTaintPolicy", "Eviction", "EvictionHold", "MaintenanceWindow", "Policy", "Work"}
OTHERS = {
    "tests/bench/apply.py": "bindings of the size that production has",
    "tests/bench/schedule.py": "clusters drawn at random",
    "tests/conformance/areas/graceful_eviction.py": "what a recorded case says, field by field",
    "tests/conformance/areas/tolerations.py": "what a recorded case says, field by field",
}


def test_only_the_builders_make_stored_objects() -> None:
    made = {
        relative(path): sorted(set(_made(path)))
        for path in tracked("tests/*.py")
        if not relative(path).startswith("tests/builders/") and relative(path) not in OTHERS
    }

    assert {path: names for path, names in made.items() if names} == {}, "add arguments to tests/builders"


def _made(path: Path) -> Iterator[str]:
    """Yield the types of `controlplane.kinds` that a file calls with more than one argument."""
    text = path.read_text()
    if "controlplane.kinds" not in text:  # to read a file as Python takes long
        return
    tree = ast.parse(text)
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("controlplane.kinds")
        for name in node.names
        if name.name in BUILT
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in imported and len(node.args) + len(node.keywords) > 1:
                yield name

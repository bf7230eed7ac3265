"""Rules and defaults of kinds are compiled once, and threads that ask meanwhile get whole ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from controlplane.kube.walk import _Compiler, _Defaults, _Rules

DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"
THREADS = 8


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def shapes(node: _Defaults | _Rules, seen: dict[int, frozenset[str]]) -> set[frozenset[str]]:
    """Return the names of the fields of a type and of each type inside it."""
    if id(node) not in seen:
        seen[id(node)] = frozenset(node.fields)
        for field in node.fields.values():
            for part in field:
                if isinstance(part, _Defaults | _Rules):
                    shapes(part, seen)
    return set(seen.values())


def test_threads_that_ask_for_a_type_while_it_is_compiled_get_all_of_its_fields(frequent_switches: None) -> None:
    once = _Compiler()
    expected = shapes(once.defaults(DEPLOYMENT), {}) | shapes(once.rules(DEPLOYMENT), {})
    for _ in range(5):
        compiler, start, found = _Compiler(), threading.Barrier(THREADS), list[bool]()

        def ask(compiler: _Compiler, start: threading.Barrier, found: list[bool]) -> None:
            start.wait()
            found.append(shapes(compiler.defaults(DEPLOYMENT), {}) | shapes(compiler.rules(DEPLOYMENT), {}) == expected)

        threads = [threading.Thread(target=ask, args=(compiler, start, found)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * THREADS

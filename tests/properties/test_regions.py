"""Choosing regions agrees with trying every set of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controlplane.scheduling.regions import Region, best_path

SCORES = st.sampled_from([0, 1000, 2000]) | st.integers(0, 9000)


def every_set(regions: list[Region], *, least: int, most: int, clusters: int) -> list[str]:
    """Return the names best_path shall return, by visiting all sets and comparing them afterwards."""
    ordered = sorted(regions, key=lambda one: (one.clusters, -one.score, one.name))
    paths: list[list[Region]] = []

    def visit(begin: int, path: list[Region]) -> None:
        if sum(one.clusters for one in path) >= clusters and least <= len(path) <= most:
            paths.append(path)
        elif len(path) < most:
            for place in range(begin, len(ordered)):
                visit(place + 1, [*path, ordered[place]])

    visit(0, [])
    ranked = sorted(paths, key=lambda path: (-sum(one.score for one in path), -sum(one.clusters for one in path)))
    best: list[str] = []
    for path in ranked:
        names = [one.name for one in sorted(path, key=lambda one: (-one.score, one.name))]
        if not best or (len(names) < len(best) and names == best[: len(names)]):
            best = names
    return best


@given(st.lists(st.tuples(st.integers(1, 4), SCORES), min_size=1, max_size=7), st.data())
def test_the_best_regions_are_those_of_all_sets(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    regions = [Region(f"r{number}", np.arange(count), score) for number, (count, score) in enumerate(sizes)]
    least = data.draw(st.integers(1, 3))
    most = least + data.draw(st.integers(0, 3))
    clusters = data.draw(st.integers(0, 8))

    got = best_path(regions, least=least, most=most, clusters=clusters)

    assert [one.name for one in got] == every_set(regions, least=least, most=most, clusters=clusters)


def test_dozens_of_regions_do_not_take_for_ever() -> None:
    regions = [Region(f"r{number:02}", np.arange(1 + number % 9), number * 37 % 9000) for number in range(60)]

    got = best_path(regions, least=1, most=60, clusters=200)

    assert sum(one.clusters for one in got) >= 200

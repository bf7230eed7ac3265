"""Figures of benches: medians with their spread, and the ratio to what the same machine did."""

from __future__ import annotations

import pytest

from tests.bench.figure import Figure, medians, python_loop, table


def _round(value: float, ratio: float | None = None) -> Figure:
    return Figure("propagate", value, "bindings/s", 10, "under test", beside=f"COPY beside {value}", ratio=ratio)


def test_the_value_is_the_median_of_the_rounds_and_the_spread_is_their_smallest_and_largest() -> None:
    (found,) = medians([[_round(300.0)], [_round(100.0)], [_round(250.0)]])
    assert (found.value, found.spread) == (250.0, (100.0, 300.0))


def test_the_ratio_is_the_median_ratio_with_the_measure_of_the_machine_in_that_round() -> None:
    """A fast round beside a fast machine is no better than a slow round beside a slow machine."""
    (found,) = medians([[_round(300.0, 0.2)], [_round(100.0, 0.3)], [_round(250.0, 0.4)]])
    assert (found.ratio, found.beside) == (0.3, "COPY beside 100.0")


def test_a_single_round_has_no_spread() -> None:
    (found,) = medians([[_round(300.0)]])
    assert found.spread == ()


def test_rounds_that_measured_different_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        medians([[_round(1.0)], []])


def test_a_line_shows_spread_measure_and_ratio_in_brackets() -> None:
    (found,) = medians([[_round(300.0, 0.2)], [_round(100.0, 0.3)], [_round(250.0, 0.4)]])
    assert "[100.0…300.0; COPY beside 100.0; ratio 0.30] under test" in table([found])
    assert "[" not in table([Figure("apply", 1.0, "s", 1, "alone")])


def test_the_fixed_loop_takes_time() -> None:
    assert python_loop() > 0

"""Figures: how fast it is, measured the same way every time. `python -m tests.bench [apply|…]`."""

"""What tests of several charts use."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest


@pytest.fixture(scope="session")
def helm() -> Any:
    """Helm's engine as a library (helm-python-sdk)."""
    if importlib.util.find_spec("helm_python") is None:
        pytest.skip(
            "Helm's engine is not installed (helm-python-sdk has no wheel for this machine): nothing is rendered"
        )
    import helm_python

    return helm_python

"""The interpretation of this process: answers to questions to scripts and webhooks of users."""

from __future__ import annotations

from functools import lru_cache

from apps.interpretation.rule_answers import Interpretation
from apps.objects.configuration import base
from controlplane.interpret import INTERPRETERS


@lru_cache(maxsize=1)
def interpretation() -> Interpretation:
    """Return the interpretation of this process."""
    return Interpretation(INTERPRETERS, base().members)

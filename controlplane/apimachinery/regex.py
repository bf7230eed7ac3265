"""Regular expressions that users write. Their syntax is that of RE2, and matching takes linear time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

LINEAR = jsonschema_rs.RegexOptions(size_limit=8 << 20, dfa_size_limit=2 << 20)  # bytes
"""Memory limits of a pattern. A pattern that needs more is refused [hostile-patterns]."""


@lru_cache(maxsize=1024)
def full_match(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests whether a pattern matches a whole text. Raises ValueError for an invalid pattern."""
    for expression in (pattern, f"^(?:{pattern})$"):
        try:
            validator = jsonschema_rs.Draft202012Validator({"pattern": expression}, pattern_options=LINEAR)
        except ValueError:
            raise ValueError("is not a regular expression of RE2 (no lookaround, no backreferences)") from None
    is_valid: Callable[[str], bool] = validator.is_valid
    return is_valid

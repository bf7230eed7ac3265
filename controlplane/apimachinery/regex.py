"""Regular expressions that users write: RE2's, as those of Kubernetes' own programs, matched in linear time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

LINEAR = jsonschema_rs.RegexOptions(size_limit=8 << 20, dfa_size_limit=2 << 20)  # bytes
"""No text and no pattern holds anybody up (fault 46); a pattern that would need more than this is refused."""


@lru_cache(maxsize=1024)
def whole(pattern: str) -> Callable[[str], bool]:
    """Return the test whether a whole text matches. Raises ValueError where the pattern is none."""
    for one in (pattern, f"^(?:{pattern})$"):
        try:
            found = jsonschema_rs.Draft202012Validator({"pattern": one}, pattern_options=LINEAR)
        except ValueError:
            raise ValueError("is no regular expression of RE2 (no lookaround, no references back)") from None
    is_valid: Callable[[str], bool] = found.is_valid
    return is_valid

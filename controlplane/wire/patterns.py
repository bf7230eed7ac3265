"""Patterns of schemas: users write them in the syntax of Go, and the library that matches them has one of its own.

Both know the same patterns. They differ in what has to be escaped, and in the names of some characters.
"""

from __future__ import annotations

import re
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-\/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


def _others(ranges: str) -> str:
    """Return the characters that are not in some ranges of ASCII."""
    inside = re.compile(f"[{ranges}]")
    others = (rf"\x{number:02X}" for number in range(128) if not inside.match(chr(number)))
    return "".join(others) + r"\x{80}-\x{10FFFF}"


_CLASSES: Final = {**_POSIX, **{f"^{name}": _others(ranges) for name, ranges in _POSIX.items()}}

# What stands outside of brackets: a quoted text, a bell, < and >, which need no escape and must not have one, any other
# escape, a brace that begins no repetition, and brackets, closed or not. Each expression reads a text once, however it
# is written.
_OUTSIDE: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|(?P<bell>\\a)|\\(?P<angle>[<>])|\\[xpP]\{[^}\\]*\}|\\.|(?P<brace>\{(?!\d+(?:,\d*)?\}))"
    r"|(?P<brackets>\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\\\]])*(?:\]|\\?\Z))",
    re.DOTALL,
)
# What stands inside: a POSIX class, a bell, and a class of characters before a hyphen, which cannot begin a range.
_INSIDE: Final = re.compile(
    rf"\[:(?P<posix>\^?(?:{'|'.join(_POSIX)})):\]|(?P<bell>\\a)"
    r"|(?P<before>\\[wWdDsS]|\\[pP](?:\{[^}\\]*\}|.))-(?!\])|\\.",
    re.DOTALL,
)


def translated(pattern: str) -> str:
    """Return a pattern of Go in the syntax of the library that matches it. An invalid pattern stays invalid."""
    return _OUTSIDE.sub(_outside, pattern)


def _outside(found: re.Match[str]) -> str:
    if found["quoted"] is not None:
        return re.sub(r"([^\w\s])", r"\\\1", found["quoted"])
    if found["brackets"] is not None:
        return _INSIDE.sub(_inside, found[0])
    if found["bell"] is not None:
        return r"\x07"
    if found["angle"] is not None:
        return found["angle"]
    return r"\{" if found["brace"] is not None else found[0]


def _inside(found: re.Match[str]) -> str:
    if found["posix"] is not None:
        return _CLASSES[found["posix"]]
    if found["bell"] is not None:
        return r"\x07"
    return rf"{found['before']}\-" if found["before"] is not None else found[0]

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
_BLANKS: Final = r"\t\n\f\r "  # all that \s means in Go
_SPACES: Final = {"s": _BLANKS, "S": _others(_BLANKS)}

# What stands outside of brackets: a quoted text, a bell, < and >, which need no escape and must not have one, blanks,
# any other escape, a brace that begins no repetition, and brackets, closed or not. Each expression reads a text once,
# however it is written.
_OUTSIDE: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|(?P<bell>\\a)|\\(?P<angle>[<>])|\\(?P<space>[sS])"
    r"|\\[xpP]\{[^}\\]*\}|\\.|(?P<brace>\{(?!\d+(?:,\d*)?\}))"
    r"|(?P<brackets>\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\\\]])*(?:\]|\\?\Z))",
    re.DOTALL,
)
# What stands inside: a bell, < and >, and a class of characters, which begins no range if a hyphen follows.
_INSIDE: Final = re.compile(
    r"(?P<bell>\\a)|\\(?P<angle>[<>])|"
    rf"(?:\[:(?P<posix>\^?(?:{'|'.join(_POSIX)})):\]|\\(?P<space>[sS])|(?P<perl>\\[wWdD]|\\[pP](?:\{{[^}}\\]*\}}|.)))"
    r"(?P<hyphen>-(?!\]))?|\\.",
    re.DOTALL,
)
# A bracket that closes nothing. The library takes the brackets for empty if they have another one, or && or ~~, inside.
_BEGIN: Final = re.compile(r"\A(\[\^?)\]")
_PUNCTUATION: Final = re.compile(r"([!-/:;=?@\[-`{-~])")  # of ASCII without < and >: all that may have an escape


def translated(pattern: str) -> str:
    """Return a pattern of Go in the syntax of the library that matches it. An invalid pattern stays invalid."""
    return _OUTSIDE.sub(_outside, pattern)


def _outside(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "quoted":
            return _PUNCTUATION.sub(r"\\\1", found["quoted"])
        case "brackets":
            return _INSIDE.sub(_inside, _BEGIN.sub(r"\1\]", found[0], count=1))
        case "space":
            return f"[{'^' if found['space'] == 'S' else ''}{_BLANKS}]"
        case "brace":
            return r"\{"
    return _character(found)


def _inside(found: re.Match[str]) -> str:
    if found["posix"] is not None:
        characters = _CLASSES[found["posix"]]
    elif found["space"] is not None:
        characters = _SPACES[found["space"]]
    elif found["perl"] is not None:
        characters = found["perl"]
    else:
        return _character(found)
    return characters if found["hyphen"] is None else rf"{characters}\-"


def _character(found: re.Match[str]) -> str:
    """Return a single character without an escape that the library does not know. Any other text stays as it is."""
    return r"\x07" if found["bell"] is not None else found["angle"] or found[0]

"""Numbers and texts as Go prints them, because members and scripts print them in this way."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final

_UNSAFE_IN_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_UNSAFE_IN_HTML)


def number_text(value: float) -> str:
    """Return a number as Go prints it: with an exponent below 0.0001 and from 1e+06 on."""
    if isinstance(value, bool):
        return "true" if value else "false"
    sign, digits, exponent = _decimal(value)
    return sign + (_scientific(digits, exponent, 2) if not -4 <= exponent < 6 else _plain(digits, exponent))


def json_number(value: float) -> str:
    """Return a number as Go writes it into JSON: without an exponent up to 21 digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    sign, digits, exponent = _decimal(value)
    return sign + (_scientific(digits, exponent, 1) if not -6 <= exponent < 21 else _plain(digits, exponent))


def _decimal(value: float) -> tuple[str, str, int]:
    """Return the sign, the shortest digits that denote a number, and the exponent of the first digit."""
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    assert isinstance(exponent, int), "JSON has no infinite numbers"
    text = "".join(map(str, digits))
    return "-" * sign, text.rstrip("0") or "0", exponent + len(text) - 1 if text.strip("0") else 0


def _scientific(digits: str, exponent: int, width: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}}"


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole

"""Resource quantities of Kubernetes: ``500m``, ``1.5Gi``, ``2e3``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NoReturn

DECIMAL_SI: Final = "DecimalSI"
DECIMAL_EXPONENT: Final = "DecimalExponent"
BINARY_SI: Final = "BinarySI"

NANO: Final = 10**9
"""The unit in which quantities are stored is one billionth. Parsing rounds smaller fractions away from zero."""

MAX_INT64: Final = 2**63 - 1
MAX_TEXT_LENGTH: Final = 256
MAX_EXPONENT: Final = 256
"""The largest decimal exponent that is accepted, because a short text such as 1e999999999 would need a gigabyte."""

_SHAPE: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", *_BINARY_SUFFIXES)
_FAST_DIGITS: Final = 18
"""A canonical text with at most this many digits is kept as it is, as the API server does."""


class QuantityError(ValueError):
    """A text is not a resource quantity. The message names the text and a valid example."""


class Quantity:
    """An exact, immutable number of billionths, with the format in which it is written.

    Equality, order and hash depend on the number: ``1``, ``1000m`` and ``1e0`` are equal [resource-models]. A sum has
    the format of its left side, or of its right side if the left side is zero. ``str()`` returns the canonical text:
    exact, without a fraction, with the largest suffix that allows this.
    """

    __slots__ = ("_text", "format", "nano")

    nano: int
    format: str
    _text: str

    def __init__(self, nano: int, format: str = DECIMAL_SI, text: str = "") -> None:
        object.__setattr__(self, "nano", nano)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "_text", text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Quantity is immutable: make a new one instead of setting {name}")

    def __reduce__(self) -> tuple[type[Quantity], tuple[int, str, str]]:
        return Quantity, (self.nano, self.format, self._text)

    @classmethod
    def of(cls, value: object) -> Quantity:
        """Return the quantity of a JSON value, which is a text or a number. Raises QuantityError for anything else."""
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, Quantity):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return parse(repr(value))
        raise QuantityError(f'{value!r} is not a quantity: write a text such as "500m" or "2Gi", or a number')

    def value(self) -> int:
        """Return the number of whole units, rounded away from zero: ``1500m`` → 2."""
        return _away_from_zero(self.nano, NANO)

    def milli_value(self) -> int:
        """Return the number of thousandths of a unit, rounded away from zero. CPU is counted in thousandths."""
        return _away_from_zero(self.nano, NANO // 1000)

    def sign(self) -> int:
        return (self.nano > 0) - (self.nano < 0)

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if this quantity is less than, equal to or more than the other."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __str__(self) -> str:
        if not self._text:
            object.__setattr__(self, "_text", _canonical(self.nano, self.format))
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


@lru_cache(maxsize=16_384)
def parse(text: str) -> Quantity:
    """Return the quantity that a text denotes. Raises QuantityError for an invalid text."""
    if len(text) > MAX_TEXT_LENGTH:
        raise QuantityError(f"a quantity of {len(text)} characters is longer than {MAX_TEXT_LENGTH}: use a suffix")
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text:
        raise QuantityError(
            f'{text!r} is not a quantity: a number and one suffix of n u m k M G T P E or Ki Mi Gi Ti Pi Ei, like "2Gi"'
        )
    sign, whole, fraction, suffix = shape.groups(default="")
    digits = (whole.lstrip("0") or "0") + fraction
    binary = _BINARY_SUFFIXES.get(suffix)
    if binary is not None:
        return _binary(text, sign=sign, digits=digits, places=len(fraction), exponent=binary)
    exponent, form = _decimal_exponent(text, suffix)
    scale = exponent - len(fraction)
    nano = _nano(int(digits), scale)
    # The rule of the API server for which texts are kept as they are. Others are written in the canonical form.
    kept = len(digits) <= _FAST_DIGITS and scale >= -9 and scale % 3 == 0
    kept = kept and digits[0] != "0" and not digits.endswith("000")
    return Quantity(-nano if sign == "-" else nano, form, text if kept else "")


def _decimal_exponent(text: str, suffix: str) -> tuple[int, str]:
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is not None:
        return exponent, DECIMAL_SI
    if suffix[0] not in "eE" or not suffix[1:].lstrip("+-").isdigit():
        raise QuantityError(
            f"{text!r} has the suffix {suffix!r}: one of n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e and a number"
        )
    exponent = int(suffix[1:])
    if abs(exponent) > MAX_EXPONENT:
        raise QuantityError(f"{text!r} has an exponent beyond {MAX_EXPONENT}: write a smaller one")
    return exponent, DECIMAL_EXPONENT


def _binary(text: str, *, sign: str, digits: str, places: int, exponent: int) -> Quantity:
    number = int(digits)
    nano = _nano(number << exponent, -places)
    # Larger binary quantities become the largest 64-bit integer without an error, as in the API server.
    nano = min(nano, MAX_INT64 * NANO)
    form = DECIMAL_SI if 0 < nano < NANO else BINARY_SI
    kept = not places and len(digits) <= 14 - exponent * 3 // 10 and number & 7 != 0
    return Quantity(-nano if sign == "-" else nano, form, text if kept else "")


def _nano(number: int, scale: int) -> int:
    """Return ``number``·10^scale in billionths, rounded up."""
    if scale >= -9:
        return number * int(10 ** (scale + 9))
    return -(-number // int(10 ** (-9 - scale)))


def _away_from_zero(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


def _canonical(nano: int, form: str) -> str:
    if nano == 0:
        return "0"
    if form == BINARY_SI and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        whole, power = nano // NANO, 0
        while whole % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY_NAMES[power]}"
    number, exponent = nano, -9
    while number % 1000 == 0:
        number, exponent = number // 1000, exponent + 3
    suffix = _DECIMAL_NAMES.get(exponent)
    if form == DECIMAL_EXPONENT or suffix is None:
        suffix = f"e{exponent}" if exponent else ""
    return f"{number}{suffix}"


ZERO: Final = Quantity(0, DECIMAL_SI, "0")

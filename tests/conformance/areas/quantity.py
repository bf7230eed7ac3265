"""Resource quantities: parse, compare, add, subtract, multiply."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.quantities import DECIMAL_SI, MAX_INT64, Quantity, QuantityError, parse

Document = dict[str, Any]


def run(given: Document) -> Document:
    try:
        return _calculate(given)
    except QuantityError as error:
        return {"error": str(error)}


def _calculate(given: Document) -> Document:
    match given["op"]:
        case "parse":
            amount = parse(given["s"])
            return {
                "canonical": str(amount),
                "format": amount.format,
                "isZero": not amount.sign(),
                "sign": amount.sign(),
            } | _values(amount)
        case "cmp":
            a, b = parse(given["a"]), parse(given["b"])
            return {"cmp": a.compare(b), "equal": a == b}
        case "add":
            amount = parse(given["a"]) + parse(given["b"])
        case "sub":
            amount = parse(given["a"]) - parse(given["b"])
        case "mul":
            amount = parse(given["a"]) * given["n"]
        case unknown:
            raise AssertionError(f"unknown operation {unknown}")
    return {"result": str(amount), "format": amount.format} | _values(amount)


def _values(amount: Quantity) -> Document:
    return {"value": amount.value(), "milliValue": amount.milli_value(), "nano": amount.nano}


def agree(expect: Document, result: Document) -> bool:
    # `exact` says whether the original's 64-bit mantissa held; ours always does.
    if "error" in expect:
        return "error" in result
    return all(result.get(key) == value for key, value in expect.items() if key != "exact")


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """An integer reading may differ where it is what the original's arithmetic gives."""
    unlike = {key for key, value in expect.items() if key != "exact" and result.get(key) != value}
    if result.get("format") == DECIMAL_SI:
        unlike -= {key for key in unlike & TEXTS if expect[key] == result[key].partition("e")[0]}
    if not unlike <= DIGITS.keys():
        return None
    if not all(expect[key] in _as_the_original_reads(result["nano"], DIGITS[key]) for key in unlike):
        return None
    large = any(abs(result[key]) > MAX_INT64 for key in DIGITS) or -result["nano"] > MAX_INT64
    return "the original overflows 64 bits" if large else "the original rounds a negative fraction upwards twice"


TEXTS = {"canonical", "result"}
"""Of more than E of anything, in decimal units, the original writes the number without a suffix."""
DIGITS = {"value": 0, "milliValue": 3}
NANO_DIGITS = 9


def _as_the_original_reads(nano: int, digits: int) -> set[int]:
    """Return what the original may read of an amount, with so many digits after the point.

    Amounts of 64 bits are read as 0 where that overflows. Larger ones are kept as an integer and a scale: that integer
    is cut to 64 bits, and rounding adds 1 to what integer division leaves, whatever the sign.
    """
    readings = {0} if abs(nano) > MAX_INT64 * 10 ** (NANO_DIGITS - digits) else set()
    for scale in range(NANO_DIGITS + 1):
        unscaled, rest = divmod(nano, 10 ** (NANO_DIGITS - scale))
        if rest:
            continue
        if scale <= digits:
            readings.add(_cut(unscaled * 10 ** (digits - scale)))
            continue
        kept = _cut(unscaled) if unscaled < MAX_INT64 else unscaled
        whole, rest = divmod(abs(kept), 10 ** (scale - digits))
        readings.add(_cut((whole if kept >= 0 else -whole) + bool(rest)))
    return readings


def _cut(number: int) -> int:
    """Return the lowest 64 bits as a signed number."""
    return (number + 2**63) % 2**64 - 2**63

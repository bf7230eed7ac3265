"""Resource quantities: parse, compare, add, subtract, multiply."""

from __future__ import annotations

from typing import Any

from controlplane.quantity import MAX_INT64, NANO, Quantity, QuantityError, parse

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
                "isZero": amount.is_zero(),
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
    unlike = {key for key, value in expect.items() if key != "exact" and result.get(key) != value}
    if not unlike <= {"value", "milliValue"}:
        return None
    reasons = {_why(expect[key], result["nano"], NANO if key == "value" else NANO // 1000) for key in unlike}
    return reasons.pop() if len(reasons) == 1 else None


def _why(expected: int, nano: int, unit: int) -> str | None:
    """Return why an integer reading of ``nano`` differs, None where nothing excuses it."""
    if abs(nano) // unit > MAX_INT64 or (nano < 0 and abs(nano) > MAX_INT64):
        return "the original overflows 64 bits"
    if nano < 0 and expected == -(-nano // unit) + 1:
        return "the original rounds a negative fraction upwards twice"
    return None

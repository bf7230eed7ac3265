"""JSONPath on a status that arrives as text."""

from __future__ import annotations

import json
import math
from typing import Any

from controlplane.apimachinery.jsonpath import JSONPathError, evaluate

Document = dict[str, Any]


def run(given: Document) -> Document:
    try:
        return {"value": evaluate(given["jsonPath"], _status(given["rawStatus"]))}
    except (JSONPathError, ValueError) as error:
        return {"error": str(error)}


def _status(text: str) -> Any:
    # Every number is read as a fraction: only so -0 stays what the original sees.
    return json.loads(text, parse_int=_fraction, parse_float=_fraction, parse_constant=_fraction)


def _fraction(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number JSON can carry")
    return number


def agree(expect: Document, result: Document) -> bool:
    if "anyOf" in expect:
        return result.get("value") in expect["anyOf"]
    if "unorderedTokens" in expect:
        return sorted(expect["unorderedTokens"]) == sorted(result.get("value", "").split())
    return "error" in result if "error" in expect else bool(result == expect)

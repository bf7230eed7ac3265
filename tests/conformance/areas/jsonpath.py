"""JSONPath on a status that arrives as text."""

from __future__ import annotations

import json
from typing import Any

from controlplane.jsonpath import JSONPathError, evaluate

Document = dict[str, Any]


def run(given: Document) -> Document:
    try:
        return {"value": evaluate(given["jsonPath"], _status(given["rawStatus"]))}
    except (JSONPathError, json.JSONDecodeError) as error:
        return {"error": str(error)}


def _status(text: str) -> Any:
    # Every number is read as a fraction: only so -0 stays what the original sees.
    return json.loads(text, parse_int=float)


def agree(expect: Document, result: Document) -> bool:
    if "anyOf" in expect:
        return result.get("value") in expect["anyOf"]
    if "unorderedTokens" in expect:
        return sorted(expect["unorderedTokens"]) == sorted(result.get("value", "").split())
    return "error" in result if "error" in expect else bool(result == expect)

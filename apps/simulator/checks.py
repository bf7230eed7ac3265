"""Functions that make validation rules. A rule takes a document and yields the causes to refuse it.

Paths are written as in messages; `[]` means each item of a list: spec.rules[].http.paths[].pathType. A rule yields
nothing if the parent of its field is missing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any

from controlplane.apimachinery import causes, quantities, selectors
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]
Rule = Callable[[Document], Iterator[Cause]]
Test = Callable[[Any], bool]

_PERCENT = re.compile(r"[0-9]+%")
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?!.*--)(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def found(document: Any, path: str, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a path with their values. None: the last field of the path is missing."""
    name, _, rest = path.partition(".")
    inner = document.get(name.removesuffix("[]")) if isinstance(document, dict) else None
    where = f"{at}.{name.removesuffix('[]')}" if at else name.removesuffix("[]")
    items = [(where, inner)]
    if name.endswith("[]"):
        items = [(f"{where}[{index}]", item) for index, item in enumerate(inner or ())]
    for place, value in items:
        if not rest:
            yield place, value
        elif isinstance(value, dict):
            yield from found(value, rest, place)


def needed(*paths: str) -> Rule:
    """Return the rule that the fields are set."""

    def rule(document: Document) -> Iterator[Cause]:
        for path in paths:
            for where, value in found(document, path):
                if value in (None, "", [], {}):
                    yield causes.required(where)

    return rule


def one_of(path: str, *choices: str) -> Rule:
    """Return the rule that a field, if set, has one of these values."""

    def rule(document: Document) -> Iterator[Cause]:
        for where, value in found(document, path):
            for item in value if isinstance(value, list) else [value]:
                if item not in (None, "", *choices):
                    yield causes.unsupported(where, item, choices)

    return rule


def between(path: str, least: int, most: int = 2**63) -> Rule:
    """Return the rule that a number, if set, is from `least` to `most`."""

    def rule(document: Document) -> Iterator[Cause]:
        for where, value in found(document, path):
            if isinstance(value, int) and not least <= value <= most:
                yield causes.invalid(where, value, f"must be between {least} and {most}, inclusive")

    return rule


def each(path: str, test: Test, rule_text: str) -> Rule:
    """Return the rule that a value, or every item of a list, passes a test."""

    def rule(document: Document) -> Iterator[Cause]:
        for where, value in found(document, path):
            for item in value if isinstance(value, list) else [value]:
                if item is not None and not test(item):
                    yield causes.invalid(where, item, rule_text)

    return rule


def keys(path: str) -> Rule:
    """Return the rule that the keys of a map are valid file names."""
    return each(
        path, lambda value: all(_KEY.fullmatch(key) for key in value), "keys are letters, digits, '-', '_', '.'"
    )


def selector(path: str) -> Rule:
    """Return the rule that a label selector has known operators and valid keys and values."""

    def rule(document: Document) -> Iterator[Cause]:
        for where, value in found(document, path):
            for match_expression in (value or {}).get("matchExpressions") or ():
                if match_expression.get("operator") not in selectors.OPERATORS:
                    yield causes.invalid(
                        f"{where}.matchExpressions", match_expression.get("operator"), "not a valid operator"
                    )

    return rule


def unique(path: str, *fields: str) -> Rule:
    """Return the rule that no two items of a list have the same values in these fields, if they have any."""

    def rule(document: Document) -> Iterator[Cause]:
        for where, value in found(document, path):
            seen = set()
            for item in value or ():
                key = tuple(item.get(field) for field in fields)
                if any(key) and key in seen:
                    yield causes.duplicate(where, "/".join(map(str, key)))
                seen.add(key)

    return rule


def is_port(value: Any) -> bool:
    """Test whether a value is the number or the name of a port."""
    if isinstance(value, int):
        return 1 <= value <= 65535
    return isinstance(value, str) and is_port_name(value)


def is_port_name(value: str) -> bool:
    """Test whether a value is a valid name of a port."""
    return _PORT_NAME.fullmatch(value) is not None


def is_share(value: Any) -> bool:
    """Test whether a value is a number of at least 0, or a percentage up to 100%."""
    if isinstance(value, int):
        return value >= 0
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None and int(value[:-1]) <= 100


def is_nothing(value: Any) -> bool:
    """Test whether a value is 0 or 0%."""
    return value in (0, "0%")


def is_positive(value: Any) -> bool:
    """Test whether a value is a quantity above zero."""
    return quantities.parse(str(value)).sign() > 0


def is_not_negative(value: Any) -> bool:
    """Test whether a value is a quantity of zero or more."""
    return quantities.parse(str(value)).sign() >= 0


def exceeds(value: Any, limit: Any) -> bool:
    """Test whether a quantity is larger than another."""
    return quantities.parse(str(value)) > quantities.parse(str(limit))


def is_subdomain(value: Any) -> bool:
    """Test whether a value is a DNS name."""
    return not selectors.dns1123_subdomain_errors(str(value))


def is_address(value: Any) -> bool:
    """Test whether a value is an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def is_network(value: Any) -> bool:
    """Test whether a value is a network like 10.0.0.0/8."""
    try:
        return "/" in value and bool(ipaddress.ip_network(value, strict=False))
    except ValueError:
        return False

"""How a type is described: its defaults, and the rules for its fields. A rule appends causes to a list.

A rule gets the value of a field, the path of the field, and the list of causes. It is not called for a field that is
missing. As in Kubernetes, an empty text means that a field is not set; only rules made with `empty=True` see it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from controlplane.apimachinery import causes, quantities, selectors
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]
Causes = list[Cause]
Rule = Callable[[Any, str, Causes], None]
Whole = Callable[[Document, str, Causes], None]
Fill = Callable[[Document], Document]
Test = Callable[[str], list[str]]

MAX_INT32 = 2147483647
_PERCENT = re.compile(r"[0-9]+%")
_ENV_NAME = re.compile(r"[^=]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Type(NamedTuple):
    """A type of the API.

    `required`: fields that must not be empty. `fields`: the rules for single fields. `whole`: rules for several
    fields. `defaults`: values of missing fields. `fill`: a function that returns the object with further defaults; it
    runs after `defaults`, and before those of the objects inside.
    """

    required: tuple[str, ...] = ()
    fields: Mapping[str, Rule] = {}
    whole: tuple[Whole, ...] = ()
    defaults: Document = {}
    fill: Fill | None = None


def is_empty(value: Any) -> bool:
    """Test whether Kubernetes takes a value for unset: 0, false, "", [], {} and null."""
    return not value


def one_of(*choices: str, empty: bool = False) -> Rule:
    """Return the rule that a text is one of the choices."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if value not in choices and (empty or value != ""):
            out.append(causes.unsupported(at, value, choices))

    return rule


def between(least: int, most: int, *, zero: bool = True) -> Rule:
    """Return the rule that a number is from `least` to `most`. Unless `zero`, 0 means that the field is not set."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if isinstance(value, int) and not least <= value <= most and (zero or value != 0):
            out.append(causes.invalid(at, value, f"must be between {least} and {most}, inclusive"))

    return rule


def at_least(least: int, words: str = "") -> Rule:
    """Return the rule that a number is not below `least`."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if isinstance(value, int) and value < least:
            out.append(causes.invalid(at, value, words or f"must be greater than or equal to {least}"))

    return rule


not_negative = at_least(0)
positive = at_least(1, "must be greater than 0")
port = between(1, 65535, zero=False)


def spelled(test: Test, *, empty: bool = False) -> Rule:
    """Return the rule that `test` finds nothing wrong with a text. `empty`: the text "" is tested too."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if empty or value != "":
            out.extend(causes.invalid(at, value, wrong) for wrong in test(value))

    return rule


dns_label = spelled(selectors.dns1123_label_errors)
subdomain = spelled(selectors.dns1123_subdomain_errors)
qualified = spelled(selectors.label_key_errors)


def each(rule: Rule) -> Rule:
    """Return the rule that every item of a list passes a rule."""

    def of_items(value: Any, at: str, out: Causes) -> None:
        for index, item in enumerate(value or ()):
            rule(item, f"{at}[{index}]", out)

    return of_items


def each_together(rule: Rule) -> Rule:
    """Return the rule that every item of a list passes a rule. The causes name the list, not the item."""

    def of_items(value: Any, at: str, out: Causes) -> None:
        for item in value or ():
            rule(item, at, out)

    return of_items


def unique(field: str) -> Rule:
    """Return the rule that no two objects of a list have the same value in a field."""

    def rule(value: Any, at: str, out: Causes) -> None:
        seen: set[Any] = set()
        for index, item in enumerate(value or ()):
            name = item.get(field)
            if name in seen and not is_empty(name):
                out.append(causes.duplicate(f"{at}[{index}].{field}", name))
            seen.add(name)

    return rule


def not_empty(words: str = "") -> Rule:
    """Return the rule that a list or map has something in it."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if not value:
            out.append(causes.required(at, words))

    return rule


def labels(value: Any, at: str, out: Causes) -> None:
    """Append a cause for every invalid key and value of labels; each names the map."""
    for key, text in (value or {}).items():
        out.extend(causes.invalid(at, key, wrong) for wrong in selectors.label_key_errors(key))
        out.extend(causes.invalid(at, text, wrong) for wrong in selectors.label_value_errors(text or ""))


def annotation_keys(value: Any, at: str, out: Causes) -> None:
    """Append a cause for every invalid key of annotations."""
    for key in value or ():
        out.extend(causes.invalid(at, key, wrong) for wrong in selectors.label_key_errors(key.lower()))


def port_name_errors(value: str) -> list[str]:
    """Return what is wrong with the name of a port."""
    errors = []
    if len(value) > 15:
        errors.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def port_or_name(value: Any, at: str, out: Causes) -> None:
    """Append a cause if a value is neither a port nor the name of a port."""
    if isinstance(value, int):
        if not 1 <= value <= 65535:
            out.append(causes.invalid(at, value, "must be between 1 and 65535, inclusive"))
    else:
        out.extend(causes.invalid(at, value, wrong) for wrong in port_name_errors(value))


def share_errors(value: Any) -> list[str]:
    """Return what is wrong with a number of pods or a percentage of them."""
    if isinstance(value, int):
        return [] if value >= 0 else ["must be greater than or equal to 0"]
    if not _PERCENT.fullmatch(value):
        return ["a valid percent string must be a numeric string followed by an ending '%'"]
    return [] if int(value[:-1]) <= 100 else ["must not be greater than 100%"]


def share(value: Any, at: str, out: Causes) -> None:
    """Append a cause if a value is neither a number of at least 0 nor a percentage up to 100%."""
    out.extend(causes.invalid(at, value, wrong) for wrong in share_errors(value))


def address_errors(value: str) -> list[str]:
    """Return what is wrong with an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def network_errors(value: str) -> list[str]:
    """Return what is wrong with a network in CIDR notation."""
    try:
        if "/" in value:
            ipaddress.ip_network(value, strict=False)
            return []
    except ValueError:
        pass
    return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def config_key_errors(value: str) -> list[str]:
    """Return what is wrong with a key of a ConfigMap or Secret."""
    if len(value) > 253:
        return ["must be no more than 253 characters"]
    if not _CONFIG_KEY.fullmatch(value):
        return [
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        ]
    return ["must not be '.' or '..'"] if value in (".", "..") else []


def env_name_errors(value: str) -> list[str]:
    """Return what is wrong with the name of an environment variable: printable ASCII without "="."""
    if _ENV_NAME.fullmatch(value) and value.isascii() and value.isprintable():
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def wildcard_errors(value: str) -> list[str]:
    """Return what is wrong with a DNS name whose first label may be "*"."""
    if "*" in value:
        return [] if _WILDCARD.fullmatch(value) else ["a wildcard DNS-1123 subdomain must start with '*.'"]
    return selectors.dns1123_subdomain_errors(value)


def sign(value: Any) -> int:
    """Return -1, 0 or 1: the sign of a quantity."""
    if isinstance(value, float):  # it may be too small to be read as a quantity
        return (value > 0) - (value < 0)
    return quantities.parse(str(value)).sign()


def exceeds(value: Any, limit: Any) -> bool:
    """Test whether a quantity is larger than another."""
    return quantities.parse(str(value)) > quantities.parse(str(limit))


def present(obj: Document, fields: Collection[str]) -> list[str]:
    """Return the fields that an object has."""
    return [field for field in fields if obj.get(field) is not None]

"""Odd values, and documents with odd values in them."""

from __future__ import annotations

import copy
import random
from typing import Any

NAMES = ("one", "two", "web", "a.b-c.example.org", "x" * 253, "system:node:one")
ODD_NAMES = (
    *(
        "Web",
        "x" * 254,
        "-",
        ".",
        "..",
        "a b",
        "a/b",
        "a%2fb",
        "ä",
        "日本",
        "💥",
        "\u202e",
        "\0",
        "\n",
        "a\0b",
        "'",
        '"',
        ";--",
    ),
    *(
        "%",
        "%%",
        "*",
        "?",
        "#",
        "{}",
        "{0}",
        "%s%n",
        "[0]",
        "<b>",
        "null",
        "true",
        "-1",
        "0x10",
        "\ud800",
        "a:b",
        "~",
        "\\",
        ".",
    ),
)
NAMESPACES = ("fuzz-a", "fuzz-b")
TEXTS = (
    *NAMES,
    *ODD_NAMES,
    "",
    " ",
    "1",
    "1e400",
    "NaN",
    "9" * 40,
    "2026-01-01T00:00:00Z",
    "2026-13-01T25:00:00Z",
    "x" * 5000,
)
NUMBERS = (
    0,
    1,
    -1,
    3,
    2**31,
    2**31 - 1,
    -(2**31) - 1,
    2**53,
    2**63,
    2**64,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
)
QUANTITIES = ("1", "100m", "1Gi", "-1", "1e99", "1.5.5", "1n", "0.1Ki", "9" * 30, "١")


def deep(levels: int) -> Any:
    """Return a value that is nested so many levels deep."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


def name(chance: random.Random) -> str:
    """Return a name that mostly can exist."""
    if chance.random() < 0.6:
        return NAMES[0]
    return chance.choice(NAMES) if chance.random() < 0.7 else chance.choice(ODD_NAMES)


def value(chance: random.Random) -> Any:
    """Return any value that a body may hold."""
    match chance.randrange(12):
        case 0:
            return None
        case 1:
            return chance.choice((True, False))
        case 2 | 3:
            return chance.choice(NUMBERS)
        case 4:
            return chance.choice(QUANTITIES)
        case 5:
            return chance.choice(([], {}, [[]], [None], [{}], {"": None}, {"a": {}}, {"\0": 1}, {"$patch": "delete"}))
        case 6:
            return [value(chance) for _ in range(chance.randrange(4))]
        case 7:
            return {chance.choice(TEXTS): value(chance) for _ in range(chance.randrange(3))}
        case 8:
            return deep(chance.choice((3, 40, 130))) if chance.random() < 0.3 else {}
        case _:
            return chance.choice(TEXTS)


def bent(chance: random.Random, document: Any, changes: int) -> Any:
    """Return a copy of a document with so many changes at random places."""
    made = copy.deepcopy(document)
    for _ in range(changes):
        _change(chance, made)
    return made


def _change(chance: random.Random, inner: Any) -> None:
    while True:
        if not isinstance(inner, dict | list) or not inner:
            return
        place = chance.choice(sorted(inner, key=str) if isinstance(inner, dict) else range(len(inner)))
        held = inner[place]
        if isinstance(held, dict | list) and held and chance.random() < 0.75:
            inner = held
            continue
        match chance.randrange(8):
            case 0:
                del inner[place]
            case 1 if isinstance(inner, dict):
                inner[chance.choice(TEXTS)] = held
            case 2 if isinstance(inner, list):
                inner.append(copy.deepcopy(held))
            case 3:
                inner[place] = [held]
            case _:
                inner[place] = value(chance)
        return

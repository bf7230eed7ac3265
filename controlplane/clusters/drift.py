"""Finds what a change on a member did to fields that a manifest sets [member-drift].

Whether the change is put back is decided in `clusters.changed_objects`.

Only fields of the manifest are compared, so what others add to an object stays. An object may differ from its manifest
right after an apply, for example because the member writes a quantity in another form. `apps.members.answers` remembers
these differences, or asks the member by a dry run, and they are no drift.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final, NamedTuple

from controlplane.apimachinery import quantities

Document = dict[str, Any]

MOST_SHOWN: Final = 8  # differences that a message names; it counts the others
LONGEST_VALUE: Final = 60  # characters of a value that a message shows
_KEYS: Final = ("name", "key", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "ip", "type", "kind")
"""Fields that identify the items of a list, in the order in which they are tried."""
_UNCOMPARED: Final = frozenset(("apiVersion", "kind", "status", "metadata", "stringData"))
_QUANTITIES: Final = frozenset(("limits", "requests", "hard", "capacity", "overhead"))
_SECRET_FIELDS: Final = frozenset(("data", "binaryData", "value", "env"))


class Difference(NamedTuple):
    """A field that is not as the manifest wants it. None: there is no value."""

    path: str
    wanted: Any
    held: Any


def differences(wanted: Document, held: Document) -> list[Difference]:
    """Return the fields of a manifest that an object of a member does not have so, in the order of their paths."""
    found: list[Difference] = []
    metadata, present = wanted.get("metadata") or {}, held.get("metadata") or {}
    for part in ("labels", "annotations"):
        _compare(metadata.get(part) or {}, present.get(part) or {}, f"metadata.{part}", found)
    content = _content(wanted)
    _compare(content, {name: held.get(name) for name in content}, "", found)
    return sorted(found, key=lambda one: one.path)


def described(found: list[Difference], *, kind: str) -> str:
    """Return differences as one text, without values that may be secret."""
    shown = [_shown(one, secret=kind == "Secret") for one in found[:MOST_SHOWN]]
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return ", ".join(shown) + more


def _content(wanted: Document) -> Document:
    """Return the fields of a manifest beside its metadata, as a member stores them."""
    content = {name: value for name, value in wanted.items() if name not in _UNCOMPARED}
    texts = wanted.get("stringData") if wanted.get("kind") == "Secret" else None
    if isinstance(texts, dict):
        coded = {name: b64encode(text.encode()).decode() for name, text in texts.items() if isinstance(text, str)}
        content["data"] = {**(content.get("data") or {}), **coded}
    return content


def _compare(wanted: Any, held: Any, path: str, found: list[Difference]) -> None:
    if wanted is None or (held is None and wanted in ({}, [], "", 0, False)):
        return
    if isinstance(wanted, dict) and isinstance(held, dict):
        for name, value in wanted.items():
            _compare(value, held.get(name), f"{path}.{name}" if path else str(name), found)
    elif isinstance(wanted, list) and isinstance(held, list):
        _compare_lists(wanted, held, path, found)
    elif not _is_equal(wanted, held, path):
        found.append(Difference(path, wanted, held))


def _compare_lists(wanted: list[Any], held: list[Any], path: str, found: list[Difference]) -> None:
    """Compare items by what identifies them. A list whose items nothing identifies is compared as a whole."""
    key = next((key for key in _KEYS if _identifies(key, wanted) and _identifies(key, held)), None)
    if key is not None:
        items = {item[key]: item for item in held}
        for item in wanted:
            _compare(item, items.get(item[key]), f"{path}[{item[key]}]", found)
    elif len(wanted) != len(held):
        found.append(Difference(path, wanted, held))
    else:
        for index, (item, other) in enumerate(zip(wanted, held, strict=True)):
            _compare(item, other, f"{path}[{index}]", found)


def _identifies(key: str, items: list[Any]) -> bool:
    """Test whether each item has a value of its own at a key, as containers have names."""
    values = [item.get(key) if isinstance(item, dict) else None for item in items]
    plain = all(isinstance(value, str | int) for value in values)
    return plain and len(set(values)) == len(values)


def _is_equal(wanted: Any, held: Any, path: str) -> bool:
    if wanted == held and isinstance(wanted, bool) == isinstance(held, bool):
        return True
    if not isinstance(held, str | int | float) or not _QUANTITIES & set(path.split(".")):
        return False
    try:
        return quantities.parse(str(wanted)) == quantities.parse(str(held))
    except ValueError:
        return False


def _shown(one: Difference, *, secret: bool) -> str:
    names = {part.partition("[")[0] for part in one.path.split(".")}
    hidden = secret or bool(names & _SECRET_FIELDS) or isinstance(one.wanted, dict | list)
    if one.held is None:
        return f"{one.path} was removed"
    if hidden or isinstance(one.held, dict | list):
        return f"{one.path} was changed"
    return f"{one.path} is {_value(one.held)} instead of {_value(one.wanted)}"


def _value(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"

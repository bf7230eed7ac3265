"""Documents of the vectors as the product's types."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def typed(document: Any, type_: type[T]) -> T:
    """Return a document as a value of the type; null members count as absent, as Go reads them."""
    return msgspec.convert(without_nulls(document), type_)


def without_nulls(document: Any) -> Any:
    """Return the document without members that are null."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def plain(value: Any) -> Any:
    """Return a typed value as the document it is written as."""
    return msgspec.json.decode(msgspec.json.encode(value))

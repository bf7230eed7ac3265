"""Values that users write: what they wrote stays in the stored document, and declared defaults are stored with it.

msgspec leaves a field out of the document if its value *is* the default (the same Python object). A decoded 0, "",
false or [] is the same object as a literal default, so a value that a user wrote would disappear, and `kubectl apply`
would miss it for ever. `AsWritten` therefore replaces the defaults of a type when the type is made:

- An empty default ("", 0, False, (), {}) becomes one of the ABSENT objects below. They are equal to the empty value,
  and no decoded value is the same object. An absent field stays absent and a written field stays written.
- Any other default is declared: a function produces it, and msgspec never leaves out such a field, so it is stored.

Reading and writing cost no more than before. Code that makes such a value leaves empty fields out: a literal "" or 0
counts as written.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from controlplane.apimachinery.unopened import PLACEHOLDER, Unopened


class _Text(str):
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_TEXT"


class _Number(int):
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_NUMBER"


class _Flag(int):
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_FLAG"

    def __repr__(self) -> str:
        return "False"


class _List(tuple[Any, ...]):
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_LIST"


class _Map(dict[Any, Any]):
    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_MAP"


ABSENT_TEXT: Final = _Text()
ABSENT_NUMBER: Final = _Number()
ABSENT_FLAG: Final = _Flag()
ABSENT_LIST: Final = _List()
ABSENT_MAP: Final = _Map()


class AsWritten(msgspec.StructMeta):
    """The metaclass of types that users write. It gives their fields the defaults this module describes."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> type:
        fields = {key: _as_written(value) for key, value in namespace.items() if not key.startswith("_")}
        return super().__new__(mcls, name, bases, {**namespace, **fields}, **options)


def declared(value: Any) -> Any:
    """Return the default of a field that is always stored. Needed for an empty default that is declared: priority 0."""
    return msgspec.field(default_factory=lambda: value)


def plain(value: Any) -> Any:
    """Return an ABSENT object as the plain value it stands for: the `enc_hook` of encoders.

    An ABSENT object reaches an encoder where code copied it into another type. A value that cannot be decrypted is
    shown as a placeholder. Raises NotImplementedError for all else.
    """
    match value:
        case _Text():
            return ""
        case _Flag():
            return False
        case _Number():
            return 0
        case Unopened():
            return PLACEHOLDER
    raise NotImplementedError(f"objects of type {type(value).__name__} have no form in JSON")


def _as_written(value: Any) -> Any:
    """Return what stands for a field's default; anything that is no default of a field is returned as it is."""
    if isinstance(value, _FIELD) and value.default is not msgspec.NODEFAULT:
        inner = _as_written(value.default)
        if isinstance(inner, _FIELD):
            return msgspec.field(default_factory=inner.default_factory, name=value.name)
        return msgspec.field(default=inner, name=value.name)
    for type_, absent in _ABSENT.items():
        if type(value) is type_:
            return declared(value) if value else absent
    return value


_FIELD: Final = type(msgspec.field())
_ABSENT: Final[dict[type, Any]] = {
    str: ABSENT_TEXT,
    bool: ABSENT_FLAG,
    int: ABSENT_NUMBER,
    float: 0.0,
    tuple: ABSENT_LIST,
    dict: ABSENT_MAP,
}

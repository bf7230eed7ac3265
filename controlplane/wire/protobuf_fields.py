"""Encodes single protobuf fields: texts, messages and flags."""

from __future__ import annotations


def text(number: int, value: str) -> bytes:
    """Return a field with a text; nothing for "", the value of a field that is missing."""
    return message(number, value.encode()) if value else b""


def flag(number: int, value: bool) -> bytes:
    """Return a field with a boolean; nothing for False."""
    return _varint(number << 3) + b"\x01" if value else b""


def message(number: int, value: bytes) -> bytes:
    """Return a field with an encoded message."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)

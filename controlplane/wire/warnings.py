"""Warnings as values of the Warning header (RFC 7234), bounded as the Kubernetes API server bounds them."""

from __future__ import annotations

from collections.abc import Iterable

MAX_TOTAL = 4 * 1024
"""Characters of all warnings together. Above it each is cut to MAX_ITEM, and the rest are left out."""
MAX_ITEM = 256


def warning_values(warnings: Iterable[str]) -> list[str]:
    """Return the header's values: every warning once, in order. Clients and proxies refuse headers without a bound."""
    texts = [text for text in dict.fromkeys(map(_plain, warnings)) if text]
    if sum(map(len, texts)) > MAX_TOTAL:
        texts = [text if len(text) <= MAX_ITEM else f"{text[: MAX_ITEM - 3]}..." for text in texts]
    values: list[str] = []
    total = 0
    for text in texts:
        total += len(text)
        if total > MAX_TOTAL:
            break
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        values.append(f'299 - "{escaped}"')
    return values


def _plain(text: str) -> str:
    """Return a warning as one line of printable ASCII."""
    ascii_ = " ".join(text.split()).encode("ascii", "replace").decode()
    return "".join(char if char.isprintable() else "?" for char in ascii_)

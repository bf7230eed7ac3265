"""Values of the Warning header (RFC 7234) with the size limits of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable

MAX_TOTAL = 4 * 1024
"""Maximum characters of all warnings together. If they are longer, each is cut to MAX_ITEM, and the rest left out."""
MAX_ITEM = 256


def warning_values(warnings: Iterable[str]) -> list[str]:
    """Return the values of the header: each warning once, in order.

    Clients and proxies refuse headers that are too long.
    """
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
    """Return a warning as a line of printable ASCII."""
    ascii_ = " ".join(text.split()).encode("ascii", "replace").decode()
    return "".join(char if char.isprintable() else "?" for char in ascii_)

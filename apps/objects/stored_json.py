"""SQL of migrations that looks into stored documents."""

from __future__ import annotations

import re

_AS_JSON = re.compile(r"((?:\w+\.)?doc)::jsonb")


def beside_nul(statement: str) -> str:
    """Return a statement that reads documents as JSON although they have a NUL, which PostgreSQL refuses there.

    Users may write one into any text. It is read as a space; what is looked for has none.
    """
    return _AS_JSON.sub(r"replace(\1, '\\u0000', '\\u0020')::jsonb", statement)

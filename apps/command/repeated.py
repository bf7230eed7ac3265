"""Orders that take something away, and may be repeated: what is gone already is no error."""

from __future__ import annotations

from apps.command.errors import Document, Refused
from apps.command.run import Run


def existing(run: Run, path: str) -> Document | None:
    """Return an object; None: there is none."""
    try:
        return run.api.get(path)
    except Refused as error:
        if error.http != 404:
            raise
        return None


def removed(run: Run, path: str) -> Document:
    """Delete an object and return the answer of the API; {}: the object was gone already."""
    try:
        return run.api.delete(path)
    except Refused as error:
        if error.http != 404:
            raise
        return {}

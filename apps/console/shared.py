"""Shared parts: live parts that are the same for all browsers with equal rights are rendered once and pushed to all.

A page with `shared_part` computes its variables from the URL and from rights, not from a request. The thread of the
board renders the part when its subjects have changed. If its fingerprint is the same as before, nothing is sent: ages
alone change nothing, because browsers count them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final, NamedTuple, Protocol

import orjson
from django.template.loader import render_to_string

MAX_PARTS: Final = 64  # rendered parts of a process; those that were not asked for longest are dropped


class SharedPart(Protocol):
    """A live part that depends on nothing but itself: pages with equal keys share what is rendered."""

    name: str

    @property
    def key(self) -> Hashable:
        """What the part depends on: for example the rights of the reader."""

    def variables(self) -> dict[str, Any]:
        """Return the variables of the template; "fingerprint" is their content without ages."""


class _Rendered(NamedTuple):
    round: int  # of the board, in which the part was rendered
    fingerprint: Any
    document: bytes


class SharedParts:
    """The rendered parts of a process. May be used from any thread."""

    def __init__(self) -> None:
        self._rendered: OrderedDict[Hashable, _Rendered] = OrderedDict()
        self._lock = threading.Lock()

    def document(self, part: SharedPart, *, round_: int) -> tuple[Any, bytes]:
        """Return the fingerprint of a part, and its name and HTML as JSON, rendered at most once in each round."""
        with self._lock:
            known = self._rendered.get(part.key)
            if known is None or known.round != round_:
                variables = part.variables()
                if known is None or known.fingerprint != variables["fingerprint"]:
                    known = _Rendered(round_, variables["fingerprint"], _document(part.name, variables))
                else:
                    known = known._replace(round=round_)
                self._rendered[part.key] = known
            self._rendered.move_to_end(part.key)
            while len(self._rendered) > MAX_PARTS:
                self._rendered.popitem(last=False)
            return known.fingerprint, known.document


def _document(name: str, variables: dict[str, Any]) -> bytes:
    html = render_to_string(f"console/parts/{name}.html", variables)
    return orjson.dumps({"name": name, "html": html})


SHARED: Final = SharedParts()

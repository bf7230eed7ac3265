"""Bearer tokens that were found valid a moment ago, so that a client with many requests costs few checks.

A check is used for less than a second. A write of this process that may end a credential makes it forget all checks.
So a revocation takes effect here at once, and in other processes within that second.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from apps.api.bearer import Credential
from apps.api.clock import ticks
from controlplane.wire.request import parse_path

FRESH_SECONDS: Final = 0.5  # then a check is repeated
VALID_SECONDS: Final = 0.9  # longest time between a check and a request that it admits
MOST_KNOWN: Final = 10_000
READS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
# What tokens depend on: see the queries of tokens and service_accounts.
HOLDERS: Final = frozenset(("serviceaccounts", "secrets", "pods", "clusters", "namespaces"))


class Checked(NamedTuple):
    """A valid credential, and when its check began."""

    credential: Credential
    at: float


class Remembered:
    """The checks of one process. May be used from any thread. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = ticks) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checked: OrderedDict[bytes, Checked] = OrderedDict()
        self._writes = 0  # after which nothing from before counts

    def find(self, header: str, *, within: float = FRESH_SECONDS) -> Checked | None:
        """Return the check of a header Authorization that is not older than `within` seconds; None: there is none."""
        found = self._checked.get(_key(header))
        return found if found is not None and self._clock() - found.at < within else None

    def is_fresh(self, checked: Checked) -> bool:
        """Test whether a check need not be repeated yet."""
        return self._clock() - checked.at < FRESH_SECONDS

    def check(self, header: str, check: Callable[[], Credential | None]) -> Credential | None:
        """Return what `check` returns, and remember a valid credential, unless a write came between."""
        writes, began = self._writes, self._clock()
        credential = check()
        with self._lock:
            if credential is None:
                self._checked.pop(_key(header), None)
            elif writes == self._writes:
                self._checked[_key(header)] = Checked(credential, began)
                self._checked.move_to_end(_key(header))
                if len(self._checked) > MOST_KNOWN:
                    self._checked.popitem(last=False)
        return credential

    def forget(self) -> None:
        """Forget all checks, also those that have begun."""
        with self._lock:
            self._writes += 1
            self._checked.clear()


REMEMBERED: Final = Remembered()


def may_end_credentials(environ: Mapping[str, Any], *, is_object: bool) -> bool:
    """Test whether a request may end a login. `is_object`: it writes stored objects and nothing else."""
    if environ["REQUEST_METHOD"] in READS:
        return False
    place = parse_path(environ["PATH_INFO"].strip("/").split("/")) if is_object else None
    return place is None or place.plural in HOLDERS


def _key(header: str) -> bytes:
    return hashlib.sha256(header.encode("latin-1", "replace")).digest()

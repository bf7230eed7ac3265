"""The kinds users brought, known to this process: read again where a CustomResourceDefinition came, changed or went."""

from __future__ import annotations

import time
from functools import lru_cache

from apps.objects.models import Object
from apps.objects.store import store
from controlplane.engine.state import State
from controlplane.kind import KINDS, Kind
from controlplane.propagation.definitions import is_refused, kind_of
from controlplane.wire.definition import KEY

FRESH_SECONDS = 0.5
Said = tuple[str, str, int, bool, bool]  # what of a definition its kind depends on: whose, generation, going, refused


class Definitions:
    """Looks at the versions of all definitions at most every half second, and at the definitions where those moved."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._versions: dict[str, int] = {}
        self._kinds: dict[Said, Kind | None] = {}
        self._read_at = -FRESH_SECONDS

    def refresh(self, *, at_once: bool = False) -> None:
        """Know what is defined now; `at_once` for somebody who asks for a kind this process has not heard of."""
        if not at_once and time.monotonic() - self._read_at < FRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        versions = dict(Object.objects.filter(kind=KEY).values_list("name", "resource_version"))
        if versions != self._versions:
            KINDS.set_custom(self._brought())
            self._versions = versions

    def _brought(self) -> list[Kind]:
        """Return the kinds there are; one whose definition says the same as before stays as it is, with what was
        compiled of it."""
        kinds: dict[Said, Kind | None] = {}
        for one in self._state.list(KEY):  # in order of their names
            place = one.metadata
            said = (place.name, place.uid, place.generation, place.deletion_timestamp is not None, is_refused(one))
            kinds[said] = self._kinds[said] if said in self._kinds else kind_of(one)
        self._kinds = kinds
        return [kind for kind in kinds.values() if kind is not None]


@lru_cache(maxsize=1)
def definitions() -> Definitions:
    """Return this process's definitions, read through its store."""
    return Definitions(store())

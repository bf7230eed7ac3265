"""The kinds that users define with CustomResourceDefinitions, as far as this process knows them."""

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
# The parts of a definition on which its kind depends: name, uid, generation, whether it is being deleted, or refused.
Fingerprint = tuple[str, str, int, bool, bool]


class Definitions:
    """Keeps KINDS up to date: reads the versions of all definitions at most every half second.

    The definitions themselves are read only if a version has changed.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._versions: dict[str, int] = {}
        self._kinds: dict[Fingerprint, Kind | None] = {}
        self._read_at = -FRESH_SECONDS

    def refresh(self, *, at_once: bool = False) -> None:
        """Bring KINDS up to date. `at_once`: even if that was done within the last half second.

        A request for a kind that this process does not know sets `at_once`.
        """
        if not at_once and time.monotonic() - self._read_at < FRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        versions = dict(Object.objects.filter(kind=KEY).values_list("name", "resource_version"))
        if versions != self._versions:
            KINDS.set_custom(self._defined())
            self._versions = versions

    def _defined(self) -> list[Kind]:
        """Return the kinds of all definitions. The kind of an unchanged definition is the same object as before, so
        that its compiled schema is not lost."""
        kinds: dict[Fingerprint, Kind | None] = {}
        for definition in self._state.list(KEY):  # in order of their names
            meta, refused = definition.metadata, is_refused(definition)
            key = (meta.name, meta.uid, meta.generation, meta.deletion_timestamp is not None, refused)
            kinds[key] = self._kinds[key] if key in self._kinds else kind_of(definition)
        self._kinds = kinds
        return [kind for kind in kinds.values() if kind is not None]


@lru_cache(maxsize=1)
def definitions() -> Definitions:
    """Return the definitions as this process knows them."""
    return Definitions(store())

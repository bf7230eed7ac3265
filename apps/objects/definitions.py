"""The kinds that users define with CustomResourceDefinitions, as far as this process knows them."""

from __future__ import annotations

from functools import lru_cache

from apps.objects.models import Object
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from controlplane.engine.state import State
from controlplane.kind import KINDS, Kind
from controlplane.propagation.definitions import is_refused, kind_of
from controlplane.wire.definition import KEY

# The parts of a definition on which its kind depends: name, uid, generation, whether it is being deleted, or refused.
Fingerprint = tuple[str, str, int, bool, bool]


class Definitions(Refreshed):
    """Keeps KINDS up to date: reads the versions of all definitions at most every half second.

    The definitions themselves are read only if a version has changed. A request for a kind that this process does not
    know reads at once.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._versions: dict[str, int] = {}
        self._kinds: dict[Fingerprint, Kind | None] = {}

    def _read(self) -> None:
        self.look(dict(Object.objects.filter(kind=KEY).values_list("name", "resource_version")))

    def look(self, versions: dict[str, int]) -> None:
        """Read the definitions if these versions are others than those that were read last."""
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

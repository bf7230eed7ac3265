"""The settings in force: those of the environment, overridden by FailoverConfiguration/default within a second."""

from __future__ import annotations

import logging
import time
from functools import lru_cache, partial

from msgspec.structs import replace

from apps.objects import origin
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.definitions import definitions
from apps.objects.interpreter_rules import RULES, interpreter_rules
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from config import env
from config.product import from_environment
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.restored import RestoreHold, settings_during
from controlplane.engine.state import State
from controlplane.kinds.configuration import NAME
from controlplane.settings import Settings
from controlplane.settings.checks import SettingError, with_overrides
from controlplane.wire.definition import KEY as DEFINITION

log = logging.getLogger(__name__)

REF = Ref(kinds.FAILOVER_CONFIGURATION, "", NAME)
LOOKED_AT = (kinds.FAILOVER_CONFIGURATION, DEFINITION, *RULES)
_LOOK = f"""
    SELECT kind, name, resource_version, NULL::timestamptz, NULL::text, NULL::boolean
    FROM objects_object WHERE kind = ANY(%s)
    UNION ALL SELECT NULL, NULL, NULL, held.* FROM ({origin.HELD}) AS held"""


@lru_cache(maxsize=1)
def base() -> Settings:
    """Return the settings of the environment and log warnings about them. Raises EnvironmentInvalid."""
    settings, warnings = from_environment(env.variables())
    for warning in warnings:
        log.warning("%s", warning)
    return settings


class Configuration(Refreshed):
    """Reads FailoverConfiguration/default at most every half second. If it is invalid, its last valid state counts.

    While nothing at all is written, one statement finds that out, and nothing else is read. While other objects are
    written, a second statement reads the versions.

    A process that has not yet read a valid object evicts nothing: the object that it cannot read may have switched
    failover off.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._version = -1  # of the stored object; 0: there is none, -1: not read yet
        self._settings = replace(base(), resource_eviction_rate=0.0, secondary_resource_eviction_rate=0.0)
        self._held: RestoreHold | None = None
        self._seen: tuple[object, ...] | None = None  # what `origin.seen` returned before the last reading

    def held(self) -> RestoreHold | None:
        """Return since when, and why, writes to members are paused after a restore; None: they are not."""
        self.settings()
        return self._held

    def settings(self, *, reread: bool = False) -> Settings:
        """Return the settings in force now. `reread`: read them even if they were read within the last half second.

        The kinds that users define, and their rules for interpreting kinds, are read at the same time. While writes to
        members are paused after a restore, the settings let no controller run that writes to members.
        """
        self.refresh(at_once=reread)
        return self.known

    @property
    def known(self) -> Settings:
        """Return the settings as they were read `age` seconds ago. Reads nothing."""
        return self._settings if self._held is None else settings_during(self._held, self._settings)

    def _read(self) -> None:
        seen = origin.seen()
        if seen is None or seen != self._seen:
            self._read_all()
            self._seen = seen

    def _read_all(self) -> None:
        began = time.monotonic()
        versions, held = _look()
        definitions().take_over(partial(definitions().look, versions[DEFINITION]), as_of=began)
        rules = {(kind, name): version for kind in RULES for name, version in versions[kind].items()}
        interpreter_rules().take_over(partial(interpreter_rules().look, rules), as_of=began)
        self._note_pause(held)
        version = versions[kinds.FAILOVER_CONFIGURATION].get(NAME, 0)
        if version != self._version:
            stored = self._state.get([REF]).get(REF)
            self._version = version
            try:
                self._settings = with_overrides(base(), {} if stored is None else stored.spec)
            except SettingError as error:
                message = "FailoverConfiguration/%s is invalid, the earlier settings stay (%g evictions a second): %s"
                log.error(message, NAME, self._settings.resource_eviction_rate, error)

    def _note_pause(self, held: RestoreHold | None) -> None:
        before, self._held = self._held, held
        if self._held is not None and before is None:
            log.error("%s", self._held.message)
        elif self._held is None and before is not None:
            log.warning("the restored state was confirmed by a user: member clusters are written to again")


def _look() -> tuple[dict[str, dict[str, int]], RestoreHold | None]:
    """Return the versions of the objects that settings, kinds and rules come from, by kind and name, and the pause."""
    versions: dict[str, dict[str, int]] = {kind: {} for kind in LOOKED_AT}
    held = None
    with binary_cursor() as cursor:
        for kind, name, version, *hold in cursor.run(_LOOK, (texts(LOOKED_AT),)):
            if kind is None:
                held = RestoreHold(*hold)
            else:
                versions[kind][name] = version
    return versions, held


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return the configuration as this process knows it."""
    return Configuration(store())

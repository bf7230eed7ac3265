"""The settings in force: the environment's, FailoverConfiguration/default laid over them, fresh within a second."""

from __future__ import annotations

import logging
import time
from functools import lru_cache

from msgspec.structs import replace

from apps.objects import origin
from apps.objects.definitions import definitions
from apps.objects.store import store
from config import env
from config.product import from_environment
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.restored import RestoreHold, observing_settings
from controlplane.engine.state import State
from controlplane.kinds.configuration import NAME
from controlplane.settings import SettingError, Settings, with_overrides

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
REF = Ref(kinds.FAILOVER_CONFIGURATION, "", NAME)


@lru_cache(maxsize=1)
def base() -> Settings:
    """Return the settings of the environment, warning of what is accepted without effect. Raises EnvironmentInvalid."""
    settings, warnings = from_environment(env.variables())
    for warning in warnings:
        log.warning("%s", warning)
    return settings


class Configuration:
    """Reads the object at most every half second; keeps the last good one where the object cannot be used.

    A process that never read a good one evicts nothing: after a start in another environment, with the object at odds
    with it, the gate may be one that somebody closed.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._version = "-"
        self._settings = replace(base(), resource_eviction_rate=0.0, secondary_resource_eviction_rate=0.0)
        self._read_at = -FRESH_SECONDS
        self._held: RestoreHold | None = None

    def held(self) -> RestoreHold | None:
        """Return why members are left alone after a restore; None: they are served."""
        self.settings()
        return self._held

    def settings(self, *, anew: bool = False) -> Settings:
        """Return the settings in force now. `anew`: read them even if they were read within the last half second.

        The kinds that users brought are read on the same occasion. After a restore only observing controllers run.
        """
        if anew or time.monotonic() - self._read_at >= FRESH_SECONDS:
            self._read()
        return self._settings if self._held is None else observing_settings(self._settings)

    def _read(self) -> None:
        self._read_at = time.monotonic()
        definitions().refresh()
        self._look_whether_held()
        found = self._state.get([REF]).get(REF)
        version = "" if found is None else found.metadata.resource_version
        if version != self._version:
            self._version = version
            try:
                self._settings = with_overrides(base(), {} if found is None else found.spec)
            except SettingError as error:
                told = "FailoverConfiguration/%s is not used, the settings before it stay (%g evictions a second): %s"
                log.error(told, NAME, self._settings.resource_eviction_rate, error)

    def _look_whether_held(self) -> None:
        before, self._held = self._held, origin.held()
        if self._held is not None and before is None:
            log.error("%s", self._held.message)
        elif self._held is None and before is not None:
            log.warning("a person has confirmed the restored state: members are served again")


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return this process's configuration, read through its store."""
    return Configuration(store())

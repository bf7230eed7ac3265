"""The settings in force: the environment's, FailoverConfiguration/default laid over them, fresh within a second."""

from __future__ import annotations

import logging
import os
import time
from functools import lru_cache

from msgspec.structs import replace

from apps.objects.definitions import definitions
from apps.objects.store import store
from config.product import from_environment
from controlplane import kinds
from controlplane.kinds.configuration import NAME
from controlplane.meta import Ref
from controlplane.settings import SettingError, Settings, with_overrides
from controlplane.state import State

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
REF = Ref(kinds.FAILOVER_CONFIGURATION, "", NAME)


@lru_cache(maxsize=1)
def base() -> Settings:
    """Return the settings of the environment, warning of what is accepted without effect. Raises EnvironmentInvalid."""
    settings, warnings = from_environment(os.environ)
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

    def settings(self, *, anew: bool = False) -> Settings:
        """Return the settings in force now; what kinds users brought is looked at on the same occasion. `anew`: they
        are read, however lately they were."""
        if not anew and time.monotonic() - self._read_at < FRESH_SECONDS:
            return self._settings
        self._read_at = time.monotonic()
        definitions().refresh()
        found = self._state.get([REF]).get(REF)
        version = "" if found is None else found.metadata.resource_version
        if version != self._version:
            self._version = version
            try:
                self._settings = with_overrides(base(), {} if found is None else found.spec)
            except SettingError as error:
                told = "FailoverConfiguration/%s is not used, the settings before it stay (%g evictions a second): %s"
                log.error(told, NAME, self._settings.resource_eviction_rate, error)
        return self._settings


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return this process's configuration, read through its store."""
    return Configuration(store())

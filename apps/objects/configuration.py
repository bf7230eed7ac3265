"""The settings in force: those of the environment, overridden by FailoverConfiguration/default within a second."""

from __future__ import annotations

import logging
from functools import lru_cache

from msgspec.structs import replace

from apps.objects import origin
from apps.objects.definitions import definitions
from apps.objects.interpreter_rules import interpreter_rules
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from config import env
from config.product import from_environment
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.restored import RestoreHold, observing_settings
from controlplane.engine.state import State
from controlplane.kinds.configuration import NAME
from controlplane.settings import Settings
from controlplane.settings.checks import SettingError, with_overrides

log = logging.getLogger(__name__)

REF = Ref(kinds.FAILOVER_CONFIGURATION, "", NAME)


@lru_cache(maxsize=1)
def base() -> Settings:
    """Return the settings of the environment and log warnings about them. Raises EnvironmentInvalid."""
    settings, warnings = from_environment(env.variables())
    for warning in warnings:
        log.warning("%s", warning)
    return settings


class Configuration(Refreshed):
    """Reads FailoverConfiguration/default at most every half second. If it is invalid, its last valid state counts.

    While nothing at all is written, one statement finds that out, and nothing else is read.

    A process that has not yet read a valid object evicts nothing: the object that it cannot read may have switched
    failover off.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._version = "-"
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
        members are paused after a restore, the settings let only observing controllers run.
        """
        self.refresh(at_once=reread)
        return self._settings if self._held is None else observing_settings(self._settings)

    def _read(self) -> None:
        seen = origin.seen()
        if seen is None or seen != self._seen:
            self._read_all()
            self._seen = seen

    def _read_all(self) -> None:
        definitions().refresh(at_once=True)  # what was read a moment ago may be older than the write that was seen
        interpreter_rules().refresh(at_once=True)
        self._check_pause()
        stored = self._state.get([REF]).get(REF)
        version = "" if stored is None else stored.metadata.resource_version
        if version != self._version:
            self._version = version
            try:
                self._settings = with_overrides(base(), {} if stored is None else stored.spec)
            except SettingError as error:
                message = "FailoverConfiguration/%s is invalid, the earlier settings stay (%g evictions a second): %s"
                log.error(message, NAME, self._settings.resource_eviction_rate, error)

    def _check_pause(self) -> None:
        before, self._held = self._held, origin.held()
        if self._held is not None and before is None:
            log.error("%s", self._held.message)
        elif self._held is None and before is not None:
            log.warning("the restored state was confirmed by a user: member clusters are written to again")


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return the configuration as this process knows it."""
    return Configuration(store())

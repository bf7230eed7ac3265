"""The rules of users for interpreting kinds, as far as this process knows them."""

from __future__ import annotations

import time
from functools import lru_cache

from apps.objects.models import Object
from apps.objects.store import store
from controlplane.engine.state import State
from controlplane.interpret import INTERPRETERS
from controlplane.kinds import INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS

FRESH_SECONDS = 0.5
RULES = (INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS)


class InterpreterRules:
    """Keeps INTERPRETERS up to date: reads the versions of all rules at most every half second.

    The rules themselves are read only if a version has changed.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._versions: dict[tuple[str, str], int] = {}
        self._read_at = -FRESH_SECONDS

    def refresh(self, *, at_once: bool = False) -> None:
        """Bring INTERPRETERS up to date. `at_once`: even if that was done within the last half second."""
        if not at_once and time.monotonic() - self._read_at < FRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        rows = Object.objects.filter(kind__in=RULES).values_list("kind", "name", "resource_version")
        versions = {(kind, name): version for kind, name, version in rows}
        if versions != self._versions:
            customizations, configurations = map(self._state.list, RULES)
            hooks = [(each.metadata.name, webhook) for each in configurations for webhook in each.webhooks]
            INTERPRETERS.set_rules(customizations, hooks)
            self._versions = versions


@lru_cache(maxsize=1)
def interpreter_rules() -> InterpreterRules:
    """Return the rules as this process knows them."""
    return InterpreterRules(store())

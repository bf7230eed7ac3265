"""The rules of users for interpreting kinds, as far as this process knows them."""

from __future__ import annotations

from functools import lru_cache

from apps.objects.models import Object
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from controlplane.engine.state import State
from controlplane.interpret import INTERPRETERS
from controlplane.kinds import INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS

RULES = (INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS)


class InterpreterRules(Refreshed):
    """Keeps INTERPRETERS up to date: reads the versions of all rules at most every half second.

    The rules themselves are read only if a version has changed.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._versions: dict[tuple[str, str], int] = {}

    def _read(self) -> None:
        rows = Object.objects.filter(kind__in=RULES).values_list("kind", "name", "resource_version")
        self.look({(kind, name): version for kind, name, version in rows})

    def look(self, versions: dict[tuple[str, str], int]) -> None:
        """Read the rules if these versions are others than those that were read last. Keys: kind and name."""
        if versions != self._versions:
            customizations, configurations = map(self._state.list, RULES)
            hooks = [(each.metadata.name, webhook) for each in configurations for webhook in each.webhooks]
            INTERPRETERS.set_rules(customizations, hooks)
            self._versions = versions


@lru_cache(maxsize=1)
def interpreter_rules() -> InterpreterRules:
    """Return the rules as this process knows them."""
    return InterpreterRules(store())

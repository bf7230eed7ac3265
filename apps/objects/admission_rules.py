"""The admission policies and webhooks of users, as far as this process knows them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.db.models import Count, Max

from apps.objects.models import Object
from apps.objects.refreshed import Refreshed
from apps.objects.store import store
from controlplane.admission.policies import Policy, policies_of
from controlplane.admission.webhooks import Hook, hooks_of
from controlplane.engine.state import State
from controlplane.kinds.template.admission_kinds import BINDING, KEYS, MUTATING, POLICY, VALIDATING


class AdmissionRules(Refreshed):
    """Keeps policies and webhooks compiled: reads their versions at most every half second.

    The objects themselves are read only if a version has changed. So a write that no rule concerns costs no query.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._versions: tuple[int, int] = (0, 0)
        self.policies: tuple[Policy, ...] = ()
        self.mutating: tuple[Hook, ...] = ()
        self.validating: tuple[Hook, ...] = ()

    def _read(self) -> None:
        found = Object.objects.filter(kind__in=KEYS).aggregate(Count("pk"), Max("resource_version"))
        versions = (found["pk__count"], found["resource_version__max"] or 0)
        if versions != self._versions:
            documents = {key: self._documents(key) for key in KEYS}
            self.policies = policies_of(documents[POLICY], documents[BINDING])
            self.mutating, self.validating = hooks_of(documents[MUTATING]), hooks_of(documents[VALIDATING])
            self._versions = versions

    @property
    def is_empty(self) -> bool:
        """Whether no rule of a user can concern a write."""
        return not (self.policies or self.mutating or self.validating)

    def _documents(self, key: str) -> list[dict[str, Any]]:
        ending = [found.document() for found in self._state.list(key)]
        return [document for document in ending if not document["metadata"].get("deletionTimestamp")]


@lru_cache(maxsize=1)
def admission_rules() -> AdmissionRules:
    """Return the rules as this process knows them."""
    return AdmissionRules(store())

"""Until a process has read its first roles, requests wait for them: an empty policy would refuse everyone."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from apps.objects.access import Access
from apps.objects.default_roles import make_roles
from apps.objects.store import store
from controlplane.authorization.attributes import Caller, Request

pytestmark = pytest.mark.django_db(transaction=True)

VIEWER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "paul-views"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "paul"}],
}


class Slow:
    """The stored state, whose first list waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def list(self, kind: str) -> Any:
        self.begun.set()
        assert self.go.wait(20)
        return store().list(kind)


def test_a_request_that_comes_while_the_first_roles_are_read_waits_for_them() -> None:
    make_roles(store())
    make_roles(store(), lambda: [VIEWER])
    slow: Any = Slow()
    access, allowed = Access(slow), list[bool]()

    def ask() -> None:
        try:
            verdict = access.policy().authorize(Caller("paul"), Request("get", "", "configmaps", "", "default", "a"))
            allowed.append(verdict.allowed)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert slow.begun.wait(20)
    threads[1].start()
    threads[1].join(0.2)
    assert not allowed
    slow.go.set()
    for thread in threads:
        thread.join(20)

    assert allowed == [True, True]

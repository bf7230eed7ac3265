"""Autoscalers are found by their workload; rows stored earlier enter by a migration [scaled-workloads]."""

from __future__ import annotations

from importlib import import_module

import pytest

from apps.objects.store import DjangoStore
from controlplane.kinds.template.scale_target_index import AUTOSCALER, SCALE_TARGET
from tests.core.test_scaled_replicas import autoscaler
from tests.stores.grounds import create
from tests.stores.test_supporting_objects import run

pytestmark = pytest.mark.django_db(transaction=True)
WEB = "apps/Deployment:default/web"


def test_autoscalers_stored_before_are_found_and_are_not_found_any_more_when_it_is_undone() -> None:
    store = DjangoStore()
    (operation,) = import_module("apps.objects.migrations.0019_scale_targets").Migration.operations
    create(store, autoscaler("web"), autoscaler("api", name="other"))

    run(operation.reverse_sql)
    assert store.by_index(AUTOSCALER, SCALE_TARGET, [WEB]) == {}
    run(operation.sql)

    assert [item.metadata.name for item in store.by_index(AUTOSCALER, SCALE_TARGET, [WEB])[WEB]] == ["scales"]

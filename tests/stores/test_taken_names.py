"""A name that another object has keeps only that object from being made, in both stores."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.apimachinery.names import work_name
from controlplane.controllers.namespaces import Namespaces
from controlplane.engine import run
from controlplane.engine.decision import Decision, Put
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds import WORK
from controlplane.settings import Settings
from tests.builders.objects import cluster, work
from tests.builders.templates import namespace


@pytest.mark.parametrize(
    "make", [MemoryStore, pytest.param(DjangoStore, marks=pytest.mark.django_db(transaction=True))]
)
def test_a_namespace_is_made_on_the_clusters_where_its_name_is_free(make: Any) -> None:
    shop = namespace("shop")
    named = ObjectMeta(name=work_name(shop.kind, "shop"), namespace="karmada-es-member1", uid="other")
    other = replace(work("other", "member1"), metadata=named)
    store = make(controllers=(Namespaces(),))
    for one in (cluster("member1"), cluster("member2"), other, shop):
        store.apply([(None, Decision(changes=(Put(one, None),)))], by=Actor("test"))

    for _ in range(2):
        store.mark("namespaces", [shop.ref])
        report = run.run_batch(Namespaces(), store, Settings(), world=run.World())
        assert not report.failures

    found = {one.metadata.namespace: one.metadata.uid for one in store.list(WORK)}
    assert found.keys() == {"karmada-es-member1", "karmada-es-member2"}
    assert found["karmada-es-member1"] == "other"

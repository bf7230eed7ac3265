"""Evictions make few due rows: what one write makes due for a controller later shares one."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from django.db import connection

from apps.development.fleet import store_all
from apps.objects.due import BUNDLE
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Object
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.decision import Decision, Save
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor
from controlplane.kinds.rows import Row
from tests.apps.batches.fleet import evictions
from tests.apps.test_batch_counts import SETTINGS, answer

pytestmark = pytest.mark.django_db(transaction=True)

EVICTED = 20
LATER = ["graceful_eviction", "readiness", "works"]


def test_what_evictions_make_due_later_shares_a_row_of_each_controller() -> None:
    case = evictions(EVICTED)
    controller = next(one for one in CONTROLLERS if one.name == "evictions")
    before, store = DjangoStore(), DjangoStore(controllers=CONTROLLERS)  # the first one makes nothing due
    store_all(before, [one for one in case.stored if isinstance(one, Object)], by="jane")
    rows = [Save(one) for one in case.stored if isinstance(one, Row)]
    before.apply([(None, Decision(changes=tuple(rows)))], by=Actor("jane"))
    store.mark(controller.name, case.keys)

    following = followers(controller, CONTROLLERS, SETTINGS)
    report = run_batch(controller, store, SETTINGS, world=World(answer=answer), following=following)

    assert report.stored == EVICTED + 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT controller, kind, cursor FROM objects_due WHERE controller = ANY(%s)", [LATER])
        found = cursor.fetchall()
    assert Counter((name, kind) for name, kind, _ in found) == {(name, BUNDLE): 1 for name in LATER}
    assert {len(json.loads(references)) for _, _, references in found} == {EVICTED}

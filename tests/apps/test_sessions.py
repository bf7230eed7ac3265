"""Sessions of a worker: a tick does not close the database pool of the process that runs it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.fixups.django import DjangoWorkerFixup
from django.db import connection

from config.celery import app

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_tick_leaves_the_pool_of_its_process_open() -> None:
    fixup = DjangoWorkerFixup(app)
    fixup.worker = SimpleNamespace(pool_cls="prefork")
    connection.ensure_connection()
    before = connection.pool
    tick = SimpleNamespace(request=SimpleNamespace(is_eager=False))

    fixup.on_task_prerun(tick)
    fixup.on_task_postrun(tick)

    assert connection.pool is before

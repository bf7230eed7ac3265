"""The members process: what is wrong with one object, is nobody else's trouble."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore
from apps.runtime.members.pump import Pump
from controlplane.controllers.execution import Execution
from controlplane.kinds.work import Work, Workload, WorkSpec
from controlplane.members import Answer, Question
from controlplane.meta import Condition, ObjectMeta
from controlplane.names import WORK_FINALIZER, execution_namespace
from controlplane.run import FAILED_AGAIN
from tests.stores.grounds import cluster, create

pytestmark = pytest.mark.django_db(transaction=True)


def work(name: str, **metadata: Any) -> Work:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", **metadata}}
    about = ObjectMeta(name=name, namespace=execution_namespace("member1"), finalizers=(WORK_FINALIZER,))
    return Work("work.karmada.io/v1alpha1", "Work", about, spec=WorkSpec(Workload((manifest,))))


@pytest.fixture
def pump(settings: Any, tmp_path: Path) -> Iterator[Pump]:
    settings.LIFEBOAT_HOME = tmp_path
    controller = Execution()
    with ThreadPoolExecutor(1) as executor:
        yield Pump(controller, DjangoStore(controllers=[controller]), configuration(), _nobody, executor)


async def _nobody(question: Question) -> Answer:
    raise AssertionError("nobody is asked")


def test_a_work_nobody_can_make_a_question_of_keeps_no_other_from_being_brought(pump: Pump, tmp_path: Path) -> None:
    """Such a Work may have been stored before its manifest was looked at."""
    ready = (
        cluster("member1")
        .with_spec(api_endpoint="http://member1")
        .with_status(conditions=(Condition("Ready", "True", ""),))
    )
    create(pump.store, ready, work("bad", annotations=None), work("good"))

    asked, _ = pump.claim()

    assert {one.claim.ref.name: one.question is not None for one in asked} == {"bad": False, "good": True}
    pump.flush(asked)
    assert [path.name for path in (tmp_path / "replay").iterdir()] == [
        "execution-work.karmada.io_Work_karmada-es-member1_bad.pickle"
    ]
    due = pump.store.next_due(["execution"])
    assert due is not None
    assert due - pump.store.now() <= FAILED_AGAIN

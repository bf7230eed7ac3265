"""Documents of kinds without a strict schema may have values of any type: what follows from them can be read again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.questions import Answer, Observe
from controlplane.controllers.binding_status import BindingStatus
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.run import World, run_batch
from controlplane.kinds import CLUSTER, RESOURCE_BINDING, WORK
from controlplane.kinds.binding import HEALTHY
from controlplane.settings import Settings
from tests.builders.objects import applied, work
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("a", "odd", "z")


def _thing(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize("status", ["Running", ["Running"], 1])
def test_a_member_whose_object_has_a_text_as_its_status_keeps_no_other_copy_from_being_looked_at(status: Any) -> None:
    """The Work could not be read again, and nothing that concerns all Works of the cluster went past it."""

    def answers(questions: Sequence[Observe]) -> list[Answer]:
        held = [
            {**one.manifest, "status": status if one.manifest["metadata"]["name"] == "odd" else {"on": True}}
            for one in questions
        ]
        return [Answer(200, one) for one in held]

    store = DjangoStore(controllers=[controller := WorkStatus()])
    owners = [Ref(RESOURCE_BINDING, "default", f"{name}-thing") for name in NAMES]
    create(
        store,
        *(
            work(name, of=of, manifest=_thing(name), conditions=[applied()])
            for name, of in zip(NAMES, owners, strict=True)
        ),
    )

    run_batch(controller, store, Settings(), world=World(answer=answers))

    found = {one.metadata.name: one.status.manifest_statuses[0] for one in store.list(WORK)}
    assert {name: one.status for name, one in found.items()} == {"a": {"on": True}, "odd": None, "z": {"on": True}}
    assert found["odd"].health == HEALTHY
    refs, _ = BindingStatus().expand(store, Ref(CLUSTER, "", "member1"), after="", limit=10)
    assert refs == owners

"""The pause of the console stops all evictions, whatever holds there are already."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.objects.store import store
from controlplane.apimachinery.meta import Ref, to_seconds
from controlplane.insight.situation import pauses_fleet
from controlplane.kinds import EVICTION_HOLD
from tests.apps.guarded_acts import fleet
from tests.apps.pages import found, in_queue, stored
from tests.apps.test_console_queue import text
from tests.apps.test_sent_twice import HTML, form_at
from tests.builders import steering

pytestmark = pytest.mark.django_db(transaction=True)

HOLDS: dict[str, dict[str, Any]] = {  # as `lifeboat pause` makes them, all with the name pause
    "expired": {"hours": -1},
    "ends soon": {"hours": 1},
    "of a cluster": {"clusters": ("member1",)},
    "of a namespace": {"namespaces": ("shop",)},
    "being deleted": {},
}


@pytest.mark.parametrize("case", HOLDS)
def test_a_pause_is_made_beside_a_hold_that_does_not_hold_all_evictions_until_it_is_deleted(
    root: Client, case: str
) -> None:
    fleet(1)
    fields = dict(HOLDS[case])
    if hours := fields.pop("hours", 0):
        fields["expires_at"] = store().now() + timedelta(hours=hours)
    one = steering.hold("pause", **fields)
    if case == "being deleted":
        one = one.with_meta(deletion_timestamp=to_seconds(store().now()), finalizers=("example.io/audit",))
    (before,) = stored(one)
    sent = form_at(root, "/pause", {})

    answers = [root.post("/pause", sent, HTTP_ACCEPT=HTML) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]
    (made,) = (one for one in store().list(EVICTION_HOLD) if one.ref != before.ref)
    assert pauses_fleet(made)
    assert (made.spec.reason, made.spec.who, made.spec.expires_at) == ("disk swap", "root", None)
    assert found(Ref(EVICTION_HOLD, "", "pause")) == before
    shown = text(root, "/")
    assert "paused by root" in shown
    assert f"/resume/{made.metadata.name}" in root.get("/", HTTP_ACCEPT=HTML).content.decode()


def test_the_dry_run_of_resume_says_that_another_pause_goes_on(root: Client) -> None:
    stored(
        steering.hold("pause", who="ann", reason="a test"), steering.hold("other", who="bob", reason="corrupt disks")
    )
    in_queue("web")

    both = text(root, "/resume/pause")
    assert root.post("/resume/other", form_at(root, "/resume/other", {}), HTTP_ACCEPT=HTML).status_code == 303

    assert "No eviction goes on, because the fleet is paused by other holds as well." in both
    assert "Still paused by bob: corrupt disks" in both
    assert "evictions go on" in text(root, "/resume/pause")

"""In development a person takes a simulated member down on the page Situation, and brings it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.api.health import HEALTH
from apps.simulator.members import FleetProcess, ask, start_fleet_process
from controlplane.apimachinery.meta import Condition
from tests.apps.pages import change, stored
from tests.builders.bare import START, cluster

HTML = "text/html"


@pytest.fixture
def fleet(tmp_path: Path, settings: Any) -> Iterator[FleetProcess]:
    settings.LIFEBOAT_HOME, settings.DEVELOPMENT = tmp_path, True
    with start_fleet_process(tmp_path / "members", members=["member1"]) as found:
        yield found
    HEALTH.close()


def fault_of(fleet: FleetProcess) -> str:
    (member,) = ask(fleet.known["control"], "GET", "/members")["members"]
    return str(member["fault"])


def ready(status: str) -> tuple[Condition, ...]:
    return (Condition("Ready", status, last_transition_time=START),)


def test_a_simulated_member_is_taken_down_and_brought_back_with_a_reason(root: Client, fleet: FleetProcess) -> None:
    made = stored(cluster("member1").with_status(conditions=ready("True")))[0]
    assert 'href="/development/member1/down"' in root.get("/", HTTP_ACCEPT=HTML).content.decode()

    shown = root.get("/development/member1/down", HTTP_ACCEPT=HTML).content.decode()
    assert "its workloads move" in shown
    assert "make fault MEMBER=member1 FAULT=down" in shown
    assert root.post("/development/member1/down", {"reason": ""}, HTTP_ACCEPT=HTML).status_code == 422
    assert fault_of(fleet) == "none"
    assert root.post("/development/member1/down", {"reason": "a look"}, HTTP_ACCEPT=HTML).status_code == 303
    assert fault_of(fleet) == "down"

    change(made, made.with_status(conditions=ready("False")))
    assert 'href="/development/member1/none"' in root.get("/", HTTP_ACCEPT=HTML).content.decode()
    root.post("/development/member1/none", {"reason": "seen"}, HTTP_ACCEPT=HTML)
    assert fault_of(fleet) == "none"


def test_in_production_and_for_other_members_there_is_no_such_page(
    root: Client, clerk: Client, fleet: FleetProcess, settings: Any
) -> None:
    stored(cluster("member1").with_status(conditions=ready("True")))
    assert root.get("/development/member2/down", HTTP_ACCEPT=HTML).status_code == 404
    assert clerk.post("/development/member1/down", {"reason": "a look"}, HTTP_ACCEPT=HTML).status_code == 403
    settings.DEVELOPMENT = False

    assert "/development/" not in root.get("/", HTTP_ACCEPT=HTML).content.decode()
    assert root.post("/development/member1/down", {"reason": "a look"}, HTTP_ACCEPT=HTML).status_code == 404
    assert fault_of(fleet) == "none"

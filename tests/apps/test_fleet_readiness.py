"""The answer about the readiness of the fleet is read from a table and says what it covers."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.controllers.readiness import Readiness
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.run import World, run_batch
from tests.apps.pages import stored
from tests.apps.statements import statements
from tests.builders.bare import binding, cluster

URL = "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses"


def assess() -> None:
    """Check all bindings, as a worker does."""
    store().mark("readiness", [FLEET])
    for _ in range(3):  # the beginning of the round, and its page
        run_batch(Readiness(), store(), configuration().settings(reread=True), world=World())


def test_an_answer_that_does_not_cover_all_bindings_says_so(root: Client) -> None:
    stored(cluster("member1"), *(binding(name, "member1") for name in "ab"))
    assess()
    stored(binding("c", "member1"))

    for url in (URL, f"{URL}/fleet"):
        answer = root.get(url, HTTP_ACCEPT="application/json")
        status = answer.json().get("items", [answer.json()])[0]["status"]

        assert (status["bindingsTotal"], status["bindingsCovered"], status["bindings"]) == (3, 2, 2)
        assert status["message"].startswith("covers 2 of 3 bindings")
        assert "covers 2 of 3 bindings" in answer["Warning"]


def test_an_answer_that_covers_all_has_no_message_and_says_how_old_it_is(root: Client) -> None:
    stored(cluster("member1"), *(binding(name, "member1") for name in "abc"))
    assess()

    answer = root.get(f"{URL}/fleet", HTTP_ACCEPT="application/json")

    status = answer.json()["status"]
    assert status["bindingsCovered"] == status["bindingsTotal"] == 3
    assert status["oldestAnswerTime"]
    counts = {one["what"]: one["bindings"] for one in status["obstacles"]}
    assert (counts["GateOff"], counts["NoTaintPolicy"]) == (3, 3)
    assert status["verdicts"] == [{"verdict": "Blocked", "bindings": 3}]
    assert "message" not in status
    assert "Warning" not in answer


@pytest.mark.parametrize("kind", [URL, f"{URL}/fleet"])
def test_the_answer_costs_as_many_queries_for_300_bindings_as_for_3(
    root: Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost() -> int:
        root.get(kind, HTTP_ACCEPT="application/json")  # reads the settings, which then are known for half a second
        with statements() as sent:
            assert root.get(kind, HTTP_ACCEPT="application/json").status_code == 200
        return len(sent)

    monkeypatch.setattr("apps.objects.refreshed.FRESH_SECONDS", 3600)
    stored(cluster("member1"), *(binding(f"few{number}", "member1") for number in range(3)))
    assess()
    few = cost()
    stored(*(binding(f"many{number}", "member1") for number in range(300)))
    assess()

    assert cost() == few

"""The answer about the readiness of the fleet says how many bindings it covers."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.api import readiness
from tests.apps.pages import stored
from tests.stores.grounds import binding, cluster

FLEET = "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses"


def test_an_answer_that_does_not_cover_all_bindings_says_so(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "MAX_BINDINGS", 2)
    stored(cluster("member1"), *(binding(name, "member1") for name in "abc"))

    for url in (FLEET, f"{FLEET}/fleet"):
        answer = root.get(url, HTTP_ACCEPT="application/json")
        status = answer.json().get("items", [answer.json()])[0]["status"]

        assert (status["bindingsTotal"], status["bindingsCovered"], status["bindings"]) == (3, 2, 2)
        assert status["message"].startswith("covers 2 of 3 bindings")
        assert "covers 2 of 3 bindings" in answer["Warning"]


def test_an_answer_that_covers_all_has_no_message(root: Client) -> None:
    stored(cluster("member1"), *(binding(name, "member1") for name in "abc"))

    answer = root.get(f"{FLEET}/fleet", HTTP_ACCEPT="application/json")

    assert answer.json()["status"]["bindingsCovered"] == answer.json()["status"]["bindingsTotal"] == 3
    assert "message" not in answer.json()["status"]
    assert "Warning" not in answer

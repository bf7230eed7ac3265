"""A person asks what if: the form, the answer that appears by itself, and the same without JavaScript."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Server, logged_in
from tests.builders.bare import binding, cluster
from tests.processes import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WHATIFS = "/apis/failover.lifeboat.io/v1alpha1/whatifs"
ANSWER = "moves nothing, 1 without a place, 1 namespace"
LARGE = {"spec": {"changes": [{"type": "ClustersDrained", "names": ["member1"]}], "background": True}}


def asked(server: Server, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask the API as root."""
    token = yaml.safe_load(server.kubeconfig.read_text())["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    body = None if document is None else json.dumps(document).encode()
    with urlopen(Request(f"{server.url}{path}", data=body, headers=headers)) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_a_person_asks_and_the_answer_appears(
    server: Server, scripted: BrowserContext, browser: BrowserContext
) -> None:
    from tests.apps.pages import stored  # here: needs Django set up

    stored(cluster("member1"), cluster("member2"), binding("web", "member1"))
    for context in (scripted, browser):
        console = logged_in(server, context)

        page = console.go("/what-if")
        page.get_by_label("Clusters drained").select_option("member1")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_text(ANSWER)).to_be_visible()
        expect(page.get_by_role("link", name="Deployment shop/web")).to_be_visible()

        run = asked(server, WHATIFS, LARGE)["metadata"]["name"]
        page = console.go(f"/what-if/{run}")
        expect(page.get_by_text("being worked out")).to_be_visible()
        if context is browser:  # without JavaScript the reader reloads the page
            until(lambda name=run: asked(server, f"{WHATIFS}/{name}")["status"]["phase"] == "Finished", within=60)
            page.get_by_role("link", name="Reload").click()
        expect(page.get_by_text(ANSWER)).to_be_visible()
        assert console.errors == []

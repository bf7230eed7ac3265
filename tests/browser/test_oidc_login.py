"""A browser logs in at an OpenID provider: authorization code with PKCE, groups that RBAC knows, no other way in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.roles import bind
from tests.api.server import Server
from tests.api.test_oidc import AUDIENCE
from tests.browser.conftest import opened
from tests.browser.oidc_provider import CLIENT, SECRET, BrowserProvider
from tests.browser.test_console import faults
from tests.processes import until

pytestmark = pytest.mark.browser

EVA = "oidc:eva"


@pytest.fixture(scope="module")
def provider() -> Iterator[BrowserProvider]:
    made = BrowserProvider()
    yield made
    made.freed.set()
    made.server.shutdown()


@pytest.fixture(scope="module")
def served(provider: BrowserProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose browsers may log in at the provider. Users of the group oidc:shop-team may do everything."""
    more = {
        "LIFEBOAT_OIDC_ISSUER": provider.issuer,
        "LIFEBOAT_OIDC_AUDIENCE": AUDIENCE,
        "LIFEBOAT_OIDC_CLIENT_ID": CLIENT,
        "LIFEBOAT_OIDC_CLIENT_SECRET": SECRET,
        "LIFEBOAT_OIDC_USERNAME_CLAIM": "name",
        "LIFEBOAT_OIDC_GROUPS_CLAIM": "groups",
        "LIFEBOAT_OIDC_REQUIRED_CLAIMS": "tenant=blue",
        "LIFEBOAT_LOGINS_PER_MINUTE": "100",
    }
    with Server(tmp_path_factory.mktemp("oidc"), name="lifeboat_oidc_login", **more) as running:
        until(lambda: running.client("").get("/login/oidc").status == 302, within=20)
        bind(running.client(), "oidc-login", to={"kind": "Group", "name": "oidc:shop-team"}, roles=("cluster-admin",))
        yield running


@pytest.fixture
def page(chrome: Browser, provider: BrowserProvider) -> Iterator[Page]:
    """A page of a browser that is logged in nowhere. The provider names eva as usual."""
    provider.claims = {}
    with opened(chrome, scripts=True) as context:
        yield context.new_page()


def log_in(page: Page, served: Server, path: str = "/") -> None:
    """Go to a page of the console and log in at the provider."""
    page.goto(f"{url(served)}{path}")
    page.get_by_role("link", name="Log in with").click()
    expect(page.get_by_role("heading", name="Provider")).to_be_visible()
    page.get_by_role("link", name="I am eva").click()


def url(served: Server) -> str:
    return f"http://127.0.0.1:{served.port}"


def test_a_browser_logs_in_comes_back_to_its_page_and_logs_out(page: Page, served: Server) -> None:
    page.goto(f"{url(served)}/queue")
    assert faults(page) == []

    log_in(page, served, "/queue")

    expect(page.get_by_role("button", name=f"{EVA} · log out")).to_be_visible()
    assert page.url == f"{url(served)}/queue"
    cookies = {one["name"]: one for one in page.context.cookies()}
    assert cookies["sessionid"]["httpOnly"]
    assert "lifeboat_oidc" not in cookies  # the way is gone once
    hours = (cookies["sessionid"]["expires"] - page.evaluate("Date.now() / 1000")) / 3600
    assert 7.9 < hours <= 8

    page.get_by_role("button", name="log out").click()
    page.goto(f"{url(served)}/queue")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_groups_of_the_latest_login_count(page: Page, served: Server, provider: BrowserProvider) -> None:
    log_in(page, served)
    expect(page.locator("#sentence")).to_be_visible()
    assert page.request.get(f"{url(served)}/api/v1/namespaces/default/configmaps").ok

    provider.claims = {"groups": ["night"]}
    page.get_by_role("button", name="log out").click()
    log_in(page, served)

    expect(page.get_by_role("heading", name="403 Forbidden")).to_be_visible()
    assert page.request.get(f"{url(served)}/api/v1/namespaces/default/configmaps").status == 403


REFUSED = {
    "another nonce": ({"nonce": "of another login"}, "nonce"),
    "another audience": ({"aud": AUDIENCE}, "Audience"),
    "another client": ({"aud": [CLIENT, "other"], "azp": "other"}, "azp"),
    "another issuer": ({"iss": "https://evil.example.com"}, "issuer"),
    "an expired token": ({"exp": 1}, "expired"),
    "a missing claim": ({"tenant": "red"}, "required claims"),
    "a name of the system": ({"name": ""}, "does not name this user"),
    "the name of another user": ({"sub": "another"}, "belongs to another user"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_provider_does_not_say_for_this_login_is_refused(
    page: Page, served: Server, provider: BrowserProvider, case: str
) -> None:
    if case == "the name of another user":
        log_in(page, served)  # eva has the subject 4711
        page.wait_for_url(f"{url(served)}/")  # a page that is still being opened would interrupt the next one
        page.context.clear_cookies()
    provider.claims, said = REFUSED[case]

    log_in(page, served)

    expect(page.get_by_role("alert")).to_contain_text(said)
    assert not [one for one in page.context.cookies() if one["name"] == "sessionid"]


def test_a_login_that_another_browser_began_or_that_is_repeated_is_refused(
    page: Page, served: Server, chrome: Browser
) -> None:
    backs: list[str] = []
    page.on("request", lambda request: backs.append(request.url) if "/login/oidc/callback" in request.url else None)
    log_in(page, served)
    expect(page.locator("#sentence")).to_be_visible()

    with opened(chrome, scripts=False) as other:
        stranger = other.new_page()
        stranger.goto(backs[0])
        expect(stranger.get_by_role("alert")).to_contain_text("begun in another browser")
        log_in(stranger, served)
        stranger.goto(f"{url(served)}/login/oidc")  # begins again: a new state
        stranger.goto(backs[0])
        expect(stranger.get_by_role("alert")).to_contain_text("state")


@pytest.mark.parametrize(
    "wanted", ["https://evil.example.com/", "//evil.example.com", "javascript:alert(1)", "\\\\evil"]
)
def test_a_login_leads_to_no_other_site(page: Page, served: Server, wanted: str) -> None:
    page.goto(f"{url(served)}/login/oidc?next={wanted}")
    page.get_by_role("link", name="I am eva").click()

    expect(page.locator("#sentence")).to_be_visible()
    assert page.url == f"{url(served)}/"


def test_without_a_client_there_is_no_button(tmp_path: Path) -> None:
    from django.test import Client

    answer = Client().get("/login/login/")

    assert answer.status_code == 200
    assert b"Log in with" not in answer.content
    assert Client().get("/login/oidc").status_code == 403

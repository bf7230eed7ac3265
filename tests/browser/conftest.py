"""A real server process on the test database, and a real Chromium to look at it with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from apps.development.supervise.ports import LOOPBACK
from tests.api.server import free_ports
from tests.apps.credentials import PASSWORD
from tests.processes import START_SECONDS, Processes, environment, until

# What this closed network needs: nothing is fetched in the background, and root has no sandbox.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000  # on a machine that has much else to do


class Server(NamedTuple):
    """Where the product is served, and with what kubectl reaches it as root."""

    url: str
    kubeconfig: Path
    metrics: int  # port

    def streams(self) -> int:
        """Return the number of browsers with live pages that are connected now."""
        with urlopen(f"http://{LOOPBACK}:{self.metrics}/metrics", timeout=5) as answer:
            found = re.search(r'lifeboat_streams{kind="browser"} (\d+)', answer.read().decode())
        return int(found[1]) if found else 0


@pytest.fixture
def server(transactional_db: None, tmp_path: Path, redis_url: str) -> Iterator[Server]:
    """The product's own server process on this test's database."""
    with Processes(tmp_path, environment(tmp_path, redis_url=redis_url)) as processes:
        yield serve(processes, tmp_path)


def serve(processes: Processes, home: Path) -> Server:
    """Start the product's server process and make the user root; return when the server answers."""
    port, tls_port, metrics = free_ports(3)
    processes.environment["LIFEBOAT_METRICS_PORT"] = str(metrics)
    process = processes.start("api", ["manage.py", "serve", "--port", str(port), "--tls-port", str(tls_port)])
    until(lambda: _is_live(port), within=START_SECONDS, alive=process)
    return Server(f"http://{LOOPBACK}:{port}", _kubeconfig(home, tls_port), metrics)


def _kubeconfig(folder: Path, port: int) -> Path:
    from django.contrib.auth import get_user_model

    from apps.api import tokens
    from apps.api.kubeconfig import kubeconfig

    user = get_user_model().objects.create_superuser("root", password=PASSWORD)
    authority = (folder / "tls" / "ca.crt").read_bytes()
    token = tokens.create(user, "browser tests")
    text = kubeconfig(server=f"https://{LOOPBACK}:{port}", user="root", token=token, authority=authority)
    (folder / "kubeconfig").write_text(text)
    return folder / "kubeconfig"


def _is_live(port: int) -> bool:
    try:
        with urlopen(f"http://{LOOPBACK}:{port}/livez", timeout=5) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


@pytest.fixture(scope="module")
def chrome(chromium: Path) -> Iterator[Browser]:
    """A Chromium for the tests of a module. Each opens a context of its own in it, without cookies and storage."""
    from django.db import connections

    # While playwright's loop runs in this thread, Django has connections of the loop, and those of before are out of
    # reach: a test that ends all sessions of the database would leave a closed connection to later tests.
    connections.close_all()
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        with playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS)) as started:
            yield started
        connections.close_all()  # those of this loop, which nothing else would end


@pytest.fixture
def browser(chrome: Browser) -> Iterator[BrowserContext]:
    """Chromium with JavaScript off: every page of the admin has to work without."""
    with opened(chrome, scripts=False) as context:
        yield context


@pytest.fixture
def scripted(chrome: Browser) -> Iterator[BrowserContext]:
    """The same with JavaScript on, as people have it: the browsable API sends PUT and DELETE with it."""
    with opened(chrome, scripts=True) as context:
        yield context


@pytest.fixture(params=["without scripts", "with scripts"])
def any_browser(request: pytest.FixtureRequest) -> BrowserContext:
    """A Chromium with JavaScript off, and one with JavaScript on: the same has to work in both."""
    found: BrowserContext = request.getfixturevalue("scripted" if request.param == "with scripts" else "browser")
    return found


class Console(NamedTuple):
    """A page of root, who is logged in at the console, and what its browser reports as errors."""

    page: Page
    url: str
    errors: list[str]

    def go(self, path: str) -> Page:
        """Go to a page of the console."""
        self.page.goto(f"{self.url}{path}")
        return self.page


@pytest.fixture
def console(server: Server, scripted: BrowserContext) -> Console:
    """The console with JavaScript on. `server` runs on the database of the test."""
    return logged_in(server, scripted)


@pytest.fixture
def plain_console(server: Server, browser: BrowserContext) -> Console:
    """The console with JavaScript off."""
    return logged_in(server, browser)


def logged_in(server: Server, context: BrowserContext, *, user: str = "root") -> Console:
    """Return the console for a user of the database, without the form of the login."""
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client()
    client.force_login(get_user_model().objects.get(username=user))
    name = settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": server.url}])
    page, errors = context.new_page(), list[str]()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return Console(page, server.url, errors)


@contextmanager
def opened(chrome: Browser, *, scripts: bool) -> Iterator[BrowserContext]:
    """A context of its own in a Chromium, without cookies and storage."""
    context = chrome.new_context(java_script_enabled=scripts)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield context
    context.close()

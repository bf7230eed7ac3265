"""A person with a browser: log in, read, write through the page's form with its CSRF token, log out."""

from __future__ import annotations

import http.client
import re
from html import unescape
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import pytest

from tests.api.server import Answer, Client, Server
from tests.builders.documents import config_maps

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


class Browser:
    """Just enough of a browser: cookies."""

    def __init__(self, server: Server, *, address: str = "127.0.0.1") -> None:
        self.client = server.client("")
        self.source = (address, 0)
        self.cookies: dict[str, str] = {}

    def open(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        sent = {"Accept": HTML, **{name.replace("_", "-"): value for name, value in headers.items()}}
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(*self.client.address, timeout=20, source_address=self.source)
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        for header in response.headers.get_all("Set-Cookie") or ():
            self.cookies |= {name: one.value for name, one in SimpleCookie(header).items()}
        answer = Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        connection.close()
        return answer

    def forget_session(self) -> None:
        """Drop the session as if it had expired; other cookies stay."""
        del self.cookies["sessionid"]

    def log_in(self, name: str, password: str) -> Answer:
        page = self.open("GET", "/login/login/?next=/api/v1/namespaces")
        assert page.status == 200, page.body
        found = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', page.body)
        assert found is not None
        form = {"username": name, "password": password, "csrfmiddlewaretoken": found.group(1).decode()}
        body = urlencode({**form, "next": "/api/v1/namespaces"}).encode()
        return self.open("POST", "/login/login/", body, Content_Type="application/x-www-form-urlencoded")


def test_a_person_logs_in_reads_and_writes(server: Server, api: Client, namespace: str) -> None:
    browser = Browser(server)
    assert browser.open("GET", "/api/v1/namespaces").status == 401
    assert browser.log_in("admin", "correct-horse-battery").status == 302

    page = browser.open("GET", config_maps(namespace))
    assert page.status == 200
    assert b'name="_content"' in page.body
    body = b"metadata:\n  name: from-a-page\ndata:\n  a: b\n"
    made = browser.open(
        "POST",
        config_maps(namespace),
        body,
        Content_Type="application/yaml",
        X_CSRFToken=browser.cookies["csrftoken"],
    )
    assert made.status == 201
    assert api.get(config_maps(namespace, "from-a-page")).document["data"] == {"a": "b"}

    edit = browser.open("GET", config_maps(namespace, "from-a-page"))
    assert b"from-a-page" in edit.body
    assert b"application/merge-patch+json" in edit.body or b"application/yaml" in edit.body


def test_a_wrong_password_stays_outside(server: Server) -> None:
    browser = Browser(server)

    assert browser.log_in("admin", "wrong").status == 200
    assert browser.open("GET", "/api/v1/namespaces").status == 401


def test_what_stands_in_an_object_is_text_on_a_page(server: Server, api: Client, namespace: str) -> None:
    evil = "<script>alert(1)</script>"
    api.post(config_maps(namespace), {"metadata": {"name": "evil"}, "data": {"a": evil}})

    page = api.get(config_maps(namespace, "evil"), accept=HTML)

    assert evil.encode() not in page.body
    assert b"&lt;script&gt;" in page.body


@pytest.mark.parametrize("path", ["/", "/apis/", "/api/v1/namespaces", "/api/v1/namespaces/default"])
def test_every_form_a_page_offers_is_answered(api: Client, path: str) -> None:
    page = api.get(path, accept=HTML)

    offered = [unescape(link) for link in re.findall(r"href=[\"']([^\"']*format=[^\"']*)", page.body.decode())]

    assert {link.rpartition("=")[2] for link in offered} == {"json", "yaml", "api"}
    assert {link: api.get(link, accept=HTML).status for link in offered} == dict.fromkeys(offered, 200)

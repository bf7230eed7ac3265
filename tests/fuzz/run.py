"""Sends the requests of a seed and judges the answers, the memory of the server and its time."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import yaml

from tests.api.server import Server
from tests.fuzz import bodies, values
from tests.fuzz.pages import HTML, KEPT, page
from tests.fuzz.requests import ADMIN, ONLY_TRIED, PERSON, STRANGER, Request, collection, kinds, request

LONGEST = 5.0  # seconds until an answer is there
PAGES = 7  # every seventh request is a page
WARM_UP = 0.4  # the part of the requests after which the memory may grow no more
MOST_GROWTH = 48 << 20  # bytes that it may grow in the rest: caches of parsed schemas, and pieces that malloc keeps
_STATUS_PATHS = ("/api", "/apis", "/openapi", "/version")
_IN_FORM = re.compile(rb'name="csrfmiddlewaretoken" value="([^"]+)"')
_LINK = re.compile(rb'href="(/admin/[a-z_/]+)"')


@dataclass
class Report:
    """What a run showed. `problems` is empty where the claims hold."""

    seed: int
    asked: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_request: str = ""
    grown: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The summary to print."""
        counts = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return [
            f"{self.asked} requests with seed {self.seed}; answers: {counts}",
            f"slowest answer: {self.slowest:.2f} s: {self.slowest_request[:300]}",
            f"memory of the server after the first {WARM_UP:.0%} of the requests: {self.grown / 2**20:+.1f} MiB",
            *(f"PROBLEM {problem}" for problem in self.problems),
        ]


class Sender:
    """Sends requests as each of the callers."""

    def __init__(self, server: Server) -> None:
        self.address = ("127.0.0.1", server.port)
        self.token = server.token
        self.cookies: dict[str, str] = {}
        self._connection = http.client.HTTPConnection(*self.address, timeout=LONGEST * 4)
        self._log_in()
        self.admin = self._pages()

    def send(self, one: Request) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Return status, headers and body of the answer; of a stream only what comes first. Raises OSError."""
        headers = {**self._credentials(one), **one.headers}
        try:
            self._connection.putrequest(one.method, one.path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                self._connection.putheader(name, value.encode("latin-1", "replace"))
            if one.body is not None:
                self._connection.putheader("Content-Length", str(len(one.body)))
            self._connection.endheaders(one.body)
            response = self._connection.getresponse()
            body = b"" if one.is_stream and response.status == 200 else response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if one.is_stream:
            self._connection.close()
        for header in response.headers.get_all("Set-Cookie") or () if one.who == PERSON else ():
            self.cookies |= {name: kept.value for name, kept in SimpleCookie(header).items() if kept.value}
        return response.status, response.headers, body

    def _credentials(self, one: Request) -> dict[str, str]:
        if one.who in (ADMIN, STRANGER):
            return {"Authorization": f"Bearer {self.token if one.who == ADMIN else 'unknown'}"}
        if one.who != PERSON:
            return {}
        csrf = {} if one.method == "GET" else {"X-CSRFToken": self.cookies.get("csrftoken", "")}
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **csrf}

    def _log_in(self) -> None:
        _, _, form = self.send(Request(0, PERSON, "GET", "/login/login/", {"Accept": HTML}, None))
        found = _IN_FORM.search(form)
        assert found is not None, form
        given = {"username": "admin", "password": "correct-horse-battery", "csrfmiddlewaretoken": found[1].decode()}
        headers = {"Accept": HTML, "Content-Type": "application/x-www-form-urlencoded"}
        status, _, _ = self.send(Request(0, PERSON, "POST", "/login/login/", headers, urlencode(given).encode()))
        assert status == 302, status

    def _pages(self) -> list[str]:
        _, _, index = self.send(Request(0, PERSON, "GET", "/admin/", {"Accept": HTML}, None))
        found = {link.decode() for link in _LINK.findall(index)}
        assert len(found) > 5, index
        return sorted(link for link in found if not any(part in link for part in KEPT))


def made(seed: int, number: int, admin: list[str]) -> Request:
    """Return a request of a run."""
    return page(seed, number, admin) if number % PAGES == 0 else request(seed, number)


def run(
    server: Server, *, requests: int, seed: int, first: int = 0, say: Callable[[str], None] = lambda line: None
) -> Report:
    """Send requests to a running server, from the `first` on."""
    report, sender, base = Report(seed), Sender(server), 0
    _prepare(server)
    for number in range(first, first + requests):
        one = made(seed, number, sender.admin)
        _ask(sender, one, report)
        assert server.process is not None
        if server.process.poll() is not None:
            report.problems.append(f"the server has ended after {one}")
            break
        if number - first == int(requests * WARM_UP):
            base = memory(server.process.pid)
        if (number + 1) % 1000 == 0:
            say(f"{number + 1}: {len(report.problems)} problems, {memory(server.process.pid) >> 20} MiB")
    else:
        report.grown = memory(server.process.pid) - base
        if report.grown > MOST_GROWTH:
            report.problems.append(f"the memory of the server has grown by {report.grown} bytes")
    return report


def _prepare(server: Server) -> None:
    """Store an object of each kind, so that requests have something to find and to change."""
    api = server.client()
    for namespace in values.NAMESPACES:
        made = api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        assert made.status in (201, 409), made.body
    for kind in kinds():
        if kind.resource.kind not in ONLY_TRIED:
            document = bodies.whole(kind, values.NAMESPACES[0], values.NAMES[0])
            api.post(collection(kind.resource, values.NAMESPACES[0]), document)


def _ask(sender: Sender, one: Request, report: Report) -> None:
    report.asked += 1
    try:
        took, (status, headers, body) = _timed(sender, one)
        if took > LONGEST:  # a busy machine is slow once, a hanging request each time
            took = min(took, _timed(sender, one)[0])
    except (OSError, http.client.HTTPException) as error:
        report.problems.append(f"no answer ({error!r}) to {one}")
        return
    report.codes[status] += 1

    if took > report.slowest:
        report.slowest, report.slowest_request = took, f"{one.method} {one.path}"
    if took > LONGEST:
        report.problems.append(f"{took:.1f} s to answer {one}")
    if why := wrong(one, status, headers.get("content-type", ""), body):
        report.problems.append(f"{why}: {body[:400]!r} to {one}")


def _timed(sender: Sender, one: Request) -> tuple[float, tuple[int, http.client.HTTPMessage, bytes]]:
    began = time.monotonic()
    answer = sender.send(one)
    return time.monotonic() - began, answer


def wrong(one: Request, status: int, media: str, body: bytes) -> str:
    """Return what is wrong with an answer, or ""."""
    found = _document(media, body)
    is_status = isinstance(found, dict) and found.get("kind") == "Status"
    if status >= 500 and not (status == 503 and is_status and found.get("message")):
        return f"an error {status} of the server"
    path = one.path.partition("?")[0]
    is_api = any(path == root or path.startswith(f"{root}/") for root in _STATUS_PATHS)
    if status < 400 or not is_api or one.method == "HEAD" or media.startswith("text/html"):
        return ""
    if not is_status:
        return f"an error {status} that is no Status ({media})"
    if found.get("code") != status or not found.get("message") or found.get("status") != "Failure":
        return f"a Status of {found.get('code')} in an answer of {status}"
    return ""


def _document(media: str, body: bytes) -> object:
    try:
        return yaml.safe_load(body) if "yaml" in media else json.loads(body)
    except (ValueError, yaml.YAMLError):
        return None


def memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10

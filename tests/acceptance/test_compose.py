"""docker/compose.yaml starts a usable product: its commands and environments, run here with other addresses."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
import yaml

from tests.api.server import Answer, free_ports
from tests.processes import PROJECT, Processes, until

COMPOSE = yaml.safe_load((PROJECT / "docker" / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
WATCHING = tuple(name for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"])
BOUGHT = ("postgres", "valkey", "proxy", *WATCHING)  # images of others: servers of this run stand in for the first two
HOST = "lifeboat.example.com"
PASSWORD = "correct-horse-battery"
GIVEN = {
    "POSTGRES_PASSWORD": "postgres-password",
    "LIFEBOAT_SECRET_KEY": "a-key-of-at-least-fifty-characters-for-the-test-of-compose",
    "LIFEBOAT_ENCRYPTION_KEYS": "b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0",
    "LIFEBOAT_ALLOWED_HOSTS": HOST,
    "LIFEBOAT_ADMIN_PASSWORD": PASSWORD,
}
WITHIN = 120.0


def filled(text: str, given: Mapping[str, str]) -> str:
    """Return a value as compose fills it in: ${NAME}, ${NAME:-default}, ${NAME:?what is missing}."""

    def value(found: re.Match[str]) -> str:
        name, sign, rest = found[1], found[2], found[3]
        if not given.get(name) and sign == ":?":
            raise KeyError(f"{name}: {rest}")
        return given.get(name) or rest or ""

    return re.sub(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}", value, text)


class Replay:
    """Runs services as compose says. `addresses`: what is here instead of what is named there."""

    def __init__(self, folder: Path, addresses: Mapping[str, str], given: Mapping[str, str]) -> None:
        self.folder = folder
        self.addresses = addresses
        self.given = given
        ours = [name for name in SERVICES if name not in BOUGHT]
        self.metrics = dict(zip(ours, free_ports(len(ours)), strict=True))

    def mapped(self, text: str) -> str:
        found = filled(text, self.given)
        for there, here in self.addresses.items():
            found = re.sub(rf"(?<!\w){re.escape(there)}(?!\w)", lambda _, here=here: here, found)
        return found

    def command(self, words: list[str]) -> list[str]:
        """Return the arguments of Python for a command of the image."""
        program, *rest = [self.mapped(one) for one in words]
        return {"python": rest, "celery": ["-m", "celery", *rest]}[program]

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of the image and of compose, and nothing else of ours."""
        image = (PROJECT / "docker" / "Dockerfile").read_text()
        words = shlex.split(" ".join(re.findall(r"^ENV (.+)$", image, re.MULTILINE)))
        own = dict(word.split("=", 1) for word in words)
        own["LIFEBOAT_METRICS_PORT"] = str(self.metrics[service])  # each container has an address of its own
        own |= {name: self.mapped(value) for name, value in SERVICES[service]["environment"].items()}
        kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "PYTHONWARNINGS": "ignore"}
        return own | kept | {"LIFEBOAT_HOME": str(self.folder / service), "TMPDIR": str(self.folder)}

    def run(self, service: str, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *self.command(words)],
            cwd=PROJECT,
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def healthy(self, service: str) -> bool:
        """Run a service's health check: its own, or that of the image."""
        if "healthcheck" in SERVICES[service]:
            kind, *words = SERVICES[service]["healthcheck"]["test"]
            assert kind == "CMD"
        else:
            image = (PROJECT / "docker" / "Dockerfile").read_text()
            words = json.loads(re.findall(r"^HEALTHCHECK .*\\\n *CMD (\[.+\])$", image, re.MULTILINE)[0])
        return self.run(service, words).returncode == 0


def files_of_the_image() -> set[Path]:
    """Return the files in the folders that the image has, without compiled modules, which other tests may write."""
    copied = [PROJECT / name for name in ("apps", "config", "controlplane")]
    files = {path for folder in copied for path in folder.rglob("*") if "__pycache__" not in path.parts}
    return files | {path for path in PROJECT.iterdir() if path.name != ".pytest_cache"}


def in_order() -> list[str]:
    """Return our services, each behind what it depends on."""
    found: list[str] = []
    while len(found) < len(SERVICES) - len(BOUGHT):
        found += [
            name
            for name, service in SERVICES.items()
            if name not in (*found, *BOUGHT) and set(service["depends_on"]) <= {*found, *BOUGHT}
        ]
    return found


def not_json(folder: Path) -> list[str]:
    """Return the lines of logs that are no JSON objects, each with the name of its log."""
    lines = [(path.name, line) for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines()]
    return [f"{name}: {line}" for name, line in lines if not line.startswith("{") or "at" not in json.loads(line)]


@contextmanager
def tls_proxy(folder: Path, *, to: int, port: int) -> Iterator[ssl.SSLContext]:
    """Run Caddy as the profile tls does, on another port; yield what trusts its authority."""
    inside = SERVICES["proxy"]["command"]
    command = [str(PROJECT / "docker/Caddyfile") if one == "/etc/caddy/Caddyfile" else one for one in inside]
    given = {"PROXY_PORT": str(port), "PROXY_TO": f"127.0.0.1:{to}", "LIFEBOAT_ALLOWED_HOSTS": HOST}
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), **given}
    root = folder / "data/caddy/pki/authorities/local/root.crt"
    folder.mkdir()
    program = Path(sys.executable).with_name("caddy")
    with (folder / "caddy.log").open("wb") as log:
        caddy = subprocess.Popen([program, *command[1:]], env=own, cwd=folder, stdout=log, stderr=log)
        try:
            until(lambda: root.exists() and "certificate obtained" in (folder / "caddy.log").read_text(), within=WITHIN)
            yield ssl.create_default_context(cafile=str(root))
        finally:
            caddy.terminate()
            caddy.wait()


class Browser:
    """A browser at the proxy's address: it keeps cookies, and says which page a form came from."""

    def __init__(self, port: int, trusting: ssl.SSLContext) -> None:
        self.port = port
        self.origin = f"https://{HOST}:{port}"
        self.trusting = trusting
        self.cookies: SimpleCookie = SimpleCookie()

    def open(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        sent = {"Host": f"{HOST}:{self.port}", "Accept": "text/html", **headers}
        sent["Cookie"] = "; ".join(f"{name}={one.value}" for name, one in self.cookies.items())
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=60)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sock = self.trusting.wrap_socket(plain, server_hostname=HOST)
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        for header in response.headers.get_all("Set-Cookie") or ():
            self.cookies.load(header)
        content = response.read()
        connection.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def log_in(self, *, origin: str) -> Answer:
        """Send the form of the login page as a page of that origin would."""
        page = self.open("GET", "/login/login/?next=/api/v1/namespaces").body
        found = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found is not None, page
        form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": found[1].decode()}
        body = urlencode({**form, "next": "/api/v1/namespaces"})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin, "Referer": f"{origin}/"}
        return self.open("POST", "/login/login/", body, **headers)


@pytest.fixture
def addresses() -> Iterator[dict[str, str]]:
    """Where the servers are instead of `postgres` and `valkey`, on a database of the test's own."""
    here, name = os.environ["DATABASE_URL"], f"lifeboat_compose_{os.getpid()}"
    own = re.sub(r"/lifeboat(?=\?|$)", f"/{name}", here)
    assert own != here, here
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
    yield {
        f"postgresql://lifeboat:{GIVEN['POSTGRES_PASSWORD']}@postgres:5432/lifeboat": own,
        "redis://valkey:6379/0": os.environ["REDIS_URL"],
    }
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "LIFEBOAT_TRUSTED_ORIGINS", *GIVEN])
def test_what_has_to_be_given_is_asked_for(name: str) -> None:
    given = {one: value for one, value in (GIVEN | {"LIFEBOAT_TRUSTED_ORIGINS": "x"}).items() if one != name}

    with pytest.raises(KeyError, match=rf"{name}: \w+"):
        filled((PROJECT / "docker" / "compose.yaml").read_text(), given)


def test_everything_waits_for_what_it_needs() -> None:
    for name, service in SERVICES.items():
        waits = service.get("depends_on", {})
        assert all(
            "healthcheck" in SERVICES[one] for one, how in waits.items() if how["condition"] == "service_healthy"
        )
        if name not in (*BOUGHT, "prepare"):
            assert waits["prepare"] == {"condition": "service_completed_successfully"}
            assert waits["valkey"] == {"condition": "service_healthy"}
    assert "postgres" in SERVICES["prepare"]["depends_on"]


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in BOUGHT])
def test_a_container_of_ours_has_no_rights_and_writes_to_tmp_only(name: str) -> None:
    service = SERVICES[name]

    assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])


def test_the_profile_for_monitoring_mounts_files_that_exist_and_scrapes_our_services() -> None:
    """Their images are not started here; promtool reads the files in tests/apps/test_monitoring.py."""
    assert set(WATCHING) == {"prometheus", "alertmanager", "grafana"}
    for name in WATCHING:
        for source, target, *_ in (volume.split(":") for volume in SERVICES[name]["volumes"]):
            assert (PROJECT / "docker" / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"]
            for word in SERVICES[name].get("command", ()):
                if word.startswith(f"--config.file={target}/"):
                    assert (PROJECT / "docker" / source / word.removeprefix(f"--config.file={target}/")).is_file()
    scraped = yaml.safe_load((PROJECT / "docker" / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"]
    targets = {target for job in scraped for one in job["static_configs"] for target in one["targets"]}
    assert targets == {f"{name}:9464" for name in SERVICES if name not in (*BOUGHT, "prepare")}


def test_the_image_installs_locked_packages_and_runs_as_no_root() -> None:
    image = (PROJECT / "docker" / "Dockerfile").read_text()

    assert "--require-hashes --only-binary :all: -r requirements.lock" in image
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11-slim@sha256:[0-9a-f]{64}$", image, re.MULTILINE)
    assert re.search(r"^USER 10001:10001$", image, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", image, re.MULTILINE)
    for name in re.findall(r"^COPY (?!--from)(\S+) ", image, re.MULTILINE):
        assert (PROJECT / name).exists(), name


def test_the_files_that_the_image_copies_are_all_that_its_processes_import(tmp_path: Path) -> None:
    image = (PROJECT / "docker" / "Dockerfile").read_text()
    for name in re.findall(r"^COPY (?!--from)(\S+) \S+$", image, re.MULTILINE):
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    given = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONDONTWRITEBYTECODE": "1"}
    given |= {name: value for name, value in GIVEN.items() if name.endswith(("KEY", "KEYS"))}
    code = "import django; django.setup(); import config.asgi, config.celery, apps.worker.tasks, apps.members.process"

    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(config.__file__)"],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == str(tmp_path / "config" / "__init__.py"), done.stderr


@pytest.mark.slow
def test_the_services_make_a_product_that_is_used_through_a_tls_proxy(
    tmp_path: Path, addresses: dict[str, str]
) -> None:
    port, tls_port = free_ports(2)
    given = GIVEN | {"LIFEBOAT_TRUSTED_ORIGINS": f"https://{HOST}:{tls_port}"}
    addresses |= {"0.0.0.0": "127.0.0.1", "api:8000": f"localhost:{port}", "8000": str(port)}
    replay = Replay(tmp_path, addresses, given)
    order = in_order()
    assert order[0] == "prepare"
    before = files_of_the_image()
    prepared = replay.run("prepare", SERVICES["prepare"]["command"])
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr

    with Processes(tmp_path / "logs", {}) as processes:
        for name in order[1:]:
            processes.environment = replay.environment(name)
            processes.start(name, replay.command(SERVICES[name]["command"]))
        for name in ("api", "worker", "members", "beat"):
            until(lambda name=name: replay.healthy(name), within=WITHIN, every=1.0)

        with tls_proxy(tmp_path / "tls", to=port, port=tls_port) as trusting:
            browser = Browser(tls_port, trusting)
            assert browser.log_in(origin="https://elsewhere.example.com").status == 403
            assert browser.log_in(origin=browser.origin).status == 302
            page = browser.open("GET", "/api/v1/namespaces")
            token = replay.run("api", ["python", "manage.py", "token", "create", "--user", "admin"]).stdout.strip()
            program = Browser(tls_port, trusting).open("GET", "/api/v1/namespaces", Authorization=f"Bearer {token}")

    assert files_of_the_image() == before, "the root file system is read-only"
    assert not_json(tmp_path / "logs") == [], "docs/operating.md pipes the log of a service to jq"
    assert (page.status, b"karmada-cluster" in page.body) == (200, True)
    assert "strict-transport-security" in page.headers, "the API knows that it was asked over https"
    assert {"sessionid", "csrftoken"} <= set(browser.cookies)
    assert [name for name, one in browser.cookies.items() if not one["secure"]] == []
    assert program.status == 200

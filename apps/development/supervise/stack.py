"""The processes of `make run`, and how each is started. To add one, edit STARTED and `programs`."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from apps.development.supervise import shape
from apps.development.supervise.lifetime import PROJECT, Facts
from apps.development.supervise.ports import LOOPBACK, answers, claimed_port
from apps.development.supervise.processes import Program, Supervisor
from apps.development.supervise.run_folder import RunFolder
from apps.development.supervise.services import start_services

# In the order of their start. They are ended in the opposite order.
STARTED = ("simulator", "api", "worker", "beat", "members")
MEMBERS = ("member1", "member2", "member3")
USUAL_API_PORT, USUAL_TLS_PORT = 8001, 8444
USUAL_HOME = Path(".lifeboat")
ADMIN = "admin"
MIGRATED_WITHIN = 300.0  # seconds, for a large database on a slow machine
PREPARED = "prepared\n"  # what `manage.py develop` prints when the database has been migrated
WORKER_OPTIONS = ("--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat")

# Short times, to see a failover within seconds. The defaults of production are in controlplane.settings.
DEVELOPMENT_PROFILE = {
    "LIFEBOAT_DEVELOPMENT": "true",
    "LIFEBOAT_FEATURE_GATES": "Failover=true",
    "LIFEBOAT_CLUSTER_STATUS_UPDATE_FREQUENCY": "1",
    "LIFEBOAT_CLUSTER_SUCCESS_THRESHOLD": "3",
    "LIFEBOAT_CLUSTER_FAILURE_THRESHOLD": "3",
    "LIFEBOAT_CLUSTER_MONITOR_PERIOD": "1",
    "LIFEBOAT_CLUSTER_MONITOR_GRACE_PERIOD": "5",
    "LIFEBOAT_CLUSTER_STARTUP_GRACE_PERIOD": "10",
    "LIFEBOAT_GRACEFUL_EVICTION_TIMEOUT": "60",
    "LIFEBOAT_MEMBERS_ALLOWED_ADDRESSES": "127.0.0.0/8,::1/128",  # simulated members listen on the loopback
}


@dataclass(frozen=True)
class Place:
    """The folder, environment and ports of this run."""

    home: RunFolder
    environment: dict[str, str]
    members: tuple[str, ...]  # names of simulated clusters
    api_port: int  # http, for browsers
    tls_port: int  # https, for kubectl, which sends tokens over https only

    @property
    def api_url(self) -> str:
        return f"http://{LOOPBACK}:{self.api_port}"

    @property
    def tls_url(self) -> str:
        return f"https://{LOOPBACK}:{self.tls_port}"


def programs(place: Place) -> dict[str, Program]:
    """Return all processes by name, and `develop`, which prepares the database and ends."""
    home, python = place.home, sys.executable
    celery = [python, "-m", "celery", "--skip-checks", "-A", "config"]
    serve = [python, "manage.py", "serve", "--host", LOOPBACK]
    serve += ["--port", str(place.api_port), "--tls-port", str(place.tls_port)]
    simulate = [python, "-m", "apps.simulator", "serve", "--dir", str(members_folder(home))]
    simulate += ["--members", ",".join(place.members)]
    develop = [python, "manage.py", "develop", "--from", str(members_folder(home) / "members.json")]
    # Only `develop` needs the login that it creates, and the address that it writes into the kubeconfig.
    own = {"LIFEBOAT_ADMIN_NAME": ADMIN, "LIFEBOAT_ADMIN_PASSWORD": home.secret("admin")}
    own["LIFEBOAT_API_URL"] = place.tls_url

    def has_logged(name: str, words: str) -> Callable[[], bool]:
        return _has_logged(home, name, words)

    def serves() -> bool:
        return answers(place.api_port) and answers(place.tls_port)

    table = (
        Program("simulator", simulate, ready=has_logged("simulator", "simulator ready")),
        Program("api", serve, ready=serves),
        Program("worker", [*celery, "worker", *WORKER_OPTIONS], ready=has_logged("worker", " ready."), grace=20.0),
        Program("beat", [*celery, "beat", "--loglevel=INFO", "--pidfile="], ready=has_logged("beat", "Starting...")),
        Program("members", [python, "manage.py", "members"], ready=has_logged("members", "members: ready")),
        Program("develop", develop, env=own, ready=has_logged("develop", PREPARED), ready_within=MIGRATED_WITHIN),
    )
    metrics = metrics_ports(os.environ)
    return {
        program.name: replace(
            program, env={**place.environment, **metrics.get(program.name, {}), **program.env}, cwd=PROJECT, shared=True
        )
        for program in table
    }


def metrics_ports(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the variable with the metrics port of each process: LIFEBOAT_METRICS_PORT and the next three.

    Empty: it is not set. The processes of one host cannot share a port.
    """
    first = environ.get("LIFEBOAT_METRICS_PORT", "")
    if not first.isdecimal() or not int(first):
        return {}
    names = ("api", "worker", "beat", "members")
    return {name: {"LIFEBOAT_METRICS_PORT": str(port)} for port, name in enumerate(names, start=int(first))}


def fault_command(home: RunFolder, *, member: str, fault: str) -> list[str]:
    """Return the command that makes a simulated member fail."""
    folder = str(members_folder(home))
    return [sys.executable, "-m", "apps.simulator", "fault", "--dir", folder, "--member", member, "--fault", fault]


def members_folder(home: RunFolder) -> Path:
    """Return the folder of the simulated members: their kubeconfigs and members.json."""
    return home.root / "members"


def bring_up(home: RunFolder, supervisor: Supervisor, *, members: tuple[str, ...] = MEMBERS) -> Facts:
    """Start PostgreSQL and Redis, then all other processes at once. Prints and returns their addresses.

    If the database has to be migrated, processes that use it start after that.
    """
    began = time.monotonic()
    services = start_services(home, supervisor)
    with claimed_port(USUAL_API_PORT) as port, claimed_port(USUAL_TLS_PORT) as tls_port:
        place = Place(home, _environment(home, services.environment), members, port, tls_port)
        if not metrics_ports(os.environ):  # else each process has an environment of its own, which is read at import
            supervisor.preload(place.environment, cwd=PROJECT)
        step, table = time.monotonic(), programs(place)
        rest = [table[name] for name in STARTED if name != "simulator"]
        supervisor.launch(table["simulator"])
        is_migrated = shape.is_current(home, services.data)
        if is_migrated:
            supervisor.launch(*rest)
        supervisor.await_ready("simulator")
        supervisor.start(table["develop"])
        if not is_migrated:
            print(f"database migrated after {time.monotonic() - step:.1f} s")
            shape.remember(home, services.data)
            step = time.monotonic()
            supervisor.launch(*rest)
        supervisor.await_end("develop")
        supervisor.await_ready(*STARTED)
        supervisor.end_preloading()
    for member in members:
        _link(home.root / f"{member}.kubeconfig", members_folder(home) / f"{member}.kubeconfig")
    print(f"{', '.join(STARTED)} ready after {time.monotonic() - step:.1f} s")
    print(f"up after {time.monotonic() - began:.1f} s\n{_welcome(place)}")
    return {"environment": place.environment, "api": place.api_url, "members": str(members_folder(home))}


def _link(link: Path, file: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(file)


def _has_logged(home: RunFolder, name: str, words: str) -> Callable[[], bool]:
    """Return a function that tests whether a process has written these words to its log since now."""
    log = home.log(name)
    before = log.stat().st_size if log.exists() else 0

    def test() -> bool:
        with log.open("rb") as lines:
            lines.seek(before)
            return words.encode() in lines.read()

    return test


def _environment(home: RunFolder, services: dict[str, str]) -> dict[str, str]:
    profile = {name: os.environ.get(name, value) for name, value in DEVELOPMENT_PROFILE.items()}
    return {
        **services,
        **profile,
        "LIFEBOAT_SECRET_KEY": os.environ.get("LIFEBOAT_SECRET_KEY") or home.secret("secret_key"),
        "LIFEBOAT_ENCRYPTION_KEYS": os.environ.get("LIFEBOAT_ENCRYPTION_KEYS") or home.secret("encryption_key"),
        "LIFEBOAT_LEASE_SECONDS": os.environ.get("LIFEBOAT_LEASE_SECONDS", "5"),
        "LIFEBOAT_HOME": str(home.root.resolve()),
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),  # else each thread keeps free memory of its own
    }


def _welcome(place: Place) -> str:
    kubeconfig = _shown(place.home.root / "kubeconfig")
    root = _shown(place.home.root)
    this = "" if root == USUAL_HOME else f" DIR={root}"  # without it, make uses the usual folder
    return f"""
Lifeboat, development profile: the gate Failover is on, thresholds are seconds, and a ClusterTaintPolicy adds a
NoExecute taint to clusters whose Ready is False or Unknown. The defaults of production are in docs/settings.md.
  browser     {place.api_url}
  admin       {place.api_url}/admin/   login {ADMIN}, password {place.home.secret("admin")}
  kubectl     export KUBECONFIG={kubeconfig}
  logs        {_shown(place.home.logs)}{_about_members(place, place.members[0], this) if place.members else ""}
Ctrl-C or `make down{this}` ends it."""


def _about_members(place: Place, some: str, this: str) -> str:
    """Return the lines about simulated clusters, with one of them as the example."""
    kubeconfig = _shown(place.home.root / "kubeconfig")
    return f"""
  members     {", ".join(place.members)}: kubectl --kubeconfig {_shown(place.home.root / f"{some}.kubeconfig")}
Make a cluster fail and see what happens:
  kubectl --kubeconfig {kubeconfig} apply -f docs/examples/divided.yaml
  make fault{this} MEMBER={some} FAULT=down
  kubectl --kubeconfig {kubeconfig} get resourcebindings -w"""


def _shown(path: Path) -> Path:
    """Return the path relative to the working directory if it is below it, else as it is."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

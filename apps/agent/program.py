"""The command `lifeboat-agent`: registers the agent of a Pull member, and runs it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import uvloop
from prometheus_client import start_http_server

from apps.agent.certificates import NoCertificate
from apps.agent.credentials import Access, Unusable, read
from apps.agent.karmada_arguments import Translated, is_karmada, translated
from apps.agent.process import Options, serve
from apps.agent.registration import NotTrusted, credentials_file, is_refused, is_registered, register
from config import env
from config.env import EnvironmentInvalid
from config.product import from_environment

FOLDER: Final = Path("/var/lib/lifeboat-agent")
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DAYS: Final = 90.0  # so long that an outage of the control plane of many days leaves time for the renewal

_RUN: Final[Mapping[str, Any]] = {
    "--kubeconfig": {"type": Path, "help": "of the control plane. Default: what register wrote"},
    "--context": {"default": "", "help": "context of --kubeconfig. Default: the current one"},
    "--member-kubeconfig": {"type": Path, "help": "of the own cluster. Default: the pod's ServiceAccount"},
    "--renew-at": {"type": float, "default": 0.67, "help": "share of the time of a certificate after which to renew"},
    "--metrics-host": {"default": "0.0.0.0", "help": "address of /metrics"},
    "--metrics-port": {"type": int, "default": 0, "help": "port of /metrics; 0: none"},
}
_BOTH: Final[Mapping[str, Any]] = {
    "--folder": {"type": Path, "default": FOLDER, "help": "where credentials and Works are kept"},
    "--valid-days": {"type": float, "default": DAYS, "help": "how long a new certificate is valid"},
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command of the command line and return the exit code. Arguments of karmada-agent run the agent."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        level = env.log_level("LIFEBOAT_LOG_LEVEL", "INFO")
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
        found = translated(given, own=(*_RUN, *_BOTH)) if is_karmada(given) else Translated(given, {}, {})
        asked = _parser().parse_args(found.arguments)
        return _register(asked) if asked.command == "register" else _run(asked, found)
    except (Unusable, NotTrusted, NoCertificate, EnvironmentInvalid) as error:
        print(f"lifeboat-agent: {error}", file=sys.stderr)
        return 1


def _register(asked: argparse.Namespace) -> int:
    if is_registered(asked.folder) and not asyncio.run(is_refused(asked.cluster, asked.folder)):
        print(f"{asked.cluster} is registered already: {credentials_file(asked.folder)}")
        return 0
    token = asked.token or (asked.token_file.read_text().strip() if asked.token_file else "")
    authority = asked.authority.read_text() if asked.authority else ""
    registering = register(
        asked.cluster,
        asked.folder,
        server=asked.server,
        token=token,
        authority=authority,
        lasts=timedelta(days=asked.valid_days),
        within=timedelta(seconds=asked.wait),
    )
    asyncio.run(registering)
    print(f"{asked.cluster} is registered: {credentials_file(asked.folder)}")
    return 0


def _run(asked: argparse.Namespace, found: Translated) -> int:
    settings, warnings = from_environment({**env.variables(), **found.environment})
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
    member = _member(asked.member_kubeconfig)
    member()  # a kubeconfig that cannot be read ends the process at its start
    options = Options(
        asked.cluster,
        asked.folder,
        _access(asked.kubeconfig, asked.context, asked.folder),
        member,
        timedelta(days=asked.valid_days),
        asked.renew_at,
        found.expected,
    )
    if asked.metrics_port:
        start_http_server(asked.metrics_port, addr=asked.metrics_host)
    uvloop.run(serve(options, settings))
    return 0


def _access(given: Path | None, context: str, folder: Path) -> Access:
    """Return how the control plane is reached: the credentials of the folder, or those that were given.

    Those of the folder are used if nothing was given, or if they are the renewed certificate of those that were given:
    not in place of a token, and not if they have expired or were issued earlier.
    """
    own = credentials_file(folder)
    if given is None or (own.exists() and not given.exists()):
        return read(own)
    first = read(given, context)
    if first.valid is None or not is_registered(folder):
        return first
    renewed = read(own)
    return renewed if renewed.valid is not None and renewed.valid[0] >= first.valid[0] else first


def _member(kubeconfig: Path | None) -> Callable[[], Access]:
    """Return a function that reads how the own cluster is reached. It raises Unusable."""
    if kubeconfig is not None:
        return lambda: read(kubeconfig)
    host, port = env.text("KUBERNETES_SERVICE_HOST", ""), env.text("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Unusable("this is not a pod of Kubernetes: name the cluster with --member-kubeconfig FILE")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def in_cluster() -> Access:
        try:
            return Access(server, (ACCOUNT / "ca.crt").read_text(), (ACCOUNT / "token").read_text().strip())
        except OSError as error:
            raise Unusable(f"the ServiceAccount of the pod cannot be read: {error}") from error

    return in_cluster


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lifeboat-agent",
        description="The agent of a Pull member of Lifeboat. Arguments of karmada-agent run it as well.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("register", help="get a certificate with a bootstrap token, once")
    first.add_argument("--server", required=True, help="URL of the API of the control plane")
    first.add_argument("--token", default="", help="a bootstrap token, which `lifeboat join CLUSTER --pull` prints")
    first.add_argument("--token-file", type=Path, help="a file with the token")
    first.add_argument("--authority", type=Path, help="PEM of the authority. Default: the one that the token signed")
    first.add_argument("--wait", type=float, default=600.0, help="seconds to wait for the certificate")
    run = commands.add_parser("run", help="work until SIGTERM")
    for name, described in _RUN.items():
        run.add_argument(name, **described)
    for command in (first, run):
        command.add_argument("cluster", help="the name of the cluster in Lifeboat")
        for name, described in _BOTH.items():
            command.add_argument(name, **described)
    return parser

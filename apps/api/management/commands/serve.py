"""`manage.py serve`: serves the API in LIFEBOAT_API_PROCESSES processes, over http and over https."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from socket import socket
from types import FrameType
from typing import Any

import uvicorn
import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, connections

from apps.api.certificates import certificates
from apps.api.client_certificates import bundle
from apps.api.connections import guarded
from apps.api.fleet_metrics import FleetAtOneProcess
from apps.api.process_group import ProcessGroup, listening_socket
from apps.api.shell import Shell
from apps.objects import tracing
from apps.objects.free_memory import keep_returning
from apps.objects.metrics_server import serve_metrics
from config import env

log = logging.getLogger(__name__)

CLOCK_SECONDS = 1.0  # between two updates of the header Date
GRACE_SECONDS = 4  # for open requests at shutdown; the supervisor waits ten seconds for the process


class Server(uvicorn.Server):
    """A uvicorn server that looks once a second at its clock, and at once when it is to end.

    uvicorn looks ten times a second for the end, which costs an idle process more than anything else that it does.
    """

    _wake: Callable[[], object] = staticmethod(lambda: None)  # ends the wait

    async def main_loop(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._wake = partial(loop.call_soon_threadsafe, ended.set)
        while not await self.on_tick(0):
            try:
                async with asyncio.timeout(CLOCK_SECONDS):
                    await ended.wait()
            except TimeoutError:
                pass  # the header Date has a new second

    def end(self) -> None:
        """End the server, with open requests first."""
        self.should_exit = True
        self._wake()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._wake()


class SecondServer(Server):
    """A second server in one process. It receives the signals first and passes them on when it has ended."""

    def __init__(self, config: uvicorn.Config, application: Shell) -> None:
        super().__init__(config)
        self.application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.application.end_streams()  # the server waits for open streams
        super().handle_exit(sig, frame)


class Command(BaseCommand):
    help = (
        "Serve the API over http, and over https with a self-signed development certificate (kubectl sends its token "
        "over https only). In production use --tls-port 0 behind a proxy that terminates TLS."
    )
    requires_system_checks = []  # `make check` runs them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8001, help="port for http")
        parser.add_argument("--tls-port", type=int, default=8444, help="port for https; 0: http only")

    def handle(self, *args: Any, **options: Any) -> None:
        from config.asgi import application  # creates the application, which other commands do not need

        tls = _tls() if options["tls_port"] else None
        if settings.API_PROCESSES == 1:
            _run(application, _configs(application, options, tls), metrics_port=settings.METRICS_PORT)
            return
        ports = [options["port"], *([options["tls_port"]] if tls is not None else [])]
        sockets = [listening_socket(options["host"], port) for port in ports]
        connections.close_all()
        pool: Any = connection
        pool.close_pool()  # its threads would be missing in the processes

        def run(number: int) -> None:
            application.number = number
            port = settings.METRICS_PORT and settings.METRICS_PORT + number
            _run(application, _configs(application, options, tls), metrics_port=port, sockets=sockets)

        schemes = zip(("http", "https"), ports, strict=False)
        addresses = " and ".join(f"{scheme}://{options['host']}:{port}" for scheme, port in schemes)
        log.info("%d processes serve %s", settings.API_PROCESSES, addresses)
        ProcessGroup(settings.API_PROCESSES, run).serve()


def _tls() -> dict[str, Any]:
    """Return uvicorn's options for https, and create what is missing of the certificates."""
    files = certificates(tls_folder())
    tls: dict[str, Any] = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
    if settings.CLIENT_CERTIFICATES == "tls" and (trusted := bundle(tls_folder() / "clients.crt")) is not None:
        tls["ssl_ca_certs"] = str(trusted)
        tls["ssl_cert_reqs"] = ssl.CERT_OPTIONAL
    return tls


def _configs(application: Shell, options: dict[str, Any], tls: dict[str, Any] | None) -> list[uvicorn.Config]:
    """Return the configuration of the server for http and, unless `tls` is None, of that for https."""
    common: dict[str, Any] = {"app": application, "host": options["host"], "access_log": False}
    common["http"] = guarded(settings.API_CONNECTIONS, application.direct)
    common["log_config"] = None  # its lines have the form of all other lines
    common["ws"] = "none"  # websockets are passed on to members as they are: apps/api/tunnels.py
    common["timeout_keep_alive"] = 75  # seconds; clients reuse connections
    common["timeout_graceful_shutdown"] = GRACE_SECONDS
    configs = [uvicorn.Config(port=options["port"], lifespan="on", **common)]
    if tls is not None:
        configs.append(uvicorn.Config(port=options["tls_port"], lifespan="off", **common, **tls))
    return configs


def _run(
    application: Shell, configs: list[uvicorn.Config], *, metrics_port: int, sockets: Sequence[socket] = ()
) -> None:
    """Serve in this process until a signal. `sockets`: those of several processes; empty: it opens its own."""
    serve_metrics(FleetAtOneProcess(), port=metrics_port)
    tracing.start("api")
    keep_returning()
    shared: list[list[socket] | None] = [[each] for each in sockets] or [None, None]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        plain = Server(configs[0])
        if len(configs) == 1:
            runner.run(plain.serve(shared[0]))
        else:
            runner.run(_serve(plain, SecondServer(configs[1], application), *shared))


async def _serve(
    plain: Server, secure: Server, sockets: list[socket] | None, secure_sockets: list[socket] | None
) -> None:
    """Run both servers. A signal ends the second server, which then ends the first server and the application."""
    first = asyncio.create_task(plain.serve(sockets))
    while not plain.started and not first.done():
        await asyncio.sleep(0.01)
    if not first.done():
        await secure.serve(secure_sockets)
        plain.end()
    await first


def tls_folder() -> Path:
    """Return the folder of the development certificates."""
    return Path(env.text("LIFEBOAT_HOME", ".lifeboat")) / "tls"

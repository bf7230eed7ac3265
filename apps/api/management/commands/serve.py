"""`manage.py serve`: serves the API in one process, over http for browsers and over https for kubectl."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from apps.api.certificates import certificates
from apps.api.client_certificates import bundle
from apps.api.connections import guarded
from apps.api.fleet_metrics import FleetAtOneProcess
from apps.api.shell import Shell
from apps.objects import tracing
from apps.objects.metrics_server import serve_metrics
from config import env

GRACE_SECONDS = 4  # for open requests at shutdown; the supervisor waits ten seconds for the process


class SecondServer(uvicorn.Server):
    """A second uvicorn server in one process. It receives the signals first and passes them on when it has ended."""

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

        serve_metrics(FleetAtOneProcess())
        tracing.start("api")
        common: dict[str, Any] = {"app": application, "host": options["host"], "access_log": False}
        common["http"] = guarded(settings.API_CONNECTIONS)
        common["ws"] = "none"  # websockets are passed on to members as they are: apps/api/tunnels.py
        common["timeout_keep_alive"] = 75  # seconds; clients reuse connections
        common["timeout_graceful_shutdown"] = GRACE_SECONDS
        plain = uvicorn.Server(uvicorn.Config(port=options["port"], lifespan="on", **common))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if not options["tls_port"]:
                runner.run(plain.serve())
                return
            files = certificates(tls_folder())
            tls: dict[str, Any] = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
            if settings.CLIENT_CERTIFICATES == "tls":
                tls["ssl_ca_certs"] = str(bundle(tls_folder() / "clients.crt"))
                tls["ssl_cert_reqs"] = ssl.CERT_OPTIONAL
            secure = SecondServer(
                uvicorn.Config(port=options["tls_port"], lifespan="off", **common, **tls), application
            )
            runner.run(_serve(plain, secure))


async def _serve(plain: uvicorn.Server, secure: uvicorn.Server) -> None:
    """Run both servers. A signal ends the second server, which then ends the first server and the application."""
    first = asyncio.create_task(plain.serve())
    while not plain.started and not first.done():
        await asyncio.sleep(0.01)
    if not first.done():
        await secure.serve()
        plain.should_exit = True
    await first


def tls_folder() -> Path:
    """Return the folder of the development certificates."""
    return Path(env.text("LIFEBOAT_HOME", ".lifeboat")) / "tls"

"""`manage.py serve`: the API for development, over http for browsers and over https for kubectl, in one process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from apps.api.certificates import certificates
from apps.api.connections import guarded
from apps.api.shell import Shell
from config import env

GRACE_SECONDS = 4  # for requests on their way when told to end; the supervisor gives the process ten


class SecondServer(uvicorn.Server):
    """Beside another in one process: it takes the signals from that one, and hands them on when it has ended."""

    def __init__(self, config: uvicorn.Config, application: Shell) -> None:
        super().__init__(config)
        self.application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.application.end_streams()  # it would wait for them
        super().handle_exit(sig, frame)


class Command(BaseCommand):
    help = (
        "Serve the API over http, and over https with a certificate of its own (kubectl sends its token over https "
        "only). In production a proxy in front of it ends TLS: --tls-port 0."
    )
    requires_system_checks = []  # `make check` runs them; uvicorn runs none either

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8001)
        parser.add_argument("--tls-port", type=int, default=8444, help="0: http only")

    def handle(self, *args: Any, **options: Any) -> None:
        from config.asgi import application  # makes the application: not for every command that is listed

        common: dict[str, Any] = {"app": application, "host": options["host"], "access_log": False}
        common["http"] = guarded(settings.API_CONNECTIONS)
        common["timeout_keep_alive"] = 75  # seconds; clients keep connections for later
        common["timeout_graceful_shutdown"] = GRACE_SECONDS
        plain = uvicorn.Server(uvicorn.Config(port=options["port"], lifespan="on", **common))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if not options["tls_port"]:
                runner.run(plain.serve())
                return
            files = certificates(tls_folder())
            tls: dict[str, Any] = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
            secure = SecondServer(
                uvicorn.Config(port=options["tls_port"], lifespan="off", **common, **tls), application
            )
            runner.run(_serve(plain, secure))


async def _serve(plain: uvicorn.Server, secure: uvicorn.Server) -> None:
    """Run both. A signal ends the second, whose end hands it on to the first, which owns the application's life."""
    first = asyncio.create_task(plain.serve())
    while not plain.started and not first.done():
        await asyncio.sleep(0.01)
    if not first.done():
        await secure.serve()
        plain.should_exit = True
    await first


def tls_folder() -> Path:
    """Return where the development certificates are kept."""
    return Path(env.text("LIFEBOAT_HOME", ".lifeboat")) / "tls"

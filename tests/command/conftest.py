"""The command, run in this process against the shared server, with the kubeconfig that the server wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.command.program import app
from tests.api.server import Server

Lifeboat = Callable[..., Any]
DO = ("--yes", "--reason", "planned")  # confirms an act as a script does


@pytest.fixture
def lifeboat(server: Server) -> Lifeboat:
    """Run the command; return the result, with exit_code, stdout and stderr."""

    def run(*arguments: str, **more: Any) -> Any:
        environment = {"KUBECONFIG": str(server.kubeconfig), "NO_COLOR": "1", **more.pop("env", {})}
        done = CliRunner().invoke(app, list(arguments), env=environment, **more)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done

    return run

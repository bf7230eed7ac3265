"""Traces are an option: without an endpoint nothing is imported, without the packages an endpoint is refused."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.config.prose import PROJECT

# Stands for an installation without requirements-tracing.txt.
WITHOUT_PACKAGES = "import sys; sys.modules['opentelemetry.sdk.trace'] = None; import django; django.setup(); "
START = "from apps.objects import tracing; tracing.start('api'); "


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "LIFEBOAT_SECRET_KEY": "x", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )


def test_an_endpoint_without_the_packages_ends_the_process_with_the_command_that_installs_them() -> None:
    done = run(WITHOUT_PACKAGES + START, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")

    assert done.returncode == 1
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318" in done.stderr
    assert "pip install -r requirements-tracing.txt" in done.stderr


def test_without_an_endpoint_the_packages_are_not_needed() -> None:
    done = run(WITHOUT_PACKAGES + START + "print('opentelemetry' in sys.modules)", OTEL_EXPORTER_OTLP_ENDPOINT="")

    assert done.stdout == "False\n", done.stderr

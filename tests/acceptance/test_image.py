"""The image is built and run, where docker is. Elsewhere tests/acceptance/test_compose.py replays its commands."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.processes import PROJECT

pytestmark = pytest.mark.slow

TAG = "lifeboat:test"
SECONDS = 900.0
SECRETS = (
    "LIFEBOAT_SECRET_KEY=a-key-of-at-least-fifty-characters-for-the-test-of-the-image",
    "LIFEBOAT_ENCRYPTION_KEYS=b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0",
)


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.fixture(scope="module")
def image() -> str:
    """The image, built now."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed: the image is neither built nor run")
    if docker("version", "--format", "{{.Server.Version}}").returncode:
        pytest.skip("no docker daemon answers: the image is neither built nor run")
    built = docker("build", "--file", "docker/Dockerfile", "--tag", TAG, ".")
    assert built.returncode == 0, built.stdout + built.stderr
    return TAG


def run(image: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as compose does: read-only, without rights."""
    environment = [word for secret in SECRETS for word in ("--env", secret)]
    confined = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]
    return docker("run", "--rm", *confined, *environment, image, *command)


def test_the_image_has_everything_that_its_processes_import(image: str) -> None:
    code = "import django; django.setup(); import config.asgi, config.celery, apps.worker.tasks, apps.members.process"

    done = run(image, "python", "-c", f"import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings'; {code}")

    assert done.returncode == 0, done.stderr


def test_the_image_runs_as_another_user_than_root_and_has_no_pip(image: str) -> None:
    assert run(image, "id", "-u").stdout.strip() == "10001"
    assert run(image, "python", "-m", "pip", "--version").returncode != 0


def test_a_process_without_its_database_says_so_and_writes_nowhere_but_tmp(image: str) -> None:
    done = run(image, "python", "manage.py", "prepare")

    assert done.returncode != 0
    assert "Read-only file system" not in done.stderr
    assert "connection" in done.stderr

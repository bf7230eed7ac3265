"""The wheel: built, installed without the server's code beside it, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import PROJECT

BLOCKED = "django", "celery", "msgspec"


def pip(*arguments: str) -> None:
    call = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_installs_two_scripts_that_run_without_the_server(tmp_path: Path) -> None:
    source, wheels, installed = tmp_path / "source", tmp_path / "wheels", tmp_path / "installed"
    source.mkdir()
    for name in ("pyproject.toml", "requirements-command.txt", "LICENSE", "apps", "controlplane"):
        (source / name).symlink_to(PROJECT / name)  # setuptools writes beside its sources

    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source))
    (wheel,) = wheels.iterdir()
    pip("install", "--no-deps", "--no-index", "--target", str(installed), str(wheel))

    block = f"import sys; sys.modules.update(dict.fromkeys({BLOCKED!r}))\n"
    (installed / "sitecustomize.py").write_text(block)
    assert {one.name for one in (installed / "apps").iterdir() if one.is_dir()} - {"__pycache__"} == {"command"}
    for script, arguments, shown in (
        ("lifeboat", ["--help"], "Usage: lifeboat"),
        ("kubectl-lifeboat", ["version", "--client"], "client: "),
    ):
        done = subprocess.run(
            [sys.executable, str(installed / "bin" / script), *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, shown in done.stdout) == (0, True), done.stderr

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


def test_the_wheel_installs_scripts_that_run_without_the_server(tmp_path: Path) -> None:
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

    for words, first, directive in (
        (["dr"], ["drain", "drill"], ":4"),
        (["drain", "--ra"], ["--rate"], ":4"),
        (["completion", ""], ["bash", "zsh", "fish", "powershell"], ":4"),
        (["whatif", "-f", ""], [], ":0"),  # a file
    ):
        *lines, end = kubectl_completes(installed, "lifeboat", *words, within=tmp_path).splitlines()
        assert [line.partition("\t")[0] for line in lines if line] == first
        assert end == directive


def kubectl_completes(installed: Path, *words: str, within: Path) -> str:
    """Return what kubectl answers to a shell that completes a command line, with our scripts on its PATH."""
    scripts = within / "scripts"  # with this Python, whatever the first line of the installed ones says
    scripts.mkdir(exist_ok=True)
    for name in ("kubectl-lifeboat", "kubectl_complete-lifeboat"):
        (scripts / name).write_text(f'#!/bin/sh\nexec {sys.executable} {installed / "bin" / name} "$@"\n')
        (scripts / name).chmod(0o755)
    done = subprocess.run(
        ["kubectl", "__complete", *words],
        env={**os.environ, "PYTHONPATH": str(installed), "PATH": f"{scripts}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

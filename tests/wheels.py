"""`make wheels`: every pin, and what it needs, has a wheel on every machine that README names. Asks the registry.

pip resolves for another machine than this one, and downloads nothing it need not; markers (`; sys_platform == …`) it
would judge by this machine, so they are judged here, by the other one. Takes minutes: not part of `make check`.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1]
FILES = ("requirements-dev.txt",)  # it includes the others
OLDEST_MACOS = "11_0"  # pip takes what was built for older ones too
MANYLINUX = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34")
MACHINES = {
    "macOS on Apple silicon": ("darwin", "arm64"),
    "macOS on Intel": ("darwin", "x86_64"),
    "Linux on x86_64": ("linux", "x86_64"),
    "Linux on ARM": ("linux", "aarch64"),
}


def main(pythons: list[str]) -> int:
    """Resolve for every machine and these Pythons ("3.11"); return the exit status."""
    failed = 0
    for python in pythons:
        for name, (system, machine) in MACHINES.items():
            began = time.monotonic()
            problem = resolve(python, system, machine)
            failed += problem is not None
            outcome = problem or "all wheels are there"
            print(f"Python {python}, {name}: {outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


def resolve(python: str, system: str, machine: str) -> str | None:
    """Return what pip misses for one machine; None where it finds everything."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text("\n".join(pins(python, system, machine)))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--target", folder, "--only-binary=:all:", "--implementation", "cp"]
        command += ["--python-version", python, *(f"--platform={tag}" for tag in tags(system, machine))]
        done = subprocess.run([*command, "-r", str(wanted)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return "\n  ".join(line[:300] for line in done.stderr.splitlines() if line.startswith("ERROR") and " for " in line)


def pins(python: str, system: str, machine: str) -> Iterator[str]:
    """Yield the pins that hold on a machine."""
    there = {"python_version": python, "sys_platform": system, "platform_machine": machine}
    there["platform_system"] = {"darwin": "Darwin", "linux": "Linux"}[system]
    files = [PROJECT / name for name in FILES]
    while files:
        for line in files.pop().read_text().splitlines():
            text = line.partition("#")[0].strip()
            if text.startswith("-r "):
                files.append(PROJECT / text.removeprefix("-r ").strip())
            elif text:
                pin = Requirement(text)
                if pin.marker is None or pin.marker.evaluate(there):
                    pin.marker = None
                    yield str(pin)


def tags(system: str, machine: str) -> Iterator[str]:
    """Yield the platform tags such a machine takes."""
    if system == "linux":
        yield from (f"manylinux{version}_{machine}" for version in MANYLINUX)
        return
    yield f"macosx_{OLDEST_MACOS}_{machine}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

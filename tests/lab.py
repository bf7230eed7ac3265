"""Real members and a stack that they join, for the commands that take LAB=FOLDER.

The folder has the programs and scripts that start members: `unpack.sh` and `members.sh`. Nothing of it is needed by the
product.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import PROJECT

_SUPERVISE = (sys.executable, "-m", "apps.development.supervise")
_SIMULATED = "simulated"  # a stack does not start without a simulated member


@contextmanager
def members(lab: Path, environment: Mapping[str, str], *, count: int = 3) -> Iterator[list[Path]]:
    """Run real members in the folder LAB of the environment, and yield their kubeconfigs."""
    subprocess.run([str(lab / "unpack.sh")], env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        subprocess.run([str(lab / "members.sh"), "up", str(count)], env=environment, check=True)
        yield sorted(Path(environment["LAB"], "run").glob("member?.config"))
    finally:
        subprocess.run([str(lab / "members.sh"), "wipe"], env=environment, check=True)


@contextmanager
def stack(home: Path, environment: Mapping[str, str], join: list[Path]) -> Iterator[Path]:
    """Run all processes, empty, with these members joined, and yield the kubeconfig. No taint policy is there.

    The folder keeps logs and data until the next start.
    """
    subprocess.run([*_SUPERVISE, "clean", "--dir", str(home)], env=environment, check=True)
    subprocess.run([*_SUPERVISE, "up", "--dir", str(home), "--members", _SIMULATED], env=environment, check=True)
    try:
        said = subprocess.run([*_SUPERVISE, "env", "--dir", str(home)], check=True, capture_output=True, text=True)
        exported = dict(re.findall(r"^export (\w+)='?(.*?)'?$", said.stdout, re.MULTILINE))
        kubeconfig = home / "kubeconfig"
        for config in join:
            command = [sys.executable, "manage.py", "join", config.stem, "--kubeconfig", str(config)]
            subprocess.run(command, env={**environment, **exported}, check=True, cwd=PROJECT)
        kubectl(kubeconfig, "annotate", "cluster", _SIMULATED, "failover.lifeboat.io/unjoin=delete")
        kubectl(kubeconfig, "delete", "cluster", _SIMULATED, "--wait=false")
        # It would evict from members that are made to fail.
        kubectl(kubeconfig, "delete", "clustertaintpolicies", "--all")
        yield kubeconfig
    finally:
        subprocess.run([*_SUPERVISE, "down", "--dir", str(home)], env=environment, check=True)


def kubectl(kubeconfig: Path, *arguments: str, given: Any = None) -> str:
    """Run kubectl and return what it printed. `given`: an object for its standard input, for `-f -`."""
    done = subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", *arguments],
        input=None if given is None else json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def listed(kubeconfig: Path, resources: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the objects that `kubectl get` finds."""
    found = json.loads(kubectl(kubeconfig, "get", resources, *arguments, "-o", "json"))
    return list(found["items"]) if "items" in found else [found]

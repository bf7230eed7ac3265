"""Not a bench: a bare kube-apiserver that the benches of the API ask the same questions in the same run.

LAB is a folder of a Kubernetes cluster that runs without controllers: `run/member1.config` is its kubeconfig, and
`run/member1.apiserver.pid` names its process.
"""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.bench.served import Served

MISSING = "no kube-apiserver to compare with: start one without controllers and name its folder, make bench LAB=FOLDER"


def peer() -> Served | None:
    """Return the kube-apiserver of LAB; None: LAB is not set, or no kube-apiserver was started there."""
    folder = Path(os.environ.get("LAB") or "/nonexistent", "run")
    kubeconfig = folder / "member1.config"
    started = folder / "member1.apiserver.pid"
    if not (kubeconfig.is_file() and started.is_file()):
        return None
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    pid = int(started.read_text())
    trusted = ssl.create_default_context(cadata=authority)
    return Served(urlsplit(cluster["server"]).port or 443, user["token"], pid, trusted)

"""Kubeconfig files for kubectl: server, user and token."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml

NAME = "lifeboat"


def kubeconfig(*, server: str, user: str, token: str, authority: bytes = b"") -> str:
    """Return the text of a kubeconfig with a single cluster, user and context. `authority`: PEM of the authority."""
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": user, "namespace": "default"}}],
            "current-context": NAME,
        },
        sort_keys=False,
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read. The file is written completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)

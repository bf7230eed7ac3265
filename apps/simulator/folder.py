"""The folder of a running simulator: a kubeconfig per member, and members.json with the addresses of all members."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import orjson
import yaml

MEMBERS = "members.json"


def kubeconfig(name: str, *, url: str, token: str, authority: bytes = b"") -> str:
    """Return the kubeconfig of a member as YAML. `authority` is the CA certificate in PEM; empty: plain HTTP."""
    cluster: dict[str, Any] = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(folder: Path, *, members: list[dict[str, str]], control: str, authority: bytes = b"") -> None:
    """Write the kubeconfigs, readable by their owner only, and members.json last: once it exists, all files do."""
    folder.mkdir(parents=True, exist_ok=True)
    for member in members:
        text = kubeconfig(member["name"], url=member["url"], token=member["token"], authority=authority)
        _write_private(folder / f"{member['name']}.kubeconfig", text.encode())
    known = {"control": control, "members": members, "certificateAuthority": authority.decode()}
    _write_private(folder / MEMBERS, orjson.dumps(known, option=orjson.OPT_INDENT_2))


def read(folder: Path) -> dict[str, Any]:
    """Return the content of members.json. Raises FileNotFoundError if no simulator has used the folder."""
    known: dict[str, Any] = orjson.loads((folder / MEMBERS).read_bytes())
    return known


def _write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically. Only its owner can read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    draft.replace(path)

"""What a run leaves for others in a folder: a kubeconfig for each member, and members.json with all of them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import orjson
import yaml

MEMBERS = "members.json"


def kubeconfig(name: str, *, url: str, token: str, authority: bytes = b"") -> str:
    """Return the kubeconfig of one member as YAML; `authority` is the certificate to trust, in PEM."""
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
    """Write the kubeconfigs, then members.json: where that is, everything is. All are for their owner only."""
    folder.mkdir(parents=True, exist_ok=True)
    for member in members:
        text = kubeconfig(member["name"], url=member["url"], token=member["token"], authority=authority)
        _write_private(folder / f"{member['name']}.kubeconfig", text.encode())
    known = {"control": control, "members": members, "certificateAuthority": authority.decode()}
    _write_private(folder / MEMBERS, orjson.dumps(known, option=orjson.OPT_INDENT_2))


def read(folder: Path) -> dict[str, Any]:
    """Return what members.json says. Raises FileNotFoundError where no run was."""
    known: dict[str, Any] = orjson.loads((folder / MEMBERS).read_bytes())
    return known


def _write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    draft.replace(path)

"""How a control plane or a member is reached: read from a kubeconfig, and written to one that only its owner reads."""

from __future__ import annotations

import base64
import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from cryptography import x509

from controlplane.apimachinery.yaml_rules import problem
from controlplane.clusters.questions import Target

NAME: Final = "lifeboat"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


class Unusable(Exception):
    """A kubeconfig, or a file that it names, cannot be used. The message says which, and what to do."""


class Access(msgspec.Struct, frozen=True):
    """An API server and a login. `certificate` and `key`: PEM of a client certificate; "": `token` is the login."""

    server: str
    authority: str = ""  # PEM; "": the authorities of the system
    token: str = ""
    certificate: str = ""
    key: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        return f"Access({self.server})"

    @property
    def valid(self) -> tuple[datetime, datetime] | None:
        """From when and until when the certificate is valid; None: the login is a token."""
        if not self.certificate:
            return None
        certificate = x509.load_pem_x509_certificate(self.certificate.encode())
        return certificate.not_valid_before_utc, certificate.not_valid_after_utc

    def target(self, cluster: str, folder: Path) -> Target:
        """Return how a client reaches the server. Python reads client certificates from files only: it is written to
        `folder`."""
        pair = "" if not self.certificate else str(_pair(folder, self.certificate + self.key))
        return Target(
            cluster, self.server, token=self.token, ca=self.authority, insecure=self.insecure, certificate=pair
        )


def read(path: Path, named: str = "") -> Access:
    """Return a context of a kubeconfig. `named`: its name; "": the current one. Raises Unusable."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", named or config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        return Access(
            cluster["server"],
            _inline(cluster, "certificate-authority", path.parent),
            str(user.get("token") or (Path(user["tokenFile"]).read_text().strip() if "tokenFile" in user else "")),
            _inline(user, "client-certificate", path.parent),
            _inline(user, "client-key", path.parent),
            bool(cluster.get("insecure-skip-tls-verify", False)),
        )
    except yaml.YAMLError as error:  # its text quotes the line of the error, which may have the token
        raise Unusable(f"{path} is not valid YAML: {problem(error)}") from None
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{path} has no usable context: {type(error).__name__} {error}") from error


def write(path: Path, access: Access) -> None:
    """Write a kubeconfig that only its owner can read. The file is replaced as a whole."""
    cluster: dict[str, Any] = {"server": access.server}
    if access.authority:
        cluster["certificate-authority-data"] = _encoded(access.authority)
    user = {
        **({"token": access.token} if access.token else {}),
        **({"client-certificate-data": _encoded(access.certificate)} if access.certificate else {}),
        **({"client-key-data": _encoded(access.key)} if access.key else {}),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, as a whole or not at all, also if the machine stops meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _pair(folder: Path, text: str) -> Path:
    """Write certificate and key to a file named by their digest, remove earlier ones, and return its path."""
    path = folder / f"login-{hashlib.sha256(text.encode()).hexdigest()[:16]}.pem"
    if not path.exists():
        write_private(path, text)
    for earlier in folder.glob("login-*.pem"):
        if earlier != path:
            earlier.unlink()
    return path


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((item for item in config[part] if item["name"] == name), None)
    if found is None:
        raise ValueError(f"{part} has no entry {name}")
    return found


def _inline(part: dict[str, Any], name: str, folder: Path) -> str:
    if part.get(f"{name}-data"):
        return base64.b64decode(part[f"{name}-data"]).decode()
    return (folder / part[name]).read_text() if part.get(name) else ""


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

"""The first login of an agent: from a bootstrap token to a certificate of its own [agent-roles]."""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from apps.agent.certificates import certificate_for
from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access, Unusable, read, write
from controlplane.authentication.bootstrap_tokens import (
    KUBECONFIG,
    SIGNATURE_PREFIX,
    BootstrapToken,
    parts_of,
    signature,
)

log = logging.getLogger(__name__)

INFO: Final = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


class NotTrusted(Exception):
    """The server has not proved that it is the control plane. The message says what is missing."""


def credentials_file(folder: Path) -> Path:
    """Return where an agent keeps its credentials."""
    return folder / "kubeconfig"


def is_registered(folder: Path) -> bool:
    """Test whether the folder has credentials that are still valid."""
    try:
        valid = read(credentials_file(folder)).valid
    except Unusable:
        return False
    return valid is None or datetime.now(UTC) < valid[1]


async def is_refused(cluster: str, folder: Path) -> bool:
    """Test whether the control plane answers and does not accept the credentials in the folder.

    That is so, for example, if the cluster was deleted and joined again.
    """
    return await _is_refused(read(credentials_file(folder)), cluster, folder)


async def register(
    cluster: str, folder: Path, *, server: str, token: str, authority: str, lasts: timedelta, within: timedelta
) -> None:
    """Get the certificate of a cluster's agent with a bootstrap token, and write it to the folder.

    `authority`: PEM of the authority of the server; "": it is read from the server, and its signature is checked with
    the token. `lasts`: how long the certificate is to be valid, `within`: how long to wait for it. Raises NotTrusted,
    NoCertificate, and Unusable for a token of another form.
    """
    parts = parts_of(token)
    if parts is None:
        raise Unusable("the token does not have the form of a bootstrap token (abcdef.0123456789abcdef)")
    if not authority:
        authority = await _signed_authority(
            Access(server, insecure=True), BootstrapToken(*parts, (), True, True), folder
        )
    control_plane = ControlPlane(Access(server, authority, token=token), cluster, folder)
    try:
        certificate, key = await certificate_for(control_plane, lasts=lasts, within=within)
    finally:
        await control_plane.close()
    access = Access(server, authority, certificate=certificate, key=key)
    await _check_login(access, cluster, folder)
    write(credentials_file(folder), access)


async def _check_login(access: Access, cluster: str, folder: Path) -> None:
    """Raise NotTrusted if the control plane signs certificates and does not accept them as logins."""
    if await _is_refused(access, cluster, folder):
        raise NotTrusted(
            "the control plane does not accept the certificate that it has signed: set LIFEBOAT_CLIENT_CERTIFICATES to "
            "tls there (proxy behind a proxy that ends TLS), or use a token: manage.py kubeconfig --agent CLUSTER"
        )


async def _is_refused(access: Access, cluster: str, folder: Path) -> bool:
    control_plane = ControlPlane(access, cluster, folder)
    try:
        found = await control_plane.get(control_plane.cluster_path)
    finally:
        await control_plane.close()
    return found.code == 401


async def _signed_authority(access: Access, token: BootstrapToken, folder: Path) -> str:
    """Return the authority of a server that has signed it with the token; "": it is one of the system's."""
    control_plane = ControlPlane(access, "", folder)
    try:
        found = await control_plane.get(INFO)
    finally:
        await control_plane.close()
    if not found.ok:
        raise NotTrusted(
            f"{access.server} has no cluster-info: {found.problem}; name the file of its authority with --authority"
        )
    return authority_in(found.body.get("data") or {}, token)


def authority_in(data: Mapping[str, Any], token: BootstrapToken) -> str:
    """Return the authority in the data of the ConfigMap cluster-info. Raises NotTrusted without a valid signature."""
    content, signed = str(data.get(KUBECONFIG, "")), str(data.get(SIGNATURE_PREFIX + token.id, ""))
    if not hmac.compare_digest(signature(content, token).encode(), signed.encode()):
        raise NotTrusted(
            "the server has no signature by this token: it is not the control plane, or the token is unknown or has "
            "expired; create another one: lifeboat join CLUSTER --pull"
        )
    named = yaml.safe_load(content)["clusters"][0]["cluster"].get("certificate-authority-data", "")
    return base64.b64decode(named).decode()

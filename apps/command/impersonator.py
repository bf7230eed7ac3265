"""The impersonator of a member: the ServiceAccount there with which the control plane sends requests of users."""

from __future__ import annotations

import time
from typing import Final

from apps.command import exit_codes
from apps.command.api import Api
from apps.command.errors import CommandError, Document
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, IMPERSONATOR

TOKEN_SECONDS: Final = 20.0  # a member fills in the Secret of a token within this time
_WAIT_SECONDS: Final = 0.2
_NAMESPACE: Final = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}"
_SECRET: Final = f"{_NAMESPACE}/secrets/{IMPERSONATOR}"


def create(member: Api) -> str:
    """Create the impersonator in a member and return its token in base64. Raises CommandError.

    The control plane writes its rights in the member. They follow from which users may use `clusters/proxy`.
    """
    place = {"name": IMPERSONATOR, "namespace": CLUSTER_NAMESPACE}
    notes = {"kubernetes.io/service-account.name": IMPERSONATOR}
    secret = {"type": "kubernetes.io/service-account-token", "metadata": {**place, "annotations": notes}}
    member.apply(_NAMESPACE, _document("Namespace", {"metadata": {"name": CLUSTER_NAMESPACE}}))
    member.apply(f"{_NAMESPACE}/serviceaccounts/{IMPERSONATOR}", _document("ServiceAccount", {"metadata": place}))
    member.apply(_SECRET, _document("Secret", secret))
    end = time.monotonic() + TOKEN_SECONDS
    while not (token := (member.get(_SECRET).get("data") or {}).get("token", "")):
        if time.monotonic() > end:
            raise CommandError(
                f"the cluster has not filled in the token of Secret {CLUSTER_NAMESPACE}/{IMPERSONATOR} within "
                f"{TOKEN_SECONDS:g} s",
                code=exit_codes.REFUSED,
            )
        time.sleep(_WAIT_SECONDS)
    return str(token)


def _document(kind: str, content: Document) -> Document:
    return {"apiVersion": "v1", "kind": kind, **content}

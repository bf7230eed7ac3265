"""Bootstrap tokens: which Secrets are one, until when, and what they sign."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.authentication import bootstrap_tokens
from controlplane.controllers.bootstrap_tokens import CLUSTER_INFO, BootstrapTokens
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.objects import START
from tests.builders.templates import secret

SECRET = "0123456789abcdef"


def encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def token(token_id: str = "abcdef", *, namespace: str = "kube-system", name: str = "", **values: str) -> Template:
    given = {
        **{"token-id": token_id, "token-secret": SECRET, "usage-bootstrap-authentication": "true"},
        **{key.replace("_", "-"): value for key, value in values.items()},
    }
    return secret(name or f"bootstrap-token-{token_id}", given, namespace=namespace, type_=bootstrap_tokens.TYPE)


def in_seconds(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def test_a_token_has_its_groups_and_usages() -> None:
    found = bootstrap_tokens.read(token(auth_extra_groups="system:bootstrappers:karmada:default-cluster-token"))

    assert found is not None
    assert found.groups == ("system:bootstrappers", "system:bootstrappers:karmada:default-cluster-token")
    assert (found.authenticates, found.signs) == (True, False)
    assert found.has_secret(SECRET)
    assert not found.has_secret(SECRET[:-1] + "0")


@pytest.mark.parametrize(
    "secret",
    [
        token(namespace="default"),
        token(name="bootstrap-token-other1"),
        token("ABCDEF"),
        token(token_secret="short"),
        token(auth_extra_groups="system:masters"),
        token(auth_extra_groups="system:bootstrappers:ok,system:masters"),
        Template("v1", "Secret", token().metadata, {**token().content, "type": "Opaque"}),
        Template("v1", "Secret", token().metadata, {"type": bootstrap_tokens.TYPE, "data": {"token-id": "%%%"}}),
        Template("v1", "Secret", token().metadata, {"type": bootstrap_tokens.TYPE}),
    ],
    ids=["namespace", "name", "id", "secret", "group", "a group of several", "type", "not base64", "no data"],
)
def test_other_secrets_are_no_login(secret: Template) -> None:
    assert bootstrap_tokens.usable(secret, now=START) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"expiration": in_seconds(1)}, True),
        ({"expiration": in_seconds(0)}, False),
        ({"expiration": "tomorrow"}, False),
        ({"expiration": "2026-01-01T00:00:00"}, False),
        ({"usage_bootstrap_authentication": "false"}, False),
    ],
)
def test_a_token_is_a_login_until_it_expires(values: dict[str, str], expected: bool) -> None:
    assert (bootstrap_tokens.usable(token(**values), now=START) is not None) is expected


def verified(signature: str, content: str) -> dict[str, Any]:
    """Return the header of a detached signature that is right."""
    header, nothing, digest = signature.split(".")
    assert nothing == ""
    payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
    right = hmac.digest(SECRET.encode(), f"{header}.{payload}".encode(), "sha256")
    assert base64.urlsafe_b64encode(right).rstrip(b"=").decode() == digest
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(header + "=="))
    return found


def test_expired_tokens_are_removed_and_the_others_sign_the_address_of_the_api() -> None:
    now = START
    store = MemoryStore(controllers=[BootstrapTokens()], clock=lambda: now)
    metadata = ObjectMeta(name="cluster-info", namespace="kube-public", uid="uid-info", creation_timestamp=START)
    info = Template("v1", "ConfigMap", metadata, {"data": {"kubeconfig": "clusters: []", "jws-kubeconfig-gone00": "x"}})
    ending = token("ending", expiration=in_seconds(60), usage_bootstrap_signing="true")
    store.create(info, ending, token("ended0", expiration=in_seconds(-1)), token("silent"))

    def settled() -> tuple[dict[str, Any], set[str]]:
        run.run_until_idle([BootstrapTokens()], store, Settings(), world=run.World())
        data: dict[str, Any] = store.get([CLUSTER_INFO])[CLUSTER_INFO].content["data"]
        return data, {secret.metadata.name for secret in store.list("Secret")}

    data, left = settled()
    assert left == {"bootstrap-token-ending", "bootstrap-token-silent"}
    assert set(data) == {"kubeconfig", "jws-kubeconfig-ending"}
    assert verified(data["jws-kubeconfig-ending"], "clusters: []") == {"alg": "HS256", "kid": "ending"}

    now = START + timedelta(seconds=61)
    assert settled() == ({"kubeconfig": "clusters: []"}, {"bootstrap-token-silent"})
    assert Ref("Secret", "kube-system", "bootstrap-token-ending") not in store.objects

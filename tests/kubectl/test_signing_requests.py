"""kubectl's commands about certificate requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.api.controllers import work
from tests.api.roles import bind
from tests.api.server import Client, Server
from tests.builders.certificates import private_key, request_for
from tests.kubectl.test_kubectl import Kubectl
from tests.processes import until

pytestmark = pytest.mark.kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


SIGNER = "kubernetes.io/kube-apiserver-client"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def allowed(api: Client, user: str, verb: str, resource: str, *, name: str = "") -> bool:
    """Return whether roles allow something to a user, as far as the server knows."""
    asked = {"verb": verb, "group": "certificates.k8s.io", "resource": resource, "name": name}
    answer = api.post(REVIEWS, {"spec": {"user": user, "resourceAttributes": asked}})
    status: dict[str, bool] = answer.document["status"]
    return status["allowed"]


def document(name: str, request: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            **{"request": request, "signerName": "kubernetes.io/kube-apiserver-client"},
            **{"usages": ["client auth", "digital signature"], "expirationSeconds": 3600},
            **spec,
        },
    }


def test_a_request_is_made_approved_and_signed(k: Kubectl, server: Server, namespace: str) -> None:
    key = private_key()
    k("create", "-f", k.file(document(namespace, request_for("eva", "shop-team", key=key), username="root")))
    shown = k("get", "csr", namespace)
    assert "kubernetes.io/kube-apiserver-client" in shown
    assert "Pending" in shown
    spec = json.loads(k("get", "csr", namespace, "-o", "json"))["spec"]
    assert spec["username"] == "admin", "the login says who asks, not the document"

    k("certificate", "approve", namespace)
    work(server, "signing_requests")

    assert "Approved,Issued" in k("get", "csr", namespace)
    found = json.loads(k("get", "csr", namespace, "-o", "json"))["status"]["certificate"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(found))
    assert certificate.subject.rfc4514_string() in ("CN=eva,O=shop-team", "O=shop-team,CN=eva")
    assert certificate.public_key() == key.public_key()
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert 3600 <= lasts.total_seconds() <= 4000
    assert "already Approved" in k("certificate", "deny", namespace, code=1)


def test_a_denied_request_is_never_signed(k: Kubectl, server: Server, namespace: str) -> None:
    k("create", "-f", k.file(document(namespace, request_for("eva"))))

    k("certificate", "deny", namespace)
    work(server, "signing_requests")

    assert "Denied" in k("get", "csr", namespace)
    assert "certificate" not in json.loads(k("get", "csr", namespace, "-o", "json"))["status"]


def test_approving_needs_the_right_to_the_signer(k: Kubectl, api: Client, namespace: str) -> None:
    k("create", "-f", k.file(document(namespace, request_for("eva"))))
    rules = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
            "verbs": ["get", "update", "patch"],
        },
    ]
    role = {"metadata": {"name": f"approves-{namespace}"}, "rules": rules}
    assert api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).status == 201
    bind(api, f"a-{namespace}", to={"kind": "User", "name": namespace}, roles=(f"approves-{namespace}",))
    until(lambda: allowed(api, namespace, "get", "certificatesigningrequests"), within=10)

    refused = k("certificate", "approve", namespace, "--as", namespace, code=1)

    assert "may not approve requests with signerName" in refused
    signed = k(
        *("patch", "csr", namespace, "--as", namespace, "--subresource", "status", "--type", "merge"),
        *("-p", '{"status": {"certificate": "YQ=="}}'),
        code=1,
    )
    assert "may not sign requests" in signed
    approver = "system:certificates.k8s.io:kube-apiserver-client-approver"
    bind(api, f"b-{namespace}", to={"kind": "User", "name": namespace}, roles=(approver,))

    until(lambda: allowed(api, namespace, "approve", "signers", name=SIGNER), within=10)
    k("certificate", "approve", namespace, "--as", namespace)
    assert "Approved" in k("get", "csr", namespace)

"""Admission policies concern every way in, and no write without a request [admission-subjects]."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.test import Client

from apps.objects.admission_rules import admission_rules
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.kind import KINDS
from controlplane.kinds import EVICTION_HOLD
from controlplane.settings import Settings
from tests.apps.pages import found, list_of, page_of, save
from tests.apps.test_ways_in import APPLY, EDITED, HOLD, HOLDS, REF

URL = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["evictionholds"]}
DENIED = "ValidatingAdmissionPolicy 'holds' with binding 'holds' denied request: no holds on a Monday"


def document(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "holds"},
        "spec": spec,
    }


def send(root: Client, method: str, path: str, body: Any = None, *, type: str = "", accept: str = "") -> Any:
    text = yaml.safe_dump(body) if "yaml" in type else json.dumps(body)
    headers = {"Accept": accept or "application/json"}
    return root.generic(method, path, text if body else "", content_type=type or "application/json", headers=headers)


@pytest.fixture
def policy(root: Client) -> Iterator[None]:
    """A stored hold, and a policy that denies every write of holds."""
    assert send(root, "POST", HOLDS, HOLD).status_code == 201
    rules = {"resourceRules": [RULE]}
    validation = {"expression": "false", "message": "no holds on a Monday"}
    stated = document("ValidatingAdmissionPolicy", matchConstraints=rules, validations=[validation])
    bound = document("ValidatingAdmissionPolicyBinding", policyName="holds", validationActions=["Deny"])
    try:
        assert send(root, "POST", f"{URL}/validatingadmissionpolicies", stated).status_code == 201
        assert send(root, "POST", f"{URL}/validatingadmissionpolicybindings", bound).status_code == 201
        yield
    finally:
        assert send(root, "DELETE", f"{URL}/validatingadmissionpolicybindings/holds").status_code == 200
        send(root, "DELETE", f"{URL}/validatingadmissionpolicies/holds")
        assert admission_rules().is_empty


OTHER = {**HOLD, "metadata": {"name": "other"}}
WAYS = [
    ("POST", HOLDS, OTHER, "", ""),
    ("POST", HOLDS, OTHER, "application/yaml", "text/html"),
    ("POST", f"{HOLDS}?dryRun=All", OTHER, "", ""),
    ("PATCH", f"{HOLDS}/other?fieldManager=me", OTHER, APPLY, ""),
    ("PATCH", f"{HOLDS}/stop?fieldManager=me&force=true", EDITED, APPLY, ""),
    ("PATCH", f"{HOLDS}/stop", EDITED, "application/merge-patch+json", ""),
    ("PUT", f"{HOLDS}/stop", EDITED, "", ""),
    ("DELETE", f"{HOLDS}/stop", None, "", ""),
    ("DELETE", HOLDS, None, "", ""),
]


@pytest.mark.django_db(transaction=True)
def test_every_way_in_is_denied_with_the_same_message(root: Client, policy: None) -> None:
    before = found(REF)
    for method, path, body, kind, accept in WAYS:
        answer = send(root, method, path, body, type=kind, accept=accept)
        assert answer.status_code == 422, (method, path, answer.content)
        shown = "no holds on a Monday" if accept else DENIED
        assert shown in html.unescape(answer.content.decode()), (method, path)
    pages = [
        root.post(list_of(EVICTION_HOLD) + "add/", {"document": yaml.safe_dump(OTHER)}),
        save(root, page_of(before), yaml.safe_dump(EDITED)),
        root.post(page_of(before, "delete"), follow=True),
    ]
    for page in pages:
        assert DENIED in html.unescape(page.content.decode())
    assert found(REF) == before
    assert Writer(store(), Settings(), Author("", "")).live(REF) == before


@pytest.mark.django_db(transaction=True)
def test_writes_without_a_request_are_not_asked_about(root: Client, policy: None) -> None:
    made = Writer(store(), Settings(), Author("prepare", "Prepare")).create(KINDS[EVICTION_HOLD], OTHER)
    assert made.stored.metadata.name == "other"

"""Parameters of admission policies are read with the rights of their author [parameter-rights]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.roles import RBAC, bind, user
from tests.api.server import Answer, Client, Server
from tests.processes import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
SECRET, CONFIG = ({"apiVersion": "v1", "kind": kind} for kind in ("Secret", "ConfigMap"))


def grant(api: Client, name: str, rules: list[dict[str, Any]]) -> None:
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    bind(api, name, to={"kind": "User", "name": "mallory"}, roles=(name,))


@pytest.fixture(scope="module")
def mallory(server: Server) -> Client:
    """A user who may write admission policies and read ConfigMaps, and a single Secret."""
    made = user(server, "mallory")
    everything = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}
    config = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    one = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["hers"]}
    grant(server.client(server.token), "mallory-writes-policies", [everything, config, one])
    until(lambda: made.get(POLICIES).status == 200, within=10)
    return made


def policy(name: str, kind: dict[str, str] | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["endpoints"], "operations": ["CREATE"]}
            ]
        },
        "validations": [{"expression": "true"}],
    }
    return {"metadata": {"name": name}, "spec": spec | ({"paramKind": kind} if kind else {})}


def binding(name: str, of: str, /, **ref: Any) -> dict[str, Any]:
    params = {"paramRef": {"parameterNotFoundAction": "Allow", **ref}} if ref else {}
    return {"metadata": {"name": name}, "spec": {"policyName": of, "validationActions": ["Deny"], **params}}


def refused(answer: Answer, field: str) -> str:
    assert answer.status == 422, answer.body
    assert [cause["field"] for cause in answer.document["details"]["causes"]] == [field]
    return str(answer.document["message"])


def test_a_policy_needs_the_right_to_get_all_its_parameters(api: Client, mallory: Client) -> None:
    message = refused(mallory.post(POLICIES, policy("of-secrets", SECRET)), "spec.paramKind")

    assert 'user mallory must have "get" permission on all objects of the referenced paramKind (kind Secret' in message
    assert mallory.post(POLICIES, policy("of-config", CONFIG)).status == 201
    assert mallory.post(POLICIES, policy("of-nothing", None)).status == 201
    assert api.post(POLICIES, policy("of-secrets", SECRET)).status == 201


def test_a_change_of_the_kind_needs_the_right_and_other_changes_do_not(api: Client, mallory: Client) -> None:
    api.post(POLICIES, policy("changed", SECRET))
    mallory.post(POLICIES, policy("turned", CONFIG))

    assert mallory.patch(f"{POLICIES}/changed", {"spec": {"failurePolicy": "Ignore"}}).status == 200
    refused(mallory.patch(f"{POLICIES}/turned", {"spec": {"paramKind": SECRET}}), "spec.paramKind")
    refused(
        mallory.patch(
            f"{POLICIES}/turned?force=true&fieldManager=m",
            {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
            | {"spec": {"paramKind": SECRET}},
            type="application/apply-patch+yaml",
        ),
        "spec.paramKind",
    )


@pytest.mark.parametrize(
    ("of", "ref", "may"),
    [
        ("p-secrets", {"name": "theirs", "namespace": "default"}, False),
        ("p-secrets", {"name": "hers", "namespace": "default"}, True),
        ("p-secrets", {"name": "hers"}, True),
        ("p-secrets", {"selector": {}}, False),
        ("p-config", {"name": "any", "namespace": "default"}, True),
        ("p-config", {"selector": {}}, True),
        ("p-missing", {"name": "any", "namespace": "default"}, False),
        ("p-missing", {}, True),
    ],
    ids=[
        "another",
        "her own",
        "in every namespace",
        "a selector",
        "config",
        "all config",
        "no policy",
        "no parameters",
    ],
)
def test_a_binding_needs_the_right_to_read_what_it_names(
    api: Client, mallory: Client, of: str, ref: dict[str, Any], may: bool
) -> None:
    api.post(POLICIES, policy("p-secrets", SECRET))
    api.post(POLICIES, policy("p-config", CONFIG))

    answer = mallory.post(BINDINGS, binding(f"{of}-bound", of, **ref), dryRun="All")

    assert answer.status == 201 if may else refused(answer, "spec.paramRef")


def test_a_binding_may_be_changed_while_its_parameters_stay(api: Client, mallory: Client) -> None:
    api.post(POLICIES, policy("q-secrets", SECRET))
    api.post(BINDINGS, binding("q", "q-secrets", name="theirs", namespace="default"))

    assert mallory.patch(f"{BINDINGS}/q", {"spec": {"validationActions": ["Audit"]}}).status == 200
    refused(mallory.patch(f"{BINDINGS}/q", {"spec": {"paramRef": {"name": "other"}}}), "spec.paramRef")

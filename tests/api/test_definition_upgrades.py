"""A changed definition holds for the objects that were stored before: they are read, compared and written as it shows
them, with its defaults and without the fields that it dropped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.server import Client
from tests.api.test_definitions import DEFINITIONS, TABLE, define, definition

Document = dict[str, Any]
TEXT: Document = {"type": "string"}
OLD_SPEC: Document = {"type": "object", "properties": {"seats": {"type": "integer"}, "motor": TEXT}}
MODE: Document = {"type": "string", "default": "slow"}
# `mode` is new and may not change. `motor` is gone.
NEW_SPEC: Document = {
    "type": "object",
    "properties": {"seats": {"type": "integer"}, "mode": MODE},
    "x-kubernetes-validations": [{"rule": "self.mode == oldSelf.mode", "message": "mode may not change"}],
}
STATUS: Document = {"type": "object", "properties": {"afloat": {"type": "boolean"}}}
STORED = {"seats": 2, "motor": "steam"}
SHOWN = {"seats": 2, "mode": "slow"}


def schema(spec: Document) -> Document:
    return {"type": "object", "properties": {"spec": spec, "status": STATUS}}


@pytest.fixture
def group(namespace: str) -> str:
    return f"upgrades-{namespace}.example.io"


@pytest.fixture
def boats(api: Client, namespace: str, group: str) -> str:
    """Where the boat `ferry` is, whose definition was changed after it had been stored."""
    define(api, group, schema(OLD_SPEC), selectableFields=[{"jsonPath": ".spec.motor"}])
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    ferry = {"metadata": {"name": "ferry", "finalizers": ["example.io/hold"]}, "spec": STORED}
    assert api.post(where, ferry, fieldManager="owner").status == 201
    changed = definition(group, schema(NEW_SPEC), selectableFields=[{"jsonPath": ".spec.mode"}])
    done = api.patch(f"{DEFINITIONS}/boats.{group}", {"spec": changed["spec"]})
    assert done.status == 200, done.body
    return where


def test_what_was_stored_before_is_shown_as_the_definition_says(api: Client, boats: str) -> None:
    version = api.get(boats).document["metadata"]["resourceVersion"]
    labelled = api.patch(f"{boats}/ferry", {"metadata": {"labels": {"a": "b"}}}, dryRun="All").document

    assert labelled["spec"] == SHOWN
    assert api.get(f"{boats}/ferry").document["spec"] == SHOWN
    assert [one["spec"] for one in api.get(boats).document["items"]] == [SHOWN]
    assert len(api.get(boats, fieldSelector="spec.mode=slow").document["items"]) == 1
    assert api.get(boats, fieldSelector="spec.mode=fast").document["items"] == []
    table = api.ask("GET", boats, accept=TABLE, includeObject="Object").document
    assert [row["object"]["spec"] for row in table["rows"]] == [SHOWN]
    with api.watch(boats) as stream:
        assert stream.next()["object"]["spec"] == SHOWN
    with api.watch(boats, resourceVersion=version, fieldSelector="spec.mode=slow") as stream:
        api.patch(f"{boats}/ferry/status", {"status": {"afloat": True}})
        event = stream.next()
    assert (event["type"], event["object"]["spec"]) == ("MODIFIED", SHOWN)


def test_a_rule_about_a_new_field_stops_no_edit_of_what_was_stored_before(api: Client, boats: str) -> None:
    faster = api.patch(f"{boats}/ferry", {"spec": {"mode": "fast"}})
    reported = api.patch(f"{boats}/ferry/status", {"status": {"afloat": True}})
    released = api.patch(f"{boats}/ferry", {"metadata": {"finalizers": None}})

    assert faster.status == 422
    assert "mode may not change" in faster.document["message"]
    assert (reported.status, released.status) == (200, 200), (reported.body, released.body)


def test_who_labels_what_was_stored_before_owns_no_default_and_makes_no_generation(
    api: Client, group: str, boats: str
) -> None:
    labelled = api.patch(f"{boats}/ferry", {"metadata": {"labels": {"a": "b"}}}, fieldManager="kubectl-label")

    assert labelled.document["metadata"]["generation"] == 1
    (entry,) = [one for one in labelled.document["metadata"]["managedFields"] if one["manager"] == "kubectl-label"]
    assert set(entry["fieldsV1"]) == {"f:metadata"}


def test_a_client_is_not_refused_for_a_dropped_field_that_it_has_not_sent(api: Client, boats: str) -> None:
    grown = api.patch(f"{boats}/ferry", {"spec": {"seats": 3}}, fieldValidation="Strict")
    reported = api.patch(f"{boats}/ferry/status", {"status": {"afloat": True}}, fieldValidation="Strict")

    assert (grown.status, reported.status) == (200, 200), (grown.body, reported.body)
    assert grown.document["spec"] == {"seats": 3, "mode": "slow"}
    assert "warning" not in reported.headers


def test_an_admission_policy_sees_the_default_in_what_was_stored_before(api: Client, group: str, boats: str) -> None:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["UPDATE", "DELETE"], "resources": ["boats"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "oldObject.spec.mode == 'slow'"}],
    }
    where = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = f"{where}/validatingadmissionpolicies", f"{where}/validatingadmissionpolicybindings"
    bound = {"policyName": group, "validationActions": ["Deny"]}
    made = [api.post(policy, {"metadata": {"name": group}, "spec": spec})]
    made.append(api.post(binding, {"metadata": {"name": group}, "spec": bound}))
    try:
        labelled = api.patch(f"{boats}/ferry", {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
        deleted = api.delete(f"{boats}/ferry", dryRun="All")
    finally:
        api.delete(f"{binding}/{group}")
        api.delete(f"{policy}/{group}")

    assert [one.status for one in made] == [201, 201]
    assert (labelled.status, deleted.status) == (200, 200), (labelled.body, deleted.body)

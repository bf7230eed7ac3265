"""Definitions with several versions: requests through each of them are answered as by a kube-apiserver
(tests/admission) [definition-versions]."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.admission import version_cases
from tests.admission.__main__ import ANSWERS, without_ports
from tests.admission.hook_server import HookServer
from tests.admission.version_cases import DEFINED, GROUP, VERSIONS, definition, thing
from tests.api.server import Client
from tests.api.test_admission_policies import asker
from tests.builders.documents import config_map, config_maps
from tests.processes import until

RECORDED = json.loads(ANSWERS.read_text())["versions"]


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    server = HookServer()
    yield server
    server.close()


@pytest.mark.parametrize("case", range(len(VERSIONS)))
def test_requests_through_every_version_are_answered_as_by_a_kube_apiserver(
    server: Any, hooks: HookServer, case: int
) -> None:
    found = without_ports(version_cases.answers(asker(server.client()), case, hooks))
    for step, ours, theirs in zip(VERSIONS[case].steps, found, RECORDED[case], strict=True):
        assert ours == theirs, step


@pytest.fixture
def renamed(api: Client, hooks: HookServer) -> Iterator[str]:
    """A definition of which v1 is stored and v1 and v2 are served; the plural of its kind."""
    number = next(_numbers)  # a deleted definition stays until a controller has removed its objects
    made = definition(0, hooks)
    made["metadata"]["name"] = f"kinds{number}.{GROUP}"
    made["spec"]["names"] = {"plural": f"kinds{number}", "kind": f"Kind{number}", "singular": f"kind{number}"}
    made["spec"]["versions"][1]["additionalPrinterColumns"] = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.x"}
    ]
    assert api.post(DEFINED, made).status == 201
    yield f"kinds{number}"
    api.delete(f"/apis/{GROUP}/v1/kinds{number}/a")
    assert api.delete(f"{DEFINED}/kinds{number}.{GROUP}").status == 200


_numbers = count(1)


def thing_of(plural: str, version: str, **spec: Any) -> dict[str, Any]:
    return {**thing(version, "a", **spec), "kind": plural.replace("kinds", "Kind")}


def test_a_watch_sends_objects_in_the_version_of_its_url(api: Client, renamed: str) -> None:
    assert api.post(f"/apis/{GROUP}/v1/{renamed}", thing_of(renamed, "v1", x=1, old="a")).status == 201
    with api.watch(f"/apis/{GROUP}/v2/{renamed}") as stream:
        first = stream.next()
        assert api.put(f"/apis/{GROUP}/v1/{renamed}/a", thing_of(renamed, "v1", x=2)).status == 200
        second = stream.next()
    for event, size in ((first, 1), (second, 2)):
        assert (event["object"]["apiVersion"], event["object"]["spec"]) == (f"{GROUP}/v2", {"x": size})


def test_a_watch_ends_when_its_definition_changes_and_goes_on_by_the_new_one(api: Client, hooks: HookServer) -> None:
    """An object that is stored in a version added later was sent as that version to older watches of another."""
    number = next(_numbers)
    plural = f"kinds{number}"
    made = definition(0, hooks)
    path, versions = f"{DEFINED}/{plural}.{GROUP}", made["spec"]["versions"]
    made["metadata"]["name"] = f"{plural}.{GROUP}"
    made["spec"]["names"] = {"plural": plural, "kind": f"Kind{number}", "singular": f"kind{number}"}
    made["spec"]["conversion"] = {"strategy": "None"}
    newer = [{**versions[0], "storage": False}, {**versions[1], "storage": True}]
    made["spec"]["versions"] = versions[:1]
    since = api.post(DEFINED, made).document["metadata"]["resourceVersion"]

    with api.watch(f"/apis/{GROUP}/v1/{plural}", resourceVersion=since) as older:
        assert api.post(f"/apis/{GROUP}/v1/{plural}", {**thing_of(plural, "v1", x=1)}).status == 201
        first = older.next()
        assert api.patch(path, {"spec": {"versions": newer}}).status == 200
        stored = {**thing_of(plural, "v2", x=2), "metadata": {"name": "b"}}
        assert api.post(f"/apis/{GROUP}/v2/{plural}", stored).status == 201
        with pytest.raises(EOFError):
            older.next()
    seen = first["object"]["metadata"]["resourceVersion"]
    with api.watch(f"/apis/{GROUP}/v1/{plural}", resourceVersion=seen) as again:
        second = again.next()
    for name in ("a", "b"):
        api.delete(f"/apis/{GROUP}/v1/{plural}/{name}")
    api.delete(path)

    shown = [(one["object"]["apiVersion"], one["object"]["metadata"]["name"]) for one in (first, second)]
    assert shown == [(f"{GROUP}/v1", "a"), (f"{GROUP}/v1", "b")]


def test_every_served_version_is_discovered_and_described_with_its_own_schema_and_columns(
    api: Client, renamed: str
) -> None:
    group = api.get(f"/apis/{GROUP}").document
    assert [one["version"] for one in group["versions"]] == ["v2", "v1"]
    for version, fields in (("v1", {"x", "old", "address", "d"}), ("v2", {"x", "new", "host", "port", "e"})):
        resources = api.get(f"/apis/{GROUP}/{version}").document["resources"]
        served = [one["name"] for one in resources if one["name"].startswith(renamed)]
        assert served == [renamed, f"{renamed}/status"]
        schemas = api.get(f"/openapi/v3/apis/{GROUP}/{version}").document["components"]["schemas"]
        (described,) = [
            node for name, node in schemas.items() if name.endswith(f"{version}.{renamed.replace('kinds', 'Kind')}")
        ]
        assert set(described["properties"]["spec"]["properties"]) == fields
    assert api.get(f"/apis/{GROUP}/v3").status == 404
    assert api.post(f"/apis/{GROUP}/v1/{renamed}", thing_of(renamed, "v1", x=7)).status == 201
    as_table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    shown = api.ask("GET", f"/apis/{GROUP}/v2/{renamed}", accept=as_table).document
    assert [column["name"] for column in shown["columnDefinitions"]][:2] == ["Name", "Size"]
    assert shown["rows"][0]["cells"][:2] == ["a", 7]


def test_objects_of_an_earlier_storage_version_are_served_and_converted_when_they_are_written(
    api: Client, renamed: str
) -> None:
    url = f"{DEFINED}/{renamed}.{GROUP}"
    assert api.post(f"/apis/{GROUP}/v1/{renamed}", thing_of(renamed, "v1", x=1)).status == 201
    changed = api.get(url).document
    for version in changed["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    assert api.put(url, changed).status == 200
    assert api.get(url).document["status"]["storedVersions"] == ["v1", "v2"]
    for version in ("v1", "v2"):
        found = api.get(f"/apis/{GROUP}/{version}/{renamed}/a").document
        assert (found["apiVersion"], found["spec"]["x"]) == (f"{GROUP}/{version}", 1)
    applied = api.patch(
        f"/apis/{GROUP}/v1/{renamed}/a?fieldManager=me&force=true",
        thing_of(renamed, "v1", x=5),
        "application/apply-patch+yaml",
    )
    assert (applied.status, applied.document["spec"]["x"]) == (200, 5)
    applied = api.patch(
        f"/apis/{GROUP}/v2/{renamed}/a?fieldManager=you", thing_of(renamed, "v2", x=6), "application/apply-patch+yaml"
    )
    assert applied.status == 409
    assert 'conflict with "me"' in applied.document["message"]
    without_v1 = api.get(url).document
    without_v1["spec"]["versions"] = [one for one in without_v1["spec"]["versions"] if one["name"] != "v1"]
    refused = api.put(url, without_v1)
    assert (refused.status, refused.document["details"]["causes"][0]["field"]) == (422, "status.storedVersions[0]")


def test_the_parameters_of_a_policy_are_read_in_the_version_that_it_names(
    api: Client, namespace: str, renamed: str
) -> None:
    """A served version that is not the stored one was not found, so that each write was denied."""
    assert api.post(f"/apis/{GROUP}/v1/{renamed}", thing_of(renamed, "v1", x=1, old="a")).status == 201
    where, name = "/apis/admissionregistration.k8s.io/v1", f"{renamed}.{GROUP}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "paramKind": {"apiVersion": f"{GROUP}/v2", "kind": renamed.replace("kinds", "Kind")},
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [
            {"expression": "params.spec.x == 1 && !has(params.spec.old)", "message": "not as v2 has it"},
            {"expression": "object.metadata.name != 'denied'", "message": "denied by its name"},
        ],
    }
    bound = {
        "policyName": name,
        "paramRef": {"name": "a", "parameterNotFoundAction": "Deny"},
        "validationActions": ["Deny"],
    }
    policy, binding = f"{where}/validatingadmissionpolicies", f"{where}/validatingadmissionpolicybindings"
    made = [api.post(policy, {"metadata": {"name": name}, "spec": spec})]
    made.append(api.post(binding, {"metadata": {"name": name}, "spec": bound}))
    try:
        answers = {one: api.post(config_maps(namespace), config_map(one)) for one in ("taken", "denied")}
    finally:
        api.delete(f"{binding}/{name}")
        api.delete(f"{policy}/{name}")

    assert [one.status for one in made] == [201, 201]
    assert (answers["taken"].status, answers["denied"].status) == (201, 422), answers["taken"].body
    assert "denied by its name" in answers["denied"].document["message"]


def test_every_answer_through_a_deprecated_version_has_the_warning(api: Client, renamed: str) -> None:
    url, kind = f"{DEFINED}/{renamed}.{GROUP}", renamed.replace("kinds", "Kind")
    changed = api.get(url).document
    for version in changed["spec"]["versions"]:
        version["deprecated"] = version["name"] == "v1"
    assert api.put(url, changed).status == 200
    warning = f'299 - "{GROUP}/v1 {kind} is deprecated; use {GROUP}/v2 {kind}"'
    old, new = (f"/apis/{GROUP}/{version}/{renamed}" for version in ("v1", "v2"))
    until(lambda: api.get(old).headers.get("warning") == warning, within=10)

    assert api.post(old, thing_of(renamed, "v1", x=1)).headers["warning"] == warning
    assert api.get(f"{old}/a").headers["warning"] == warning
    assert (missing := api.get(f"{old}/none")).status == 404
    assert missing.headers["warning"] == warning
    assert (page := api.ask("GET", old, accept="text/html")).status == 200
    assert page.headers["warning"] == warning
    assert "warning" not in api.get(new).headers


@pytest.fixture
def by_webhook(api: Client, hooks: HookServer) -> Iterator[str]:
    """A definition whose webhook makes host and port of v2 of the address of v1, which is stored."""
    number = next(_numbers)
    made = definition(1, hooks)
    made["metadata"]["name"] = f"kinds{number}.{GROUP}"
    made["spec"]["names"] = {"plural": f"kinds{number}", "kind": f"Kind{number}", "singular": f"kind{number}"}
    for version, field in zip(made["spec"]["versions"], ("address", "host"), strict=False):
        version["selectableFields"] = [{"jsonPath": f".spec.{field}"}]
    assert api.post(DEFINED, made).status == 201
    for name, address in (("a", "one:80"), ("b", "two:80"), ("c", "one:81")):
        one = {**thing_of(f"kinds{number}", "v1", address=address), "metadata": {"name": name}}
        assert api.post(f"/apis/{GROUP}/v1/kinds{number}", one).status == 201
    yield f"kinds{number}"
    api.delete(f"/apis/{GROUP}/v1/kinds{number}")
    assert api.delete(f"{DEFINED}/kinds{number}.{GROUP}").status == 200


def names_of(reply: Any) -> list[str]:
    return [one["metadata"]["name"] for one in reply.document["items"]]


def test_a_list_selects_by_the_fields_that_a_webhook_makes(api: Client, by_webhook: str) -> None:
    path = f"/apis/{GROUP}/v2/{by_webhook}?fieldSelector="

    assert names_of(api.get(f"{path}spec.host=one")) == ["a", "c"]
    assert names_of(api.get(f"{path}spec.host!=one")) == ["b"]
    first = api.get(f"{path}spec.host=one&limit=1")
    assert names_of(first) == ["a"]
    token = first.document["metadata"]["continue"]
    assert names_of(api.get(f"{path}spec.host=one&limit=1&continue={token}")) == ["c"]
    assert names_of(api.get(f"/apis/{GROUP}/v1/{by_webhook}?fieldSelector=spec.address=two:80")) == ["b"]


def test_a_deletion_selects_by_the_fields_that_a_webhook_makes(api: Client, by_webhook: str) -> None:
    assert api.delete(f"/apis/{GROUP}/v2/{by_webhook}?fieldSelector=spec.host!=one").status == 200

    assert names_of(api.get(f"/apis/{GROUP}/v1/{by_webhook}")) == ["a", "c"]


def test_a_watch_selects_by_the_fields_that_a_webhook_makes(api: Client, by_webhook: str) -> None:
    def moved(name: str, address: str) -> None:
        path, spec = f"/apis/{GROUP}/v1/{by_webhook}/{name}", {"spec": {"address": address}}
        assert api.patch(path, spec, "application/merge-patch+json").status == 200

    with api.watch(f"/apis/{GROUP}/v2/{by_webhook}", fieldSelector="spec.host=one") as stream:
        seen = [stream.next(), stream.next()]
        moved("b", "two:81")
        moved("a", "two:80")
        moved("b", "one:80")
        moved("c", "one:82")
        seen += [stream.next(), stream.next(), stream.next()]

    shown = [(one["type"], one["object"]["metadata"]["name"], one["object"]["spec"]) for one in seen]
    assert shown == [
        ("ADDED", "a", {"host": "one", "port": "80"}),
        ("ADDED", "c", {"host": "one", "port": "81"}),
        ("DELETED", "a", {"host": "one", "port": "80"}),
        ("ADDED", "b", {"host": "one", "port": "80"}),
        ("MODIFIED", "c", {"host": "one", "port": "82"}),
    ]


def test_an_object_can_be_edited_and_deleted_in_its_stored_version_although_its_webhook_is_gone(
    api: Client, by_webhook: str
) -> None:
    """It was written through the other version before. So its managedFields have names of that version."""
    stored, other = (f"/apis/{GROUP}/{version}/{by_webhook}/a" for version in ("v1", "v2"))
    held = {"metadata": {"finalizers": ["example.io/held"]}, "spec": {"port": "8080"}}
    assert api.patch(f"{other}?fieldManager=other", held).status == 200
    gone = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}}}}}
    assert api.patch(f"{DEFINED}/{by_webhook}.{GROUP}", gone).status == 200
    until(lambda: api.get(other).status == 500, within=10)

    edited = api.patch(f"{stored}?fieldManager=me", {"spec": {"x": 7}})

    assert (edited.status, edited.document["spec"]) == (200, {"address": "one:8080", "x": 7})
    managers = {(one["manager"], one["apiVersion"]) for one in edited.document["metadata"]["managedFields"]}
    assert {("other", f"{GROUP}/v2"), ("me", f"{GROUP}/v1")} <= managers
    applied = {**thing_of(by_webhook, "v1", x=8), "metadata": {"name": "a"}}
    refused = api.patch(f"{stored}?fieldManager=it", applied, "application/apply-patch+yaml")
    assert (refused.status, "conversion webhook for" in refused.document["message"]) == (500, True)
    assert api.delete(stored).status == 200
    assert api.patch(stored, {"metadata": {"finalizers": []}}).status == 200
    assert api.get(stored).status == 404

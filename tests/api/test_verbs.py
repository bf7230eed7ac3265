"""Create, read, update, patch, delete: what a client of the Kubernetes API may rely on."""

from __future__ import annotations

import base64
import concurrent.futures
import json
import threading
from typing import Any

import pytest
import yaml

from tests.api.server import Client, Server
from tests.builders.documents import (
    CLUSTERS,
    TABLE,
    cluster,
    config_map,
    config_maps,
    deployment,
    deployments,
    policies,
    policy,
)

APPLY = "application/apply-patch+yaml"


def test_a_created_object_has_what_the_server_gives(api: Client, namespace: str) -> None:
    made = api.post(config_maps(namespace), config_map("one", a="b"), fieldManager="tester")

    assert made.status == 201
    metadata = made.document["metadata"]
    assert metadata["namespace"] == namespace
    assert metadata["uid"]
    assert metadata["resourceVersion"].isdigit()
    assert metadata["creationTimestamp"].endswith("Z")
    assert [entry["manager"] for entry in metadata["managedFields"]] == ["tester"]
    assert api.get(config_maps(namespace, "one")).body == made.body


def test_a_name_that_is_taken_is_a_conflict(api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))

    again = api.post(config_maps(namespace), config_map("one"))

    assert (again.status, again.document["reason"]) == (409, "AlreadyExists")
    assert again.document["message"] == 'configmaps "one" already exists'


def test_generated_names_are_different(api: Client, namespace: str) -> None:
    bodies = [{"metadata": {"generateName": "many-"}} for _ in range(5)]

    names = {api.post(config_maps(namespace), body).document["metadata"]["name"] for body in bodies}

    assert len(names) == 5
    assert all(name.startswith("many-") and len(name) == 10 for name in names)


def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Client) -> None:
    answer = api.post(config_maps("nowhere"), config_map("one"))

    assert (answer.status, answer.document["message"]) == (404, 'namespaces "nowhere" not found')


def test_an_update_with_an_old_version_loses(api: Client, namespace: str) -> None:
    first = api.post(config_maps(namespace), config_map("one", a="1")).document
    assert api.put(config_maps(namespace, "one"), {**first, "data": {"a": "2"}}).status == 200

    late = api.put(config_maps(namespace, "one"), {**first, "data": {"a": "3"}})

    assert (late.status, late.document["reason"]) == (409, "Conflict")
    assert "please apply your changes to the latest version" in late.document["message"]


def test_an_update_without_a_version_wins(api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one", a="1"))

    answer = api.put(config_maps(namespace, "one"), config_map("one", a="2"))

    assert (answer.status, answer.document["data"]) == (200, {"a": "2"})


def test_a_write_that_changes_nothing_keeps_the_version(api: Client, namespace: str) -> None:
    made = api.post(deployments(namespace), deployment("web")).document

    same = api.put(deployments(namespace, "web"), made).document
    patched = api.patch(deployments(namespace, "web"), {"spec": {"replicas": 1}}).document

    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec_alone(api: Client, namespace: str) -> None:
    api.post(deployments(namespace), deployment("web"))

    labelled = api.patch(deployments(namespace, "web"), {"metadata": {"labels": {"x": "y"}}}).document
    scaled = api.patch(deployments(namespace, "web"), {"spec": {"replicas": 5}}).document

    assert labelled["metadata"]["generation"] == 1
    assert scaled["metadata"]["generation"] == 2


def test_what_the_server_sets_is_not_the_clients_to_change(api: Client, namespace: str) -> None:
    made = api.post(deployments(namespace), deployment("web")).document
    forged = {"uid": made["metadata"]["uid"], "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77}

    answer = api.patch(deployments(namespace, "web"), {"metadata": forged}).document["metadata"]

    assert answer["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert answer["generation"] == 1


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        ("application/merge-patch+json", {"data": {"b": "2"}}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}]),
        (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"}}),
    ],
)
def test_every_kind_of_patch_adds_its_field(api: Client, namespace: str, type: str, patch: Any) -> None:
    api.post(config_maps(namespace), config_map("one", a="1"))

    answer = api.patch(config_maps(namespace, "one"), patch, type, fieldManager="tester")

    assert (answer.status, answer.document["data"]) == (200, {"a": "1", "b": "2"})


def test_a_strategic_merge_patch_merges_containers_by_name(api: Client, namespace: str) -> None:
    api.post(deployments(namespace), deployment("web"))
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "fluentd"}]}}}}

    answer = api.patch(deployments(namespace, "web"), sidecar, "application/strategic-merge-patch+json").document

    assert {one["name"] for one in answer["spec"]["template"]["spec"]["containers"]} == {"main", "log"}


def test_kinds_of_ours_take_no_strategic_merge_patch(api: Client, namespace: str) -> None:
    api.post(policies(namespace), policy("one"))

    answer = api.patch(policies(namespace, "one"), {"spec": {"priority": 1}}, "application/strategic-merge-patch+json")

    assert (answer.status, answer.document["reason"]) == (415, "UnsupportedMediaType")
    assert "accepted media types include: application/json-patch+json" in answer.document["message"]


@pytest.mark.parametrize("subresource", ["", "/scale", "/status"])
def test_a_patch_of_an_unknown_type_is_refused_before_anything_is_looked_for(
    api: Client, namespace: str, subresource: str
) -> None:
    path = deployments(namespace, "nobody") + subresource
    asked = ("application/json", "text/plain", "application/merge-patch+json")

    assert [api.patch(path, {"metadata": {}}, form).status for form in asked] == [415, 415, 404]


def test_a_patch_that_names_a_version_is_held_to_it(api: Client, namespace: str) -> None:
    old = api.post(config_maps(namespace), config_map("one", a="1")).document["metadata"]["resourceVersion"]
    api.patch(config_maps(namespace, "one"), {"data": {"a": "2"}})

    late = api.patch(config_maps(namespace, "one"), {"metadata": {"resourceVersion": old}, "data": {"a": "3"}})

    assert late.status == 409


@pytest.mark.parametrize("by", ["test of a JSON Patch", "PUT"])
def test_what_a_write_says_of_other_parts_of_the_object_holds_when_it_is_stored(
    server: Server, namespace: str, by: str
) -> None:
    path, done = config_maps(namespace, "one"), threading.Event()
    api = server.client()
    api.post(config_maps(namespace), config_map("one", n="0"))

    def count() -> None:
        counting, number = server.client(), 0
        while not done.is_set():
            number += 1
            counting.patch(path, {"data": {"n": str(number)}}, fieldManager="counter")

    def write(number: int) -> tuple[Any, Any] | None:
        """Set a label and say which data the object has; return that, and the data in the answer."""
        data, labels = api.get(path).document["data"], {"x": str(number)}
        if by == "PUT":
            answer = api.put(path, {"metadata": {"name": "one", "labels": labels}, "data": data})
        else:
            test, add = {"op": "test", "path": "/data", "value": data}, {"op": "add", "path": "/metadata/labels"}
            answer = api.patch(path, [test, {**add, "value": labels}], "application/json-patch+json")
        assert answer.status in (200, 422), answer.body
        return (data, answer.document["data"]) if answer.status == 200 else None

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count)
        try:
            written = list(filter(None, map(write, range(100))))
        finally:
            done.set()
    counting.result()
    assert written
    assert all(said == stored for said, stored in written)


def test_patches_without_a_version_do_not_cost_each_other_anything(server: Server, namespace: str) -> None:
    server.client().post(config_maps(namespace), config_map("one"))

    def write(number: int) -> int:
        return server.client().patch(config_maps(namespace, "one"), {"data": {f"k{number}": "v"}}).status

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(write, range(24)))

    assert codes == [200] * 24
    assert len(server.client().get(config_maps(namespace, "one")).document["data"]) == 24


def test_an_applied_field_of_another_manager_is_a_conflict_unless_forced(api: Client, namespace: str) -> None:
    path, intent = config_maps(namespace, "one"), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "mine"}}
    assert api.patch(path, intent, APPLY, fieldManager="first").status == 201

    theirs = {**intent, "data": {"a": "theirs"}}
    refused = api.patch(path, theirs, APPLY, fieldManager="second")
    forced = api.patch(path, theirs, APPLY, fieldManager="second", force="true")

    assert refused.status == 409
    assert refused.document["details"]["causes"][0]["field"] == ".data.a"
    assert forced.document["data"] == {"a": "theirs"}


def test_an_apply_beside_deletions_creates_the_object_or_changes_it(server: Server, namespace: str) -> None:
    path, done = config_maps(namespace, "one"), threading.Event()

    def delete() -> None:
        api = server.client()
        while not done.is_set():
            api.delete(path)

    def apply(number: int) -> list[int]:
        intent = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": str(number)}}
        api, options = server.client(), {"fieldManager": f"m{number}", "force": "true"}
        return [api.patch(path, intent, APPLY, **options).status for _ in range(60)]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        deletions = pool.submit(delete)
        try:
            codes = {code for codes in pool.map(apply, range(2)) for code in codes}
        finally:
            done.set()
    deletions.result()
    assert codes == {200, 201}


def test_an_apply_with_the_uid_of_another_object_is_a_conflict(api: Client, namespace: str) -> None:
    path = config_maps(namespace, "one")
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}

    missing = api.patch(path, intent, APPLY, fieldManager="first")
    made = api.post(config_maps(namespace), config_map("one")).document
    other = api.patch(path, intent, APPLY, fieldManager="first")
    right = {**intent, "metadata": {"uid": made["metadata"]["uid"]}}

    assert [(one.status, one.document["reason"]) for one in (missing, other)] == [(409, "Conflict")] * 2
    assert "no existing object was found" in missing.document["message"]
    assert api.patch(path, right, APPLY, fieldManager="first").status == 200


def test_a_deleted_object_is_gone_and_the_answer_says_so(api: Client, namespace: str) -> None:
    made = api.post(config_maps(namespace), config_map("one")).document

    answer = api.delete(config_maps(namespace, "one"))

    assert answer.document["status"] == "Success"
    assert answer.document["details"]["uid"] == made["metadata"]["uid"]
    assert api.get(config_maps(namespace, "one")).status == 404
    assert api.delete(config_maps(namespace, "one")).document["reason"] == "NotFound"


def test_finalizers_hold_a_deleted_object_until_the_last_one_goes(api: Client, namespace: str) -> None:
    body = config_map("one")
    body["metadata"]["finalizers"] = ["example.org/hold"]
    api.post(config_maps(namespace), body)

    held = api.delete(config_maps(namespace, "one")).document
    added = api.patch(
        config_maps(namespace, "one"), {"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}}
    )
    api.patch(config_maps(namespace, "one"), {"metadata": {"finalizers": []}})

    assert held["metadata"]["deletionTimestamp"]
    assert added.status == 422
    assert api.get(config_maps(namespace, "one")).status == 404


def test_a_delete_is_held_to_its_preconditions(api: Client, namespace: str) -> None:
    made = api.post(config_maps(namespace), config_map("one")).document["metadata"]
    path = config_maps(namespace, "one")

    assert api.delete(path, {"preconditions": {"uid": "another"}}).status == 409
    assert api.delete(path, {"preconditions": {"resourceVersion": "1"}}).status == 409
    right = {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}
    assert api.delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", **right}).status == 200


def test_a_collection_is_held_to_its_preconditions(api: Client, namespace: str) -> None:
    made = [api.post(config_maps(namespace), config_map(name)).document["metadata"] for name in ("one", "two")]

    refused = api.delete(config_maps(namespace), {"preconditions": {"uid": made[0]["uid"]}})
    left = api.get(config_maps(namespace)).document["items"]
    right = {"preconditions": {"uid": made[1]["uid"]}}

    assert (refused.status, refused.document["details"]["name"], len(left)) == (409, "two", 2)
    assert api.delete(config_maps(namespace), right, fieldSelector="metadata.name=two").status == 200


def test_a_collection_goes_by_selector(api: Client, namespace: str) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        api.post(config_maps(namespace), config_map(name, labels={"tier": tier}))

    gone = api.delete(config_maps(namespace), labelSelector="tier=x").document

    assert [one["metadata"]["name"] for one in gone["items"]] == ["a", "b"]
    left = api.get(config_maps(namespace)).document["items"]
    assert [one["metadata"]["name"] for one in left] == ["c"]


def test_a_dry_run_answers_like_a_write_and_stores_nothing(api: Client, namespace: str) -> None:
    path = config_maps(namespace, "one")

    assert api.post(config_maps(namespace), config_map("one"), dryRun="All").status == 201
    assert api.get(path).status == 404
    made = api.post(config_maps(namespace), config_map("one", a="1")).document
    assert api.patch(path, {"data": {"a": "2"}}, dryRun="All").document["data"] == {"a": "2"}
    assert api.delete(path, dryRun="All").status == 200
    assert api.get(path).document == made
    assert api.post(config_maps(namespace), config_map("two"), dryRun="Some").status == 400
    assert api.delete(path, {"dryRun": ["All", "All"]}).status == 200
    assert api.get(path).status == 200
    asked = {"All&dryRun=All": 201, "&dryRun=All": 400, "All&dryRun=": 400, "Some&dryRun=All": 400}
    answers = {query: api.post(f"{config_maps(namespace)}?dryRun={query}", config_map("two")) for query in asked}
    assert {query: answer.status for query, answer in answers.items()} == asked
    assert api.get(config_maps(namespace, "two")).status == 404


def test_the_status_has_a_door_of_its_own(api: Client, namespace: str) -> None:
    path = deployments(namespace, "web")
    api.post(deployments(namespace), {**deployment("web"), "status": {"replicas": 9}})
    assert "status" not in api.get(path).document

    api.patch(path, {"status": {"replicas": 9}})
    reported = api.patch(f"{path}/status", {"status": {"replicas": 3}, "spec": {"replicas": 7}}).document

    assert reported["status"] == {"replicas": 3}
    assert reported["spec"]["replicas"] == 1
    assert reported["metadata"]["generation"] == 1
    assert {entry.get("subresource") for entry in reported["metadata"]["managedFields"]} == {None, "status"}


def test_the_scale_of_a_workload(api: Client, namespace: str) -> None:
    path = deployments(namespace, "web")
    api.post(deployments(namespace), deployment("web", replicas=2))

    scale = api.get(f"{path}/scale").document
    scaled = api.put(f"{path}/scale", {**scale, "spec": {"replicas": 5}}).document
    negative = api.patch(f"{path}/scale", {"spec": {"replicas": -1}})

    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert scale["status"]["selector"] == "app=web"
    assert scaled["spec"] == {"replicas": 5}
    assert api.get(path).document["spec"]["replicas"] == 5
    assert negative.status == 422


def test_unknown_and_double_fields_are_reported_as_the_client_asks(api: Client, namespace: str) -> None:
    body = b'{"metadata":{"name":"one"},"data":{"a":"1"},"dta":{"b":"2"},"immutable":false,"immutable":false}'

    strict = api.post(config_maps(namespace), body, fieldValidation="Strict")
    warned = api.post(config_maps(namespace), body, fieldValidation="Warn", dryRun="All")
    ignored = api.post(config_maps(namespace), body, fieldValidation="Ignore", dryRun="All")

    assert strict.status == 400
    assert 'duplicate field "immutable"' in strict.document["message"]
    assert 'unknown field "dta"' in strict.document["message"]
    assert '299 - "unknown field \\"dta\\""' in warned.headers["warning"]
    assert "dta" not in warned.document
    assert "warning" not in ignored.headers
    assert api.post(config_maps(namespace), body, fieldValidation="Loud").status == 400


def test_all_causes_are_reported_at_once(api: Client) -> None:
    bad = cluster(
        "one", syncMode="Sideways", taints=[{"key": "a", "effect": "NoExec"}, {"key": "", "effect": "NoSchedule"}]
    )

    answer = api.post(CLUSTERS, bad)

    assert (answer.status, answer.document["reason"]) == (422, "Invalid")
    fields = {cause["field"] for cause in answer.document["details"]["causes"]}
    assert {"spec.syncMode", "spec.taints[0].effect"} <= fields


def test_yaml_goes_in_and_comes_out(api: Client, namespace: str) -> None:
    body = yaml.safe_dump(config_map("one", a="on")).encode()

    made = api.post(config_maps(namespace), body, type="application/yaml", accept="application/yaml")

    assert made.status == 201
    assert made.type == "application/yaml"
    assert yaml.safe_load(made.body)["data"] == {"a": "on"}


def test_an_object_is_about_what_its_url_says(api: Client, namespace: str) -> None:
    elsewhere = config_map("one")
    elsewhere["metadata"]["namespace"] = "default"
    api.post(config_maps(namespace), config_map("one"))

    assert api.post(config_maps(namespace), elsewhere).status == 400
    assert api.put(config_maps(namespace, "one"), config_map("two")).status == 400
    assert api.post(config_maps(namespace), deployment("web")).status == 400


def test_an_object_as_a_table_or_as_metadata(api: Client, namespace: str) -> None:
    api.post(deployments(namespace), deployment("web", replicas=2))
    path = deployments(namespace, "web")

    table = api.get(path, accept=TABLE).document
    metadata = api.get(path, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").document

    assert [column["name"] for column in table["columnDefinitions"]][:2] == ["Name", "Ready"]
    assert table["rows"][0]["cells"][:2] == ["web", "0/2"]
    assert (metadata["kind"], metadata["metadata"]["name"]) == ("PartialObjectMetadata", "web")
    assert "spec" not in metadata


def test_namespaces_everybody_relies_on_are_there_and_stay(api: Client) -> None:
    for name in ("default", "kube-system", "karmada-system", "karmada-cluster"):
        found = api.get(f"/api/v1/namespaces/{name}").document
        assert found["status"]["phase"] == "Active"
        assert api.delete(f"/api/v1/namespaces/{name}").status == 403


def test_a_deleted_namespace_takes_nothing_new(api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))

    going = api.delete(f"/api/v1/namespaces/{namespace}").document
    refused = api.post(config_maps(namespace), config_map("two"))

    assert going["status"]["phase"] == "Terminating"
    assert refused.status == 403
    assert refused.document["details"]["causes"][0]["reason"] == "NamespaceTerminating"


def test_secrets_hold_what_was_put_in(api: Client, namespace: str) -> None:
    value = base64.b64encode(b"hunter2").decode()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": {"password": value}}

    api.post(f"/api/v1/namespaces/{namespace}/secrets", body)

    assert api.get(f"/api/v1/namespaces/{namespace}/secrets/one").document["data"] == {"password": value}


def test_secrets_written_as_text_are_data(api: Client, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    body = {"metadata": {"name": "one"}, "data": {"kept": "a2VwdA=="}, "stringData": {"password": "hunter2"}}

    made = api.post(secrets, body).document
    patched = api.patch(f"{secrets}/one", {"stringData": {"password": "other"}}).document

    assert made["type"] == "Opaque"
    assert "stringData" not in made
    assert made["data"] == {"kept": "a2VwdA==", "password": base64.b64encode(b"hunter2").decode()}
    assert patched["data"] == {"kept": "a2VwdA==", "password": base64.b64encode(b"other").decode()}


def test_what_comes_back_is_the_text_that_is_stored(api: Client, server: Server, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one", a="ü"))
    stored = server.sql(f"SELECT doc FROM objects_object WHERE kind = 'ConfigMap' AND namespace = '{namespace}'")

    assert api.get(config_maps(namespace, "one")).body.decode() == stored[0][0]
    assert json.dumps(stored[0][0], ensure_ascii=False).count("ü") >= 1


def test_the_finalizers_of_a_namespace_are_replaced_at_finalize_and_not_read_or_patched(
    api: Client, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    live = api.get(path).document

    answers = [api.get(f"{path}/finalize"), api.patch(f"{path}/finalize", {"metadata": {"labels": {"a": "b"}}})]

    assert [(answer.status, answer.document["reason"]) for answer in answers] == [(405, "MethodNotAllowed")] * 2
    assert answers[0].headers["allow"] == "PUT, OPTIONS"
    assert api.put(f"{path}/finalize", live).status == 200
    assert api.get(f"{path}/status").status == 200

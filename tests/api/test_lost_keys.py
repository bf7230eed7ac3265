"""A Secret whose encryption key is lost is named by lists, and can be replaced, relabelled and deleted."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.server import Client, Server
from tests.builders.documents import CLUSTERS, cluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NEW = b64encode(b"renewed").decode()
MERGE = "application/merge-patch+json"


@pytest.fixture
def secrets(api: Client, server: Server, namespace: str) -> Iterator[str]:
    """The URL of a collection with the Secrets `fine` and `login`. The key of `login` is lost."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("fine", "login"):
        assert api.post(path, {"metadata": {"name": name}, "data": {"password": NEW}}).status == 201
    lose(server, "objects_object", "login", namespace)
    assert api.get(f"{path}/login").status == 500
    yield path
    api.delete(f"{path}/login")


def lose(server: Server, table: str, name: str, namespace: str) -> None:
    """Change what is encrypted in an object, and in its lines of the change log, so that no key decrypts it."""
    for rows in (table, "objects_changelog"):
        server.sql(
            f"UPDATE {rows} SET doc = replace(doc, 'lifeboat:sealed:1:gAAAA', 'lifeboat:sealed:1:gAAAB') "
            f"WHERE name = '{name}' AND namespace = '{namespace}'"
        )


def test_a_list_names_what_cannot_be_read_and_a_table_shows_all(api: Client, secrets: str, namespace: str) -> None:
    listed = api.get(secrets)
    table = api.ask("GET", secrets, accept=TABLE).document
    metadata = api.ask("GET", secrets, accept=METADATA).document

    for answer in (listed, api.get(f"{secrets}/login")):
        status = answer.document
        assert (answer.status, status["reason"]) == (500, "StorageReadError")
        assert [one["field"] for one in status["details"]["causes"]] == [f"{namespace}/login"]
        assert f"{namespace}/login" in status["message"]
        assert "replace or delete" in status["message"]
    assert [row["cells"][0] for row in table["rows"]] == ["fine", "login"]
    assert [row["cells"][2] for row in table["rows"]] == [1, 1]
    assert [one["metadata"]["name"] for one in metadata["items"]] == ["fine", "login"]
    assert api.ask("GET", secrets, accept=TABLE, includeObject="Object").status == 500
    assert "sealed" not in json.dumps([table, metadata])


def test_the_page_of_a_list_shows_all_in_a_browser(api: Client, secrets: str) -> None:
    """It shows columns only, and no values of any Secret."""
    page = api.ask("GET", secrets, accept="text/html")

    assert page.status == 200, page.body[:500]
    assert all(f'href="{secrets}/{name}"'.encode() in page.body for name in ("fine", "login"))
    assert api.ask("GET", f"{secrets}/login", accept="text/html").status == 500


@pytest.mark.parametrize("form", [TABLE, METADATA])
def test_a_watch_that_needs_no_values_begins_with_all_objects_and_goes_on(api: Client, secrets: str, form: str) -> None:
    """`kubectl get -w` and informers of metadata would end, or list everything again after each change."""
    streaming = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(secrets, accept=form, **streaming) as watched:
        assert watched.status == 200
        initial = watched.take(3)
        labelled = api.ask("PATCH", f"{secrets}/login", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
        event = watched.next()
    with api.watch(secrets) as watched:
        assert watched.status == 500

    assert ([one["type"] for one in initial], labelled.status) == (["ADDED", "ADDED", "BOOKMARK"], 200)
    assert (event["type"], "sealed" in json.dumps([initial, event])) == ("MODIFIED", False), event


def test_it_can_be_deleted_and_watchers_hear_of_it(api: Client, secrets: str) -> None:
    version = api.ask("GET", secrets, accept=METADATA).document["metadata"]["resourceVersion"]

    dry = api.ask("DELETE", f"{secrets}/login", dryRun="All")
    done = api.delete(f"{secrets}/login")

    assert (dry.status, done.status, done.document["status"]) == (200, 200, "Success"), dry.body
    assert [one["metadata"]["name"] for one in api.get(secrets).document["items"]] == ["fine"]
    with api.watch(secrets, resourceVersion=version) as watched:
        event = watched.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "login")


def test_it_can_be_replaced_and_watchers_go_on(api: Client, secrets: str) -> None:
    version = api.ask("GET", secrets, accept=METADATA).document["metadata"]["resourceVersion"]

    done = api.put(f"{secrets}/login", {"metadata": {"name": "login"}, "data": {"password": NEW}})

    assert (done.status, done.document["data"]) == (200, {"password": NEW}), done.body
    assert [one["data"] for one in api.get(secrets).document["items"]] == [{"password": NEW}] * 2
    with api.watch(secrets, resourceVersion=version) as watched:
        assert watched.next()["object"]["data"] == {"password": NEW}


def test_what_does_not_change_stays_encrypted_and_is_there_again_with_the_key(
    api: Client, server: Server, secrets: str, namespace: str
) -> None:
    where = f"WHERE name = 'login' AND namespace = '{namespace}'"
    before = server.sql(f"SELECT doc::jsonb -> 'data' FROM objects_object {where}")

    labelled = api.ask("PATCH", f"{secrets}/login", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    whole = labelled.document
    returned = api.put(f"{secrets}/login", {**whole, "metadata": {**whole["metadata"], "labels": {"a": "c"}}})

    assert (labelled.status, returned.status) == (200, 200), (labelled.body, returned.body)
    assert returned.document["metadata"]["labels"] == {"a": "c"}
    assert server.sql(f"SELECT doc::jsonb -> 'data' FROM objects_object {where}") == before
    assert api.get(f"{secrets}/login").status == 500


def test_a_deletion_waits_for_finalizers_and_keeps_what_is_encrypted(
    api: Client, server: Server, secrets: str, namespace: str
) -> None:
    held: Any = {"metadata": {"finalizers": ["example.com/hold"]}}
    assert api.ask("PATCH", f"{secrets}/login", held, type=MERGE).status == 200

    marked = api.delete(f"{secrets}/login")
    sealed = server.sql(f"SELECT doc FROM objects_object WHERE name = 'login' AND namespace = '{namespace}'")
    freed = api.ask("PATCH", f"{secrets}/login", {"metadata": {"finalizers": None}}, type=MERGE)

    assert (marked.status, "deletionTimestamp" in marked.document["metadata"]) == (200, True), marked.body
    assert "lifeboat:sealed:1:gAAAB" in sealed[0][0]
    assert freed.status == 200, freed.body
    assert [one["metadata"]["name"] for one in api.get(secrets).document["items"]] == ["fine"]


def test_the_collection_can_be_deleted(api: Client, secrets: str) -> None:
    assert api.delete(secrets).status == 200
    assert api.get(secrets).document["items"] == []


def test_the_option_for_corrupt_objects_deletes_no_other(api: Client, secrets: str) -> None:
    option = {"kind": "DeleteOptions", "apiVersion": "v1", "ignoreStoreReadErrorWithClusterBreakingPotential": True}

    refused = api.ask("DELETE", f"{secrets}/fine", option)
    done = api.ask("DELETE", f"{secrets}/login", option)

    assert (refused.status, done.status) == (422, 200), (refused.body, done.body)
    assert "try again by removing this option" in refused.document["message"]


def test_an_immutable_one_can_be_relabelled_and_not_changed(api: Client, server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    frozen = {"metadata": {"name": "frozen"}, "immutable": True, "data": {"password": NEW}}
    assert api.post(path, frozen).status == 201
    lose(server, "objects_object", "frozen", namespace)

    labelled = api.ask("PATCH", f"{path}/frozen", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    changed = api.ask("PATCH", f"{path}/frozen", {"data": {"password": NEW}}, type=MERGE)
    api.delete(f"{path}/frozen")

    assert (labelled.status, changed.status) == (200, 422), (labelled.body, changed.body)
    assert "immutable" in changed.document["message"]


@pytest.fixture
def works(api: Client, server: Server) -> Iterator[str]:
    """The URL of the Works of a Pull cluster: `settings`, and `login`, which carries a Secret whose key is lost."""
    member, namespace = "edge-keys", "karmada-es-edge-keys"
    path = f"/apis/work.karmada.io/v1alpha1/namespaces/{namespace}/works"
    assert api.post(CLUSTERS, cluster(member, syncMode="Pull")).status == 201
    assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
    for name, kind in (("settings", "ConfigMap"), ("login", "Secret")):
        carried = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": {"password": NEW}}
        assert (
            api.post(path, {"metadata": {"name": name}, "spec": {"workload": {"manifests": [carried]}}}).status == 201
        )
    lose(server, "resources_work", "login", namespace)
    yield path
    api.delete(f"{path}/login")


def test_an_agent_gets_all_other_works_and_leaves_the_object_as_it_is(api: Client, server: Server, works: str) -> None:
    """Otherwise nothing is applied on its cluster any more, not even what fails over to it."""
    agent = server.client(server.manage("token", "create", "--agent", "edge-keys"))
    version = api.ask("GET", works, accept=METADATA).document["metadata"]["resourceVersion"]

    listed = agent.get(works)
    with agent.watch(works, resourceVersion=version) as watched:
        assert api.ask("PATCH", f"{works}/login", {"metadata": {"labels": {"a": "b"}}}, type=MERGE).status == 200
        changed = watched.next()["object"]
        assert api.ask("PATCH", f"{works}/settings", {"metadata": {"labels": {"a": "b"}}}, type=MERGE).status == 200
        other = watched.next()["object"]
    first = agent.ask("GET", works, watch="true", resourceVersion="0", timeoutSeconds="1")

    reported = agent.patch(f"{works}/login/status", {"status": {"conditions": []}})

    assert reported.status == 200, reported.body
    assert api.get(works).status == 500
    assert listed.status == 200, listed.body
    unread = {one["metadata"]["name"]: one for one in (*listed.document["items"], changed, other)}
    for name, waits in (("login", True), ("settings", None)):
        assert unread[name]["spec"].get("suspendDispatching") is waits
        marked = "work.lifeboat.io/values-unreadable" in (unread[name]["metadata"].get("annotations") or {})
        assert marked is bool(waits)
    assert all(text not in str(unread["login"]) for text in (NEW, "sealed"))
    assert first.status == 200
    stored = server.sql("SELECT doc FROM resources_work WHERE name = 'login'")
    assert "suspendDispatching" not in stored[0][0]


def test_the_option_for_corrupt_objects_is_refused_for_a_collection(api: Client, secrets: str) -> None:
    """It would delete the objects that can be read as well."""
    option = {"kind": "DeleteOptions", "apiVersion": "v1", "ignoreStoreReadErrorWithClusterBreakingPotential": True}

    for refused in (
        api.ask("DELETE", secrets, option),
        api.ask("DELETE", secrets, ignoreStoreReadErrorWithClusterBreakingPotential="true"),
    ):
        assert refused.status == 422, refused.body
        assert "try again after removing the option" in refused.document["message"]
    assert api.get(f"{secrets}/fine").status == 200

"""Watches: nothing missed, nothing twice, in order; a stream that cannot go on ends with the reason."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from tests.api.server import Client, Server, forgotten
from tests.builders.documents import TABLE, config_map, config_maps, deployment, deployments


def reported(events: list[dict]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def version(api: Client, namespace: str) -> str:
    found: str = api.get(config_maps(namespace)).document["metadata"]["resourceVersion"]
    return found


def test_changes_come_as_they_happen(api: Client, namespace: str) -> None:
    with api.watch(config_maps(namespace), resourceVersion=version(api, namespace)) as stream:
        api.post(config_maps(namespace), config_map("one"))
        api.patch(config_maps(namespace, "one"), {"data": {"a": "1"}})
        gone = api.get(config_maps(namespace, "one")).document
        api.delete(config_maps(namespace, "one"))
        events = stream.take(3)

    assert reported(events) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    assert events[1]["object"]["data"] == {"a": "1"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    assert versions[2] > int(gone["metadata"]["resourceVersion"])


@pytest.mark.parametrize("flag", ["true", "1", "True", "t"])
def test_a_watch_is_asked_for_as_go_reads_booleans(api: Client, namespace: str, flag: str) -> None:
    api.post(config_maps(namespace), config_map("one"))
    with api.watch(config_maps(namespace), watch=flag) as stream:
        assert reported([stream.next()]) == [("ADDED", "one")]


def test_a_watch_resumes_after_the_version_it_names(api: Client, namespace: str) -> None:
    for name in ("one", "two", "three"):
        api.post(config_maps(namespace), config_map(name))
    seen = api.get(config_maps(namespace, "one")).document["metadata"]["resourceVersion"]

    with api.watch(config_maps(namespace), resourceVersion=seen) as stream:
        events = stream.take(2)
        api.post(config_maps(namespace), config_map("four"))
        events.append(stream.next())

    assert reported(events) == [("ADDED", "two"), ("ADDED", "three"), ("ADDED", "four")]


def test_a_watch_sees_only_its_namespace_and_kind(api: Client, namespace: str) -> None:
    with api.watch(config_maps(namespace), resourceVersion=version(api, namespace)) as stream:
        api.post(config_maps("default"), {"metadata": {"generateName": "elsewhere-"}})
        api.post(deployments(namespace), deployment("web"))
        api.post(config_maps(namespace), config_map("one"))
        assert reported([stream.next()]) == [("ADDED", "one")]


def test_an_object_that_enters_or_leaves_a_selection_is_added_or_deleted(api: Client, namespace: str) -> None:
    path = config_maps(namespace, "one")
    api.post(config_maps(namespace), config_map("one", labels={"tier": "x"}, a="1"))
    query = {"labelSelector": "tier=y", "resourceVersion": version(api, namespace)}

    with api.watch(config_maps(namespace), **query) as stream:
        api.patch(path, {"data": {"a": "2"}})
        api.patch(path, {"metadata": {"labels": {"tier": "y"}}})
        api.patch(path, {"data": {"a": "3"}})
        left = api.patch(path, {"metadata": {"labels": {"tier": "z"}}}).document
        api.delete(path)
        api.post(config_maps(namespace), config_map("two", labels={"tier": "y"}))
        events = stream.take(4)

    assert reported(events) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one"), ("ADDED", "two")]
    assert events[2]["object"]["metadata"]["labels"] == {"tier": "y"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_one_object_is_watched_by_field_or_by_url(api: Client, namespace: str) -> None:
    since = version(api, namespace)
    api.post(config_maps(namespace), config_map("one"))
    api.post(config_maps(namespace), config_map("two"))

    with api.watch(config_maps(namespace), fieldSelector="metadata.name=two", resourceVersion=since) as stream:
        assert reported([stream.next()]) == [("ADDED", "two")]
    with api.watch(config_maps(namespace, "two"), resourceVersion=since) as stream:
        assert reported([stream.next()]) == [("ADDED", "two")]


def test_initial_events_end_with_a_bookmark_that_says_so(api: Client, namespace: str) -> None:
    for name in ("one", "two"):
        api.post(config_maps(namespace), config_map(name))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

    with api.watch(config_maps(namespace), **query) as stream:
        events = stream.take(3)
        api.post(config_maps(namespace), config_map("three"))
        events.append(stream.next())

    assert reported(events[:2]) == [("ADDED", "one"), ("ADDED", "two")]
    assert events[2]["type"] == "BOOKMARK"
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[2]["object"]["kind"] == "ConfigMap"
    assert reported(events[3:]) == [("ADDED", "three")]


def test_rows_of_a_table_bring_their_columns_once(api: Client, namespace: str) -> None:
    since = api.get(deployments(namespace)).document["metadata"]["resourceVersion"]
    with api.watch(deployments(namespace), accept=TABLE, resourceVersion=since) as stream:
        api.post(deployments(namespace), deployment("one"))
        api.post(deployments(namespace), deployment("two"))
        first, second = stream.take(2)

    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert first["object"]["rows"][0]["cells"][0] == "one"
    assert not second["object"].get("columnDefinitions")
    assert second["object"]["rows"][0]["cells"][0] == "two"


def test_a_watch_ends_when_its_time_is_over(api: Client, namespace: str) -> None:
    since = version(api, namespace)
    with api.watch(config_maps(namespace), resourceVersion=since, timeoutSeconds=1) as stream, pytest.raises(EOFError):
        stream.next()


def test_a_version_that_is_no_longer_kept_expires(api: Client, server: Server, namespace: str) -> None:
    since = version(api, namespace)
    with forgotten(server), api.watch(config_maps(namespace), resourceVersion=since) as stream:
        event = stream.next()
        with pytest.raises(EOFError):
            stream.next()

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_version_from_another_database_expires(api: Client, namespace: str) -> None:
    with api.watch(config_maps(namespace), resourceVersion="99999999") as stream:
        assert stream.next()["object"]["reason"] == "Expired"


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        {"timeoutSeconds": "soon"},
        {"watch": "maybe"},
        {"labelSelector": "a in"},
    ],
)
def test_options_that_cannot_be_are_refused(api: Client, namespace: str, query: dict[str, str]) -> None:
    answer = api.get(config_maps(namespace), **{"watch": "true", **query})

    assert (answer.status, answer.document["kind"]) == (400, "Status")


def test_nothing_is_missed_while_many_write(server: Server, api: Client, namespace: str) -> None:
    writers, each = 6, 20

    def write(number: int) -> None:
        client = server.client()
        for turn in range(each):
            client.post(config_maps(namespace), config_map(f"w{number}-{turn}"))

    with api.watch(config_maps(namespace), resourceVersion=version(api, namespace)) as stream:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        events = stream.take(writers * each)
        for thread in threads:
            thread.join()

    names = {event["object"]["metadata"]["name"] for event in events}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert len(names) == writers * each
    assert versions == sorted(versions)


def test_a_database_that_was_away_costs_a_watch_nothing(server: Server, api: Client, namespace: str) -> None:
    with api.watch(config_maps(namespace), resourceVersion=version(api, namespace)) as stream:
        api.post(config_maps(namespace), config_map("before"))
        first = stream.next()
        server.sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{server.database}' AND application_name = 'lifeboat-tailer'"
        )
        api.post(config_maps(namespace), config_map("after"))
        events = [first, stream.next()]

    assert reported(events) == [("ADDED", "before"), ("ADDED", "after")]


def test_bookmarks_tell_how_far_a_quiet_watch_has_come(server: Server, api: Client, namespace: str) -> None:
    query = {"resourceVersion": version(api, namespace), "allowWatchBookmarks": "true"}
    with api.watch(config_maps(namespace), **query) as stream:
        api.post(config_maps("default"), {"metadata": {"generateName": "elsewhere-"}})
        stream.response.fp.raw._sock.settimeout(120)  # type: ignore[union-attr]
        event = stream.next()

    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(query["resourceVersion"])


def test_a_server_that_ends_ends_its_streams_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Server(tmp_path_factory.mktemp("ending"), name=f"lifeboat_ending_{threading.get_native_id()}") as server:
        api = server.client()
        with api.watch("/api/v1/namespaces", resourceVersion=version(api, "default")) as stream:
            server.stop()
            with pytest.raises((EOFError, http.client.HTTPException)):
                stream.next()
        assert server.process is not None
        assert server.process.returncode in (0, -15, 143)


def test_lines_are_whole_documents(api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one", a="x" * 100_000))
    with api.watch(config_maps(namespace)) as stream:
        line = stream.response.readline()
    assert json.loads(line)["object"]["data"]["a"] == "x" * 100_000


def test_bookmarks_of_metadata_can_be_decoded_by_clients_of_metadata(api: Client, namespace: str) -> None:
    """Their decoder knows no other kind: an informer of metadata would break off at every bookmark."""
    api.post(config_maps(namespace), config_map("one"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

    with api.watch(config_maps(namespace), accept=accept, **query) as stream:
        kinds = [(event["type"], event["object"]["apiVersion"], event["object"]["kind"]) for event in stream.take(2)]

    assert kinds == [(type_, "meta.k8s.io/v1", "PartialObjectMetadata") for type_ in ("ADDED", "BOOKMARK")]

"""Watches of evictions and failover records: computed kinds are watched as stored kinds are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.api.server import Client, Document, Server, Stream
from tests.api.test_actions import RECORDS, leave
from tests.api.test_evictions import GROUP, queue
from tests.builders.documents import TABLE


def shown(events: list[Document]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def since(api: Client, path: str) -> str:
    found: str = api.get(path).document["metadata"]["resourceVersion"]
    return found


def version_of(event: Document) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


@contextmanager
def evictions(api: Client, namespace: str, **query: str) -> Iterator[Stream]:
    path = f"{GROUP}/namespaces/{namespace}/evictions"
    with api.watch(path, **({"resourceVersion": since(api, path)} | query)) as stream:
        yield stream


def change(server: Server, namespace: str, name: str, what: str) -> None:
    binding = f"work.karmada.io/ResourceBinding:{namespace}/{name}"
    server.sql(f"UPDATE failover_eviction SET {what} WHERE binding = '{binding}'")


def remove(server: Server, namespace: str, name: str) -> None:
    server.sql(f"DELETE FROM failover_eviction WHERE binding = 'work.karmada.io/ResourceBinding:{namespace}/{name}'")


def test_an_eviction_is_added_changed_and_deleted_in_a_watch_with_rising_versions(
    api: Client, server: Server, namespace: str
) -> None:
    with evictions(api, namespace) as stream:
        queue(server, namespace, "web")
        added = stream.next()
        change(server, namespace, "web", "state = 'Held', reason = 'OnHold', message = 'the freeze'")
        held = stream.next()
        change(server, namespace, "web", "generation = 7")  # nothing that an Eviction shows: no event
        remove(server, namespace, "web")
        gone = stream.next()

    assert shown([added, held, gone]) == [
        ("ADDED", "web.member1"),
        ("MODIFIED", "web.member1"),
        ("DELETED", "web.member1"),
    ]
    assert added["object"]["status"]["position"] >= 1
    assert (held["object"]["status"]["state"], held["object"]["status"]["message"]) == ("Held", "the freeze")
    assert gone["object"]["status"]["reason"] == "OnHold"
    assert version_of(added) < version_of(held) < version_of(gone)


def test_a_watch_of_evictions_resumes_from_every_version_it_has_sent_without_loss(
    api: Client, server: Server, namespace: str
) -> None:
    path = f"{GROUP}/namespaces/{namespace}/evictions"
    queue(server, namespace, "old")
    begun = since(api, path)
    queue(server, namespace, "a")
    queue(server, namespace, "b")
    remove(server, namespace, "old")
    wanted = [("ADDED", "a.member1"), ("ADDED", "b.member1"), ("DELETED", "old.member1")]

    with evictions(api, namespace, resourceVersion=begun) as stream:
        events = stream.take(3)
    assert shown(events) == wanted
    for place, event in enumerate(events[:2]):
        with evictions(api, namespace, resourceVersion=str(version_of(event))) as stream:
            assert shown(stream.take(2 - place)) == wanted[place + 1 :]


def test_an_eviction_that_came_and_went_is_not_deleted_in_a_watch_that_has_not_added_it(
    api: Client, server: Server, namespace: str
) -> None:
    path = f"{GROUP}/namespaces/{namespace}/evictions"
    begun = since(api, path)
    queue(server, namespace, "short")
    remove(server, namespace, "short")
    queue(server, namespace, "last")

    events = list[tuple[str, str]]()
    with evictions(api, namespace, resourceVersion=begun) as stream:
        while ("ADDED", "last.member1") not in events:
            events += shown([stream.next()])

    assert [type_ for type_, name in events if name == "short.member1"] in ([], ["ADDED", "DELETED"])


def test_an_eviction_enters_and_leaves_the_selection_of_a_watch(api: Client, server: Server, namespace: str) -> None:
    queue(server, namespace, "web")
    with evictions(api, namespace, fieldSelector="status.state=Held") as stream:
        change(server, namespace, "web", "state = 'Held', reason = 'OnHold'")
        entered = stream.next()
        change(server, namespace, "web", "state = 'Queued', reason = ''")
        left = stream.next()

    assert shown([entered, left]) == [("ADDED", "web.member1"), ("DELETED", "web.member1")]
    assert left["object"]["status"]["state"] == "Held"


def test_a_copy_that_stays_is_no_eviction_until_it_has_a_due_time(api: Client, server: Server, namespace: str) -> None:
    with evictions(api, namespace) as stream:
        queue(server, namespace, "web")
        stream.next()
        change(server, namespace, "web", "due_at = NULL")
        assert stream.next()["type"] == "DELETED"
        change(server, namespace, "web", "priority = 3")
        change(server, namespace, "web", "due_at = now()")
        again = stream.next()

    assert (again["type"], again["object"]["spec"]["priority"]) == ("ADDED", 3)


def test_a_watch_of_evictions_begins_with_the_present_queue_and_rows_of_a_table(
    api: Client, server: Server, namespace: str
) -> None:
    queue(server, namespace, "web")
    path = f"{GROUP}/namespaces/{namespace}/evictions"
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

    with api.watch(path, accept=TABLE, **asked) as stream:
        first, mark = stream.take(2)
        queue(server, namespace, "api")
        second = stream.next()

    assert [row["cells"][0] for row in first["object"]["rows"]] == ["web.member1"]
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert [row["cells"][:3] for row in second["object"]["rows"]] == [["api.member1", "member1", "Queued"]]


def test_a_move_by_hand_is_added_as_a_record_when_it_is_taken_back(api: Client, namespace: str) -> None:
    path = f"{RECORDS}/namespaces/{namespace}/failoverrecords"
    url = leave(api, namespace)
    assert api.get(path).document["items"] == []

    with api.watch(path, resourceVersion=since(api, path)) as stream:
        api.post(f"{url}/revert", {})
        assert stream.next()["type"] == "ADDED"


def test_a_failover_record_is_added_and_changed_in_a_watch_and_resumed_without_loss(
    api: Client, namespace: str
) -> None:
    path = f"{RECORDS}/namespaces/{namespace}/failoverrecords"
    begun = since(api, path)
    with api.watch(path, resourceVersion=begun) as stream:
        url = leave(api, namespace)
        api.post(f"{url}/revert", {})
        added = stream.next()
        assert added["type"] == "ADDED"
        binding = api.get(url).document
        tasks = {**binding, "spec": {**binding["spec"], "gracefulEvictionTasks": []}}
        assert api.put(url, tasks).status == 200  # nothing is left to wait for
        changed = stream.next()

    listed = {one["metadata"]["name"]: one for one in api.get(path).document["items"]}
    assert (changed["type"], changed["object"]["status"]["state"]) == ("MODIFIED", "Finished")
    assert changed["object"] == listed[changed["object"]["metadata"]["name"]]
    with api.watch(path, resourceVersion=str(version_of(added))) as stream:
        assert shown([stream.next()]) == shown([changed])


def test_a_version_that_was_never_written_here_is_answered_with_410(api: Client, namespace: str) -> None:
    for path in (f"{GROUP}/evictions", f"{RECORDS}/failoverrecords"):
        with api.watch(path, resourceVersion=str(int(since(api, path)) + 1_000_000)) as stream:
            assert stream.next()["object"]["code"] == 410

"""Watching a member: from a version, with selectors, bookmarks, and the end of history."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from tests.simulator.cluster import CONFIGMAPS, MERGE, TABLE, Cluster, configmap, simulated


async def take(cluster: Cluster, path: str, count: int, **more: Any) -> list[dict[str, Any]]:
    """Return the first events of a watch."""
    events = []
    async with aclosing(cluster.watch(path, **more)) as stream:
        async for event in stream:
            events.append(event)
            if len(events) == count:
                break
    return events


def reported(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@simulated()
async def test_a_watch_without_a_version_begins_with_what_is_there(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("a"))
    await cluster.make(CONFIGMAPS, configmap("b"))

    assert reported(await take(cluster, f"{CONFIGMAPS}?watch=1", 2)) == [("ADDED", "a"), ("ADDED", "b")]


@simulated()
async def test_a_watch_from_a_version_gets_every_later_change_in_order(cluster: Cluster) -> None:
    made = await cluster.make(CONFIGMAPS, configmap("a"))
    version = made["metadata"]["resourceVersion"]
    await cluster.ask("PATCH", f"{CONFIGMAPS}/a", {"data": {"x": "1"}}, kind=MERGE)
    await cluster.make("/api/v1/namespaces/kube-system/configmaps", configmap("elsewhere"))
    await cluster.make(CONFIGMAPS, configmap("b"))
    await cluster.ask("DELETE", f"{CONFIGMAPS}/a")

    events = await take(cluster, f"{CONFIGMAPS}?watch=true&resourceVersion={version}", 3)

    assert reported(events) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


@simulated()
async def test_changes_reach_a_watch_that_is_already_open(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("open", labels={"on": "yes"}))
    async with aclosing(cluster.watch(f"{CONFIGMAPS}?watch=true&labelSelector=on%3Dyes")) as stream:
        assert (await anext(stream))["type"] == "ADDED"
        await cluster.make(CONFIGMAPS, configmap("a", labels={"on": "no"}))
        await cluster.make(CONFIGMAPS, configmap("b", labels={"on": "yes"}))
        await cluster.ask("PATCH", f"{CONFIGMAPS}/a", {"metadata": {"labels": {"on": "yes"}}}, kind=MERGE)
        await cluster.ask("PATCH", f"{CONFIGMAPS}/b", {"metadata": {"labels": {"on": "no"}}}, kind=MERGE)
        await cluster.ask("DELETE", f"{CONFIGMAPS}/b")
        await cluster.ask("DELETE", f"{CONFIGMAPS}/a")

        events = [await anext(stream) for _ in range(4)]

    # What comes to match is added, what ceases to match is deleted, and nothing is sent twice.
    assert reported(events) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b"), ("DELETED", "a")]


@simulated()
async def test_a_version_older_than_the_history_is_gone(cluster: Cluster) -> None:
    made = await cluster.make(CONFIGMAPS, configmap("a"))
    await cluster.make(CONFIGMAPS, configmap("b"))
    cluster.member.store.trim()

    [event] = await take(cluster, f"{CONFIGMAPS}?watch=true&resourceVersion={made['metadata']['resourceVersion']}", 9)

    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


@simulated()
async def test_a_version_of_another_life_is_gone_as_well(cluster: Cluster) -> None:
    [event] = await take(cluster, f"{CONFIGMAPS}?watch=true&resourceVersion=999999999", 9)

    assert event["object"]["code"] == 410


@simulated()
async def test_a_long_history_is_trimmed_by_itself(cluster: Cluster, monkeypatch: Any) -> None:
    monkeypatch.setattr("apps.simulator.store.HISTORY", 5)
    first = await cluster.make(CONFIGMAPS, configmap("first"))
    for number in range(8):
        await cluster.make(CONFIGMAPS, configmap(f"c{number}"))

    [event] = await take(cluster, f"{CONFIGMAPS}?watch=true&resourceVersion={first['metadata']['resourceVersion']}", 9)

    assert event["object"]["code"] == 410


@simulated(bookmark_every=0.05)
async def test_bookmarks_come_only_when_asked_for(cluster: Cluster) -> None:
    quiet = await take(cluster, f"{CONFIGMAPS}?watch=true&timeoutSeconds=1", 9)
    marked = await take(cluster, f"{CONFIGMAPS}?watch=true&allowWatchBookmarks=true", 2)

    assert quiet == []
    assert [event["type"] for event in marked] == ["BOOKMARK", "BOOKMARK"]
    assert marked[0]["object"]["metadata"]["resourceVersion"] == str(cluster.member.store.version)


@simulated()
async def test_the_end_of_the_initial_events_is_marked(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("a"))
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"

    events = await take(cluster, f"{CONFIGMAPS}?{query}", 2)

    assert reported(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@simulated()
async def test_a_table_watch_names_its_columns_once(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("a"))
    await cluster.make(CONFIGMAPS, configmap("b"))

    events = await take(cluster, f"{CONFIGMAPS}?watch=true", 2, accept=TABLE)

    assert [len(event["object"]["columnDefinitions"]) for event in events] == [3, 0]
    assert [event["object"]["rows"][0]["cells"][0] for event in events] == ["a", "b"]


@simulated()
async def test_a_watch_with_a_timeout_ends_by_itself(cluster: Cluster) -> None:
    assert await take(cluster, f"{CONFIGMAPS}?watch=true&timeoutSeconds=1", 9) == []

"""Lists: selectors, pages that show one moment, tables."""

from __future__ import annotations

import pytest

from tests.api.server import Client, Server, forgotten
from tests.builders.documents import TABLE, config_map, config_maps, deployment, deployments


def names(api: Client, path: str, **query: object) -> list[str]:
    answer = api.get(path, **query)
    assert answer.status == 200, answer.body
    return [item["metadata"]["name"] for item in answer.document["items"]]


@pytest.fixture
def maps(api: Client, namespace: str) -> str:
    """A namespace with a (tier=x, n=1), b (tier=x, n=5), c (tier=y), d (no labels)."""
    labels = {"a": {"tier": "x", "n": "1"}, "b": {"tier": "x", "n": "5"}, "c": {"tier": "y"}, "d": None}
    for name, own in labels.items():
        api.post(config_maps(namespace), config_map(name, labels=own))
    return namespace


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=x", ["a", "b"]),
        ("tier!=x", ["c", "d"]),
        ("tier in (x,y)", ["a", "b", "c"]),
        ("tier notin (x)", ["c", "d"]),
        ("tier", ["a", "b", "c"]),
        ("!tier", ["d"]),
        ("tier=x,n=1", ["a"]),
        ("n>2", ["b"]),
        ("n<2", ["a"]),
        ("tier=z", []),
    ],
)
def test_labels_choose(api: Client, maps: str, selector: str, expected: list[str]) -> None:
    assert names(api, config_maps(maps), labelSelector=selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name!=b", ["a", "c", "d"]),
        ("metadata.namespace=nowhere", []),
    ],
)
def test_fields_choose(api: Client, maps: str, selector: str, expected: list[str]) -> None:
    assert names(api, config_maps(maps), fieldSelector=selector) == expected


def test_an_unreadable_selector_is_reported_with_its_place(api: Client, maps: str) -> None:
    for query in ({"labelSelector": "tier in (x"}, {"fieldSelector": "metadata.name"}, {"labelSelector": "a" * 9000}):
        answer = api.get(config_maps(maps), **query)
        assert (answer.status, answer.document["reason"]) == (400, "BadRequest"), answer.body


@pytest.mark.parametrize("method", ["get", "delete", "watch"])
def test_a_field_without_selector_is_refused_with_those_that_have_one(api: Client, maps: str, method: str) -> None:
    query = {"fieldSelector": "data.k=v"} | ({"watch": "true"} if method == "watch" else {})

    answer = api.delete(config_maps(maps), **query) if method == "delete" else api.get(config_maps(maps), **query)

    assert (answer.status, answer.document["reason"]) == (400, "BadRequest")
    reported = "field label not supported: data.k: configmaps can be selected by metadata.name, metadata.namespace"
    assert answer.document["message"] == reported
    assert len(names(api, config_maps(maps))) == 4


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("/api/v1/secrets", "type=Opaque"),
        ("/api/v1/namespaces", "status.phase=Active"),
        ("/api/v1/pods", "spec.nodeName!=a,status.phase=Running"),
        ("/api/v1/events", "involvedObject.kind=Deployment,reason=Tested,type!=Normal"),
        ("/apis/failover.lifeboat.io/v1alpha1/evictions", "spec.cluster=member1,status.state=Held"),
    ],
)
def test_fields_kubernetes_knows_are_selected_by(api: Client, path: str, selector: str) -> None:
    assert api.get(path, fieldSelector=selector).status == 200
    assert api.get(path, fieldSelector=f"{selector},spec.nothing=1").status == 400


def test_a_page_says_how_many_follow_unless_a_selector_chooses(api: Client, maps: str) -> None:
    first = api.get(config_maps(maps), limit=1).document["metadata"]
    api.post(config_maps(maps), config_map("later"))  # not in the version that all pages show
    second = api.get(config_maps(maps), limit=2, **{"continue": first["continue"]}).document["metadata"]
    last = api.get(config_maps(maps), limit=2, **{"continue": second["continue"]}).document["metadata"]
    chosen = api.get(config_maps(maps), limit=1, labelSelector="!nothing").document["metadata"]

    assert (first["remainingItemCount"], second["remainingItemCount"]) == (3, 1)
    assert "remainingItemCount" not in last
    assert "continue" in chosen
    assert "remainingItemCount" not in chosen


def test_pages_show_the_moment_of_the_first_one(api: Client, maps: str) -> None:
    first = api.get(config_maps(maps), limit=2).document
    api.delete(config_maps(maps, "c"))
    api.patch(config_maps(maps, "d"), {"data": {"new": "1"}})
    api.post(config_maps(maps), config_map("e"))

    token = first["metadata"]["continue"]
    second = api.get(config_maps(maps), limit=2, **{"continue": token}).document

    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "b"]
    assert [one["metadata"]["name"] for one in second["items"]] == ["c", "d"]
    assert not second["items"][1].get("data")
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


def test_pages_with_selectors_show_the_moment_of_the_first_one_too(api: Client, maps: str) -> None:
    first = api.get(config_maps(maps), limit=1, labelSelector="tier=x").document
    api.patch(config_maps(maps, "b"), {"metadata": {"labels": {"tier": "z"}}})

    token = first["metadata"]["continue"]
    second = api.get(config_maps(maps), limit=1, labelSelector="tier=x", **{"continue": token}).document

    assert [one["metadata"]["name"] for one in second["items"]] == ["b"]


def test_a_list_at_an_exact_version(api: Client, maps: str) -> None:
    version = api.get(config_maps(maps)).document["metadata"]["resourceVersion"]
    api.delete(config_maps(maps, "a"))
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}

    assert names(api, config_maps(maps), **exact) == ["a", "b", "c", "d"]
    assert names(api, config_maps(maps), resourceVersion="0") == ["b", "c", "d"]
    assert names(api, config_maps(maps), resourceVersion=version, resourceVersionMatch="NotOlderThan") == [
        "b",
        "c",
        "d",
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"continue": "bm9uc2Vuc2U="},
        {"continue": "Wy01LCIiLCIiXQ=="},  # [-5,"",""]
        {"limit": "many"},
        {"limit": "-1"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "5", "resourceVersionMatch": "Sometimes"},
        {"resourceVersion": "latest"},
    ],
)
def test_options_that_cannot_be_are_refused(api: Client, maps: str, query: dict[str, str]) -> None:
    answer = api.get(config_maps(maps), **query)

    assert (answer.status, answer.document["kind"]) == (400, "Status")


@pytest.mark.parametrize("match", [{}, {"resourceVersionMatch": "NotOlderThan"}])
def test_a_version_that_is_not_written_yet_is_refused_as_informers_expect(
    api: Client, maps: str, match: dict[str, str]
) -> None:
    """They list without a version after this error, and after any other error with the same version again."""
    refused = api.get(config_maps(maps), resourceVersion="999999999", **match)

    assert (refused.status, refused.document["reason"]) == (504, "Timeout")
    assert refused.document["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]


def test_a_list_whose_history_is_gone_has_to_begin_again(api: Client, server: Server, maps: str) -> None:
    token = api.get(config_maps(maps), limit=1).document["metadata"]["continue"]

    with forgotten(server):
        answer = api.get(config_maps(maps), limit=1, **{"continue": token})

    assert (answer.status, answer.document["reason"]) == (410, "Expired")


def test_lists_over_all_namespaces(api: Client, maps: str) -> None:
    found = api.get("/api/v1/configmaps", fieldSelector=f"metadata.namespace={maps}").document

    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert len(found["items"]) == 4


def test_a_table_of_a_list(api: Client, namespace: str) -> None:
    for name in ("one", "two"):
        api.post(deployments(namespace), deployment(name))

    answer = api.get(deployments(namespace), accept=TABLE)

    table = answer.document
    assert answer.type == "application/json"
    assert table["kind"] == "Table"
    assert [row["cells"][0] for row in table["rows"]] == ["one", "two"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["resourceVersion"]


def test_events_of_one_object(api: Client, namespace: str) -> None:
    for number, uid in enumerate(("u1", "u2")):
        involved = {"kind": "Deployment", "name": "web", "namespace": namespace, "uid": uid}
        body = {"metadata": {"name": f"e{number}"}, "involvedObject": involved, "reason": "Tested", "message": "m"}
        assert api.post(f"/api/v1/namespaces/{namespace}/events", body).status == 201
    selector = f"involvedObject.name=web,involvedObject.namespace={namespace},involvedObject.uid=u2"

    assert names(api, f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector) == ["e1"]

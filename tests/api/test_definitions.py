"""A CustomResourceDefinition applied to the API is served from then on, and its objects are kept like any other."""

from __future__ import annotations

from typing import Any

from tests.api.server import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def define(api: Client, group: str) -> None:
    definition: dict[str, Any] = {
        "metadata": {"name": f"boats.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "shortNames": ["bo"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    "additionalPrinterColumns": [{"name": "Seats", "type": "integer", "jsonPath": ".spec.seats"}],
                }
            ],
        },
    }
    made = api.post(DEFINITIONS, definition)
    assert made.status == 201, made.body


def test_objects_of_a_brought_kind_are_written_and_read_like_any_other(api: Client, namespace: str) -> None:
    where = f"/apis/ships-{namespace}.example.io/v1/namespaces/{namespace}/boats"
    assert api.post(where, {"metadata": {"name": "ferry"}}).status == 404

    define(api, f"ships-{namespace}.example.io")
    made = api.post(where, {"metadata": {"name": "ferry"}, "spec": {"seats": 12, "decks": [{"name": "a"}]}})

    assert made.status == 201, made.body
    assert made.document["kind"] == "Boat"
    assert api.get(f"{where}/ferry").document["spec"] == {"seats": 12, "decks": [{"name": "a"}]}
    assert [one["metadata"]["name"] for one in api.get(where).document["items"]] == ["ferry"]
    found = api.get(f"/apis/ships-{namespace}.example.io/v1").document["resources"]
    assert [one["name"] for one in found] == ["boats", "boats/status"]


def test_a_definition_that_is_deleted_is_served_no_longer(api: Client, namespace: str) -> None:
    group = f"gone-{namespace}.example.io"
    define(api, group)
    where = f"/apis/{group}/v1/namespaces/{namespace}/boats"
    assert api.get(where).status == 200

    assert api.delete(f"{DEFINITIONS}/boats.{group}").status == 200

    assert eventually(lambda: api.get(where).status == 404)


def eventually(holds: Any, *, tries: int = 400) -> bool:
    """Test whether something holds soon: a process looks at definitions every half second."""
    return any(holds() for _ in range(tries))

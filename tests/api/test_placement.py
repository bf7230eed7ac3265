"""Why a binding is where it is, and where something would go: asked over HTTP, nothing written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.kinds.binding import ObjectReference, ResourceBindingSpec
from controlplane.kinds.cluster import Taint
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.note import Notes
from controlplane.settings import Settings
from tests.api.server import Client, Server
from tests.builders.documents import deployment
from tests.builders.objects import bound, cluster
from tests.builders.placements import DYNAMIC, placement
from tests.builders.scheduling import ask, spec

REVIEWS = "/apis/failover.lifeboat.io/v1alpha1/placementreviews"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def keep(server: Server, namespace: str, *, name: str) -> None:
    """Keep the note of a decision as the scheduler does."""
    members = [cluster("member1", room=5), cluster("member2", taints=[Taint("gpu", "NoSchedule")])]
    verdict = ask(members, spec(placement(how=DYNAMIC), replicas=3))
    resource = ObjectReference("apps/v1", "Deployment", "web", namespace)
    binding = bound(ResourceBindingSpec(resource), name=name, namespace=namespace)
    notes = Notes(Fleet.of(members, settings=Settings()))
    first = notes.note(binding, verdict, trigger="placement changed", before=None, now=NOW)
    note = notes.note(binding, verdict, trigger="replicas changed", before=first, now=NOW)
    for table, row in (("placementnote", note), ("fleetnames", notes.names)):
        assert isinstance(row, PlacementNote | FleetNames)
        columns = row.__struct_fields__
        values = ", ".join(literal(getattr(row, column)) for column in columns)
        server.sql(f"INSERT INTO scheduling_{table} ({', '.join(columns)}) VALUES ({values}) ON CONFLICT DO NOTHING")


def bind(api: Client, namespace: str, name: str) -> str:
    """Create a binding; return where its explanation is."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    made = api.post(BINDINGS.format(namespace), {"metadata": {"name": name}, "spec": {"resource": resource}})
    assert made.status == 201, made.body
    return f"{BINDINGS.format(namespace)}/{name}/explain"


def test_a_binding_explains_itself_as_a_document(server: Server, api: Client, namespace: str) -> None:
    where = bind(api, namespace, "web-deployment")
    keep(server, namespace, name="web-deployment")

    answer = api.get(where)

    assert answer.status == 200, answer.body
    document = answer.document
    assert document["kind"] == "PlacementExplanation"
    assert document["decision"]["trigger"] == "replicas changed"
    assert document["previous"]["trigger"] == "placement changed"
    chosen, refused = document["clusters"]
    assert (chosen["name"], chosen["verdict"], chosen["replicas"], chosen["capacity"]) == ("member1", "Chosen", 3, 5)
    assert (refused["filter"], refused["value"]) == ("TaintToleration", "taint gpu:NoSchedule is not tolerated")


@pytest.mark.parametrize("asked", [{"accept": "text/plain"}, {"format": "text"}])
def test_a_binding_explains_itself_in_sentences(
    server: Server, api: Client, namespace: str, asked: dict[str, Any]
) -> None:
    where = bind(api, namespace, "web-deployment")
    keep(server, namespace, name="web-deployment")

    answer = api.get(where, **asked)

    assert answer.type.startswith("text/plain")
    lines = answer.body.decode().splitlines()
    assert "  member1: chosen (room for 5 more), gets 3 of 3" in lines
    assert "  member2: TaintToleration refuses it: taint gpu:NoSchedule is not tolerated" in lines


def test_what_was_never_decided_and_what_is_not_there_are_distinguished(api: Client, namespace: str) -> None:
    undecided = api.get(bind(api, namespace, "waiting-deployment"))
    missing = api.get(f"{BINDINGS.format(namespace)}/none/explain")

    assert (undecided.status, missing.status) == (404, 404)
    assert "the scheduler has not decided about" in undecided.document["message"]
    assert '"none" not found' in missing.document["message"]


def test_an_explanation_cannot_be_written(api: Client, namespace: str) -> None:
    assert api.put(bind(api, namespace, "web-deployment"), {}).status == 405


def newest(server: Server) -> Any:
    return server.sql("SELECT (SELECT version FROM objects_counter), (SELECT count(*) FROM objects_changelog)")


def test_a_review_is_answered_and_writes_nothing(server: Server, api: Client, namespace: str) -> None:
    names = [f"{namespace}-review{number}" for number in (1, 2)]  # clusters of no other test have these names
    added = [
        {
            "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1"},
            "status": {
                "apiEnablements": [
                    {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
                ]
            },
        }
        for name in names
    ]
    before = newest(server)

    where = {"clusterAffinity": {"clusterNames": names}}
    asked = {"manifest": deployment("web", replicas=2), "placement": where, "clusters": {"added": added}}
    answer = api.post(REVIEWS, {"kind": "PlacementReview", "spec": asked})

    assert answer.status == 201, answer.body
    status = answer.document["status"]
    assert status["outcome"] == "Placed"
    assert status["clusters"] == [{"name": name, "replicas": 2} for name in names]
    assert {one["name"] for one in status["explanation"]["clusters"]} >= set(names)
    assert newest(server) == before


def test_a_review_that_cannot_be_says_which_field(api: Client) -> None:
    answer = api.post(REVIEWS, {"spec": {"placement": {}, "binding": "default/none"}})

    assert answer.status == 422
    assert answer.document["details"]["causes"][0]["field"] == "spec.binding"


def test_a_review_starts_from_no_binding_that_the_user_may_not_get(api: Client, namespace: str) -> None:
    bind(api, namespace, "web-deployment")
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json",
        "Impersonate-User": "a-stranger",
    }

    for name in ("web-deployment", "none"):
        body = json.dumps({"spec": {"binding": f"{namespace}/{name}", "placement": {}}}).encode()
        answer = api.send("POST", REVIEWS, body, headers)

        assert answer.status == 403, "an answer would say where the workloads of others run"
        assert 'User "a-stranger" cannot get resource "resourcebindings"' in answer.document["message"]


def test_an_unknown_field_of_a_review_is_reported_or_refused(api: Client) -> None:
    asked = {"spec": {"manifest": deployment("web", replicas=2), "placement": {}, "assumeLost": ["member1"]}}

    reported, strict = api.post(REVIEWS, asked), api.post(REVIEWS, asked, fieldValidation="Strict")

    assert (reported.status, strict.status) == (201, 400)
    assert 'unknown field "spec.assumeLost"' in reported.headers["warning"].replace("\\", "")
    assert 'unknown field "spec.assumeLost"' in strict.document["message"]


def test_both_are_found_by_discovery_and_openapi(api: Client) -> None:
    ours = {one["name"]: one["verbs"] for one in api.get("/apis/failover.lifeboat.io/v1alpha1").document["resources"]}
    work = {one["name"]: one["verbs"] for one in api.get("/apis/work.karmada.io/v1alpha2").document["resources"]}
    paths = api.get("/openapi/v3/apis/failover.lifeboat.io/v1alpha1").document["paths"]

    assert ours["placementreviews"] == ["create"]
    assert work["resourcebindings/explain"] == ["get"]
    assert work["clusterresourcebindings/explain"] == ["get"]
    assert list(paths[REVIEWS]) == ["post"]

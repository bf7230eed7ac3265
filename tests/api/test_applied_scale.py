"""A Scale is applied server-side: the number of replicas belongs to the field manager that applies it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.server import Answer, Client
from tests.api.test_definitions import OPEN, define
from tests.builders.documents import deployment, deployments

Document = dict[str, Any]
APPLY = "application/apply-patch+yaml"


def applied(api: Client, path: str, body: Document, manager: str, **query: Any) -> Answer:
    return api.patch(path, body, APPLY, fieldManager=manager, **query)


def scale(replicas: Any = None, **metadata: Any) -> Document:
    body: Document = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}
    return body if replicas is None else {**body, "spec": {"replicas": replicas}}


@pytest.fixture
def web(api: Client, namespace: str) -> str:
    """A Deployment that `owner` has applied without replicas."""
    made = deployment("web")
    made["spec"].pop("replicas")
    path = deployments(namespace, "web")
    assert applied(api, path, {"apiVersion": "apps/v1", "kind": "Deployment", **made}, "owner").status == 201
    return path


def owners(api: Client, web: str) -> dict[str, tuple[str, str]]:
    """The managers that own the replicas, each with its operation and subresource."""
    return {
        one["manager"]: (one["operation"], one.get("subresource", ""))
        for one in api.get(web).document["metadata"]["managedFields"]
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    }


def test_replicas_belong_to_who_applies_the_scale(api: Client, web: str) -> None:
    done = applied(api, f"{web}/scale", scale(3), "scaler")

    assert (done.status, done.document["kind"], done.document["spec"]) == (200, "Scale", {"replicas": 3})
    assert api.get(web).document["spec"]["replicas"] == 3
    assert owners(api, web) == {"scaler": ("Apply", "scale")}
    (entry,) = [one for one in api.get(web).document["metadata"]["managedFields"] if one["manager"] == "scaler"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    version = api.get(web).document["metadata"]["resourceVersion"]
    assert applied(api, f"{web}/scale", scale(3), "scaler").status == 200
    assert api.get(web).document["metadata"]["resourceVersion"] == version


def test_another_number_is_a_conflict_unless_it_is_forced(api: Client, web: str) -> None:
    applied(api, f"{web}/scale", scale(3), "scaler")

    refused = applied(api, f"{web}/scale", scale(5), "other")
    forced = applied(api, f"{web}/scale", scale(5), "other", force="true")

    assert (refused.status, [one["field"] for one in refused.document["details"]["causes"]]) == (
        409,
        [".spec.replicas"],
    )
    assert 'conflict with "scaler" with subresource "scale"' in refused.document["message"]
    assert forced.document["spec"] == {"replicas": 5}
    assert owners(api, web) == {"other": ("Apply", "scale")}


def test_who_applies_no_replicas_any_more_gives_them_up_and_leaves_them(api: Client, web: str) -> None:
    applied(api, f"{web}/scale", scale(3), "scaler")

    given_up = applied(api, f"{web}/scale", scale(), "scaler")

    assert (given_up.status, given_up.document["spec"]) == (200, {"replicas": 3})
    assert owners(api, web) == {}


def test_a_wrong_scale_is_refused(api: Client, web: str) -> None:
    tried = {
        400: [{**scale(1), "kind": "Deployment"}, scale(1, name="another")],
        422: [scale(-1), scale("3"), {**scale(), "spec": [1]}],
        409: [scale(1, uid="another"), scale(1, resourceVersion="1")],
    }

    assert {
        code: [applied(api, f"{web}/scale", body, "a").status for body in bodies] for code, bodies in tried.items()
    } == {code: [code] * len(bodies) for code, bodies in tried.items()}
    assert applied(api, f"{web}-gone/scale", scale(1), "a").status == 404
    strict = applied(api, f"{web}/scale", {**scale(1), "spce": {}}, "a", fieldValidation="Strict")
    assert (strict.status, 'unknown field "spce"' in strict.document["message"]) == (400, True)
    assert applied(api, f"{web}/scale", scale(4), "a", dryRun="All").document["spec"] == {"replicas": 4}
    assert owners(api, web) == {}


def test_the_scale_of_a_custom_object_is_applied_where_its_definition_says(api: Client, namespace: str) -> None:
    group = f"scales-{namespace}.example.io"
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    define(api, group, OPEN, subresources={"scale": paths})
    ferry = f"/apis/{group}/v1/namespaces/{namespace}/boats/ferry"
    api.post(ferry.rpartition("/")[0], {"metadata": {"name": "ferry"}, "spec": {"size": 1}}, fieldManager="maker")

    done = applied(api, f"{ferry}/scale", scale(7), "scaler", force="true")

    assert done.document["spec"] == {"replicas": 7}
    assert api.get(ferry).document["spec"] == {"size": 7}

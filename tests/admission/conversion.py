"""A conversion webhook: v1 has spec.address ("host:port"), v2 has spec.host and spec.port."""

from __future__ import annotations

from typing import Any

Node = dict[str, Any]


def converted(document: Node, api_version: str) -> Node:
    """Return an object in another version."""
    spec = dict(document.get("spec") or {})
    if api_version.endswith("/v2") and "address" in spec:
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": port}
    elif api_version.endswith("/v1") and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    return {**document, "apiVersion": api_version, "spec": spec}


def answer(path: str, review: Node) -> Node:
    """Return the answer to a ConversionReview. The path says what is wrong with it."""
    request = review["request"]
    made = [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
    response: Node = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made}
    match path.partition("-")[2]:
        case "refuse":
            response["result"] = {"status": "Failure", "message": "cannot convert this"}
        case "refuse-silently":
            response["result"] = {"status": "Failure"}
        case "uid":
            response["uid"] = "other"
        case "none":
            response["convertedObjects"] = []
        case "version":
            made[0]["apiVersion"] = "versions.example.com/v9"
        case "kind":
            made[0]["kind"] = "Other"
        case "name":
            made[0]["metadata"] = {**made[0]["metadata"], "name": "other"}
        case "identity":
            made[0]["metadata"] = {**made[0]["metadata"], "uid": "other"}
        case "labels":
            made[0]["metadata"] = {**made[0]["metadata"], "labels": {"by": "hook"}, "finalizers": ["a/b"]}
        case "empty":
            return {"apiVersion": review["apiVersion"], "kind": review["kind"]}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

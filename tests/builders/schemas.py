"""Documents and a schema, small enough to read, for the tests of the wire protocol."""

from __future__ import annotations

from typing import Any

from controlplane.wire.schema import Schema

STRING = {"type": "string"}


def keyed(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the schema of a list whose items these fields distinguish, for apply and for strategic patches."""
    return {
        "type": "array",
        "items": {"type": "object", "properties": item},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "x-kubernetes-patch-merge-key": keys[0],
        "x-kubernetes-patch-strategy": "merge",
    }


PORT = {"containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": STRING}
CONTAINER = {
    "name": STRING,
    "image": STRING,
    "args": {"type": "array", "items": STRING},
    "env": keyed({"name": STRING, "value": STRING}, "name"),
    "ports": keyed(PORT, "containerPort", "protocol"),
}
DEPLOYMENT = Schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer"},
                    "paused": {"type": "boolean"},
                    "selector": {
                        "type": "object",
                        "additionalProperties": STRING,
                        "x-kubernetes-map-type": "atomic",
                    },
                    "strategy": {
                        "type": "object",
                        "properties": {
                            "type": STRING,
                            "rollingUpdate": {"type": "object", "additionalProperties": STRING},
                        },
                        "x-kubernetes-patch-strategy": "retainKeys",
                    },
                    "zones": {
                        "type": "array",
                        "items": STRING,
                        "x-kubernetes-list-type": "set",
                        "x-kubernetes-patch-strategy": "merge",
                    },
                    "template": {
                        "type": "object",
                        "properties": {
                            "nodeSelector": {"type": "object", "additionalProperties": STRING},
                            "containers": keyed(CONTAINER, "name"),
                        },
                    },
                    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"readyReplicas": {"type": "integer"}}},
        },
    }
)


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return a Deployment with only what the test says."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    """Return a template with these containers."""
    return {"containers": list(items)}

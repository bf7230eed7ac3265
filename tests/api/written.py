"""Manifests that together say every field of the kinds users write, and the variants of each that a test applies."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from controlplane.wire.schema import Schema

Document = dict[str, Any]
Path = tuple[str | int, ...]

REMOVED = object()

_SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]}
_AFFINITY = {
    "labelSelector": _SELECTOR,
    "fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["north"]}]},
    "clusterNames": ["member1", "member2"],
    "exclude": ["member2"],
}
_STATE = {"rules": [{"aliasLabelName": "example.io/id", "jsonPath": "{.id}"}]}
_PLACEMENT = {
    "clusterAffinity": _AFFINITY,
    "clusterTolerations": [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 20}
    ],
    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": _AFFINITY, "weight": 2}]},
    },
    "workloadAffinity": {"affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "tier"}},
}
_POLICY = {
    "resourceSelectors": [
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "web", "labelSelector": _SELECTOR}
    ],
    "propagateDeps": True,
    "placement": _PLACEMENT,
    "priority": 3,
    "preemption": "Always",
    "schedulerName": "other",
    "failover": {
        "application": {
            "decisionConditions": {"tolerationSeconds": 7},
            "purgeMode": "Gracefully",
            "pureMode": "Gracefully",
            "gracePeriodSeconds": 8,
            "statePreservation": _STATE,
        },
        "cluster": {
            "purgeMode": "Directly",
            "pureMode": "Directly",
            "tolerationSeconds": 9,
            "statePreservation": _STATE,
        },
    },
    "conflictResolution": "Overwrite",
    "activationPreference": "Lazy",
    "suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": []}},
    "preserveResourcesOnDeletion": True,
    "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
    "dependentOverrides": ["images"],
}
_OTHER_POLICY = {
    "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
    "placement": {
        "clusterAffinities": [
            {
                **_AFFINITY,
                "affinityName": "one",
                "overflowAffinities": [{**_AFFINITY, "affinityName": "more"}],
            }
        ],
        "spreadConstraints": [{"spreadByLabel": "zone", "maxGroups": 1}],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    },
    "suspension": {"dispatchingOnClusters": {"clusterNames": ["member1"]}},
}
_OVERRIDERS = {
    "plaintext": [{"path": "/metadata/labels/a", "operator": "add", "value": "b"}],
    "imageOverrider": [
        {"component": "Tag", "operator": "replace", "value": "v2", "predicate": {"path": "/spec/image"}}
    ],
    "commandOverrider": [{"containerName": "main", "operator": "add", "value": ["run"]}],
    "argsOverrider": [{"containerName": "main", "operator": "remove", "value": ["-v"]}],
    "labelsOverrider": [{"operator": "add", "value": {"a": "b"}}],
    "annotationsOverrider": [{"operator": "replace", "value": {"a": "b"}}],
}
_FIELD = {"subPath": "/a", "operator": "add", "value": "b"}
_OVERRIDES = {
    "resourceSelectors": _POLICY["resourceSelectors"],
    "overrideRules": [
        {
            "targetCluster": _AFFINITY,
            "overriders": {**_OVERRIDERS, "fieldOverrider": [{"fieldPath": "/data/a", "json": [_FIELD]}]},
        },
    ],
}
_YAML_OVERRIDES = {"overrideRules": [{"overriders": {"fieldOverrider": [{"fieldPath": "/data/a", "yaml": [_FIELD]}]}}]}
_OLD_OVERRIDES = {
    "targetCluster": _AFFINITY,
    "overriders": {**_OVERRIDERS, "fieldOverrider": [{"fieldPath": "/data/a", "json": [_FIELD], "yaml": [_FIELD]}]},
}
_CONDITION = {"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}
_WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default"}

SPECS: list[tuple[str, Document]] = [
    (
        "cluster.karmada.io/Cluster",
        {
            "id": "one",
            "syncMode": "Pull",
            "apiEndpoint": "https://127.0.0.1:1",
            "secretRef": {"namespace": "default", "name": "secret"},
            "impersonatorSecretRef": {"namespace": "default", "name": "secret"},
            "insecureSkipTLSVerification": True,
            "proxyURL": "http://127.0.0.1:2",
            "proxyHeader": {"a": "b"},
            "provider": "p",
            "region": "r",
            "zones": ["z"],
            "taints": [{"key": "a", "effect": "NoSchedule", "value": "v", "timeAdded": "2026-01-02T03:04:05Z"}],
            "resourceModels": [
                {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]},
                {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "9223372036854775807"}]},
            ],
        },
    ),
    ("policy.karmada.io/PropagationPolicy", _POLICY),
    ("policy.karmada.io/PropagationPolicy", _OTHER_POLICY),
    ("policy.karmada.io/ClusterPropagationPolicy", _POLICY),
    ("policy.karmada.io/ClusterPropagationPolicy", _OTHER_POLICY),
    ("policy.karmada.io/OverridePolicy", _OVERRIDES),
    ("policy.karmada.io/OverridePolicy", _YAML_OVERRIDES),
    ("policy.karmada.io/OverridePolicy", _OLD_OVERRIDES),
    ("policy.karmada.io/ClusterOverridePolicy", _OVERRIDES),
    ("policy.karmada.io/ClusterOverridePolicy", _YAML_OVERRIDES),
    ("policy.karmada.io/ClusterOverridePolicy", _OLD_OVERRIDES),
    (
        "policy.karmada.io/ClusterTaintPolicy",
        {
            "targetCluster": _AFFINITY,
            "matchConditions": [_CONDITION],
            "taintsToAdd": [
                {
                    "key": "a",
                    "effect": "NoExecute",
                    "value": "v",
                    "addOnMatchSeconds": 20,
                    "removeOnMismatchSeconds": 21,
                }
            ],
        },
    ),
    (
        "policy.karmada.io/ClusterTaintPolicy",
        {
            "targetClusters": _AFFINITY,
            "addOnConditions": [_CONDITION],
            "removeOnConditions": [_CONDITION],
            "taints": [{"key": "a", "effect": "NoExecute", "value": "v"}],
        },
    ),
    (
        "policy.karmada.io/FederatedResourceQuota",
        {
            "overall": {"cpu": "10", "memory": "20Gi"},
            "staticAssignments": [{"clusterName": "member1", "hard": {"cpu": "4"}}],
        },
    ),
    (
        "apps.karmada.io/WorkloadRebalancer",
        {
            "workloads": [{**_WORKLOAD, "name": "web"}],
            "workloadSelector": {**_WORKLOAD, "labelSelector": _SELECTOR},
            "ttlSecondsAfterFinished": 30,
        },
    ),
    ("failover.lifeboat.io/Drain", {"cluster": "member1", "rate": 0.25, "stop": True, "reason": "work"}),
    (
        "failover.lifeboat.io/Failback",
        {
            "cluster": "member1",
            "selector": _SELECTOR,
            "rate": 0.25,
            "atOnce": 3,
            "dryRun": True,
            "stop": True,
            "reason": "back",
        },
    ),
    (
        "failover.lifeboat.io/EvictionHold",
        {
            "reason": "wait",
            "clusters": ["member1"],
            "namespaces": ["default"],
            "selector": _SELECTOR,
            "who": "me",
            "expiresAt": "2026-01-02T03:04:05Z",
        },
    ),
    (
        "config.karmada.io/ResourceInterpreterCustomization",
        {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {
                field: {"luaScript": f"function {function}(object) return object end"}
                for field, function in (
                    ("retention", "Retain"),
                    ("replicaResource", "GetReplicas"),
                    ("componentResource", "GetComponents"),
                    ("replicaRevision", "ReviseReplica"),
                    ("statusReflection", "ReflectStatus"),
                    ("statusAggregation", "AggregateStatus"),
                    ("healthInterpretation", "InterpretHealth"),
                    ("dependencyInterpretation", "GetDependencies"),
                )
            },
        },
    ),
    (
        "failover.lifeboat.io/Drill",
        {
            "mode": "Drain",
            "clusters": ["member1"],
            "namespaces": ["default"],
            "selector": _SELECTOR,
            "rate": 1.5,
            "returns": True,
            "criteria": {"maxDurationSeconds": 600, "maxWithoutPlace": 2, "minHealthyCopies": 2},
            "stop": True,
            "reason": "practice",
        },
    ),
    (
        "failover.lifeboat.io/MaintenanceWindow",
        {
            "clusters": ["member1"],
            "from": "2026-01-02T03:04:05Z",
            "until": "2026-01-02T04:04:05Z",
            "reason": "work",
        },
    ),
    (
        "work.karmada.io/Work",
        {
            "workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}]},
            "suspendDispatching": True,
            "preserveResourcesOnDeletion": True,
        },
    ),
]
# Fields that are never stored as they are written, or that no manifest here can say, and why.
MOVED = {
    ("failover.lifeboat.io/Failback", "binding"): "needs a binding that has left a cluster",
    ("cluster.karmada.io/Cluster", "zone"): "a deprecated field whose value is moved to zones",
    ("policy.karmada.io/PropagationPolicy", "placement.spreadConstraints.spreadByLabel"): "refused: none can be met",
    ("policy.karmada.io/ClusterPropagationPolicy", "placement.spreadConstraints.spreadByLabel"): "refused: as above",
}

# Kinds with a spec that no manifest here has, and why.
UNWRITTEN = {
    "failover.lifeboat.io/FailoverConfiguration": "there is one, named default; it would change the other tests",
    "work.karmada.io/ResourceBinding": "the scheduler decides its spec",
    "work.karmada.io/ClusterResourceBinding": "the scheduler decides its spec",
}

# Empty values that the API replaces by a default as it does with absent ones, as the original does.
REPLACED = {
    "resourceModels": "a cluster has at least the nine default grades",
    "resourceModels.ranges.min": "the first grade begins at 0",
    "placement.replicaScheduling.replicaSchedulingType": "Divided; the original refuses an empty one",
    "placement.replicaScheduling.replicaDivisionPreference": "Weighted; the original does the same",
}


class Variant(NamedTuple):
    """A spec to apply. `path`: the field that differs from the specs above; `value`: what it says."""

    kind: str
    path: Path
    value: Any
    spec: Document


def fields(schema: Schema, path: str = "") -> Iterator[str]:
    """Yield every field below a schema, without the positions of items: taintsToAdd.key."""
    for name, inner in schema.properties.items():
        place = f"{path}.{name}" if path else name
        yield place
        yield from fields(inner.items if inner.type == "array" and inner.items is not None else inner, place)


def without_positions(path: Path) -> str:
    """Return a path as `fields` yields it."""
    return ".".join(one for one in path if isinstance(one, str))


def variants(kind: str, spec: Document, schema: Schema) -> Iterator[Variant]:
    """Yield the spec itself, and for every field in it: with its default, with the zero value, without it."""
    yield Variant(kind, (), spec, spec)
    for path, inner in _places(spec, schema, ()):
        values = [REMOVED, _zero(inner)]
        if inner.default is not None and inner.default not in values:
            values.append(inner.default)
        for value in values:
            if value is REMOVED or value or without_positions(path) not in REPLACED:
                yield Variant(kind, path, value, _with(spec, path, value))


def _places(value: Any, schema: Schema, path: Path) -> Iterator[tuple[Path, Schema]]:
    if isinstance(value, dict):
        for name, item in value.items():
            inner = schema.properties.get(name)
            if inner is not None:
                yield (*path, name), inner
                yield from _places(item, inner, (*path, name))
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value[:1]):
            yield from _places(item, schema.items, (*path, index))


def _zero(schema: Schema) -> Any:
    zeros: dict[str, Any] = {"string": "", "boolean": False, "array": [], "object": {}}
    return zeros.get(schema.type, 0)


def _with(spec: Document, path: Path, value: Any) -> Document:
    made = deepcopy(spec)
    inner: Any = made
    for part in path[:-1]:
        inner = inner[part]
    if value is REMOVED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made

"""Pod templates as charts write them, in each kind that has one: what is completed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.simulator.comparison.cases import Case, Document, apply, create, edited, kind, named, update

HTTP = {"httpGet": {"path": "/", "port": 80}}
CONTAINER = "spec/template/spec/containers/0"
POD = "spec/template/spec"

# Path within a Deployment, and what is set there.
EDITS: dict[str, tuple[str, Any]] = {
    "an env name twice": (f"{CONTAINER}/env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "an env without a value": (f"{CONTAINER}/env", [{"name": "A"}, {"name": "B", "value": ""}]),
    "an env with a number": (f"{CONTAINER}/env", [{"name": "A", "value": 1}]),
    "an env without a name": (f"{CONTAINER}/env", [{"value": "1"}]),
    "an env of two sources": (
        f"{CONTAINER}/env",
        [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    "an env from a field": (
        f"{CONTAINER}/env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    "an env from an unknown field": (
        f"{CONTAINER}/env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nonsense"}}}],
    ),
    "an env from a key": (
        f"{CONTAINER}/env",
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    ),
    "an env from a key without a name": (
        f"{CONTAINER}/env",
        [{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}],
    ),
    "an env from a limit": (
        f"{CONTAINER}/env",
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
    ),
    "envFrom": (
        f"{CONTAINER}/envFrom",
        [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b", "optional": True}}],
    ),
    "a port twice": (f"{CONTAINER}/ports", [{"name": "a", "containerPort": 80}, {"name": "b", "containerPort": 80}]),
    "a port of two protocols": (
        f"{CONTAINER}/ports",
        [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}],
    ),
    "a port's name twice": (
        f"{CONTAINER}/ports",
        [{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}],
    ),
    "a port's name too long": (f"{CONTAINER}/ports", [{"name": "a-very-long-name-of-a-port", "containerPort": 80}]),
    "a port out of range": (f"{CONTAINER}/ports", [{"containerPort": 70000}]),
    "a port that is text": (f"{CONTAINER}/ports", [{"containerPort": "80"}]),
    "a port without a number": (f"{CONTAINER}/ports", [{"name": "a"}]),
    "a port of a strange protocol": (f"{CONTAINER}/ports", [{"containerPort": 80, "protocol": "ICMP"}]),
    "ports are empty": (f"{CONTAINER}/ports", []),
    "a container's name twice": (f"{POD}/containers", [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]),
    "a container without a name": (f"{POD}/containers", [{"image": "x"}]),
    "a container without an image": (f"{POD}/containers", [{"name": "a"}]),
    "a container's bad name": (f"{POD}/containers", [{"name": "A_b", "image": "x"}]),
    "an image with a space": (f"{CONTAINER}/image", " nginx"),
    "no containers": (f"{POD}/containers", []),
    "containers are no list": (f"{POD}/containers", {"name": "a"}),
    "images": (
        f"{POD}/containers",
        [
            {"name": f"c{number}", "image": image}
            for number, image in enumerate(
                (
                    "a",
                    "a:latest",
                    "a:1",
                    "r.io:5000/a",
                    "r.io:5000/a:2",
                    "a@sha256:" + "0" * 64,
                    "a:1@sha256:" + "0" * 64,
                )
            )
        ],
    ),
    "a pull policy": (f"{CONTAINER}/imagePullPolicy", "Sometimes"),
    "initContainers": (f"{POD}/initContainers", [{"name": "i", "image": "x:1", "restartPolicy": "Always"}]),
    "a name of init and container": (f"{POD}/initContainers", [{"name": "web", "image": "x:1"}]),
    "liveness": (f"{CONTAINER}/livenessProbe", HTTP),
    "a probe with times": (f"{CONTAINER}/readinessProbe", {**HTTP, "timeoutSeconds": 5, "periodSeconds": 3}),
    "a probe of zeros": (f"{CONTAINER}/readinessProbe", {**HTTP, "timeoutSeconds": 0, "failureThreshold": 0}),
    "a negative probe": (f"{CONTAINER}/readinessProbe", {**HTTP, "timeoutSeconds": -1}),
    "a probe without a path": (f"{CONTAINER}/startupProbe", {"httpGet": {"port": "http"}}),
    "a probe of tcp": (f"{CONTAINER}/livenessProbe", {"tcpSocket": {"port": 80}}),
    "a probe of a command": (f"{CONTAINER}/livenessProbe", {"exec": {"command": ["true"]}}),
    "a probe of grpc": (f"{CONTAINER}/livenessProbe", {"grpc": {"port": 80}}),
    "a probe of two": (f"{CONTAINER}/livenessProbe", {**HTTP, "tcpSocket": {"port": 80}}),
    "a probe of nothing": (f"{CONTAINER}/livenessProbe", {"periodSeconds": 3}),
    "a liveness with successThreshold": (f"{CONTAINER}/livenessProbe", {**HTTP, "successThreshold": 2}),
    "hooks": (
        f"{CONTAINER}/lifecycle",
        {"preStop": {"httpGet": {"port": 80}}, "postStart": {"exec": {"command": ["x"]}}},
    ),
    "limits": (f"{CONTAINER}/resources", {"limits": {"cpu": "0.5", "memory": "1024Mi"}}),
    "quantities": (
        f"{CONTAINER}/resources",
        {
            "limits": {"cpu": 1, "memory": "1e9"},
            "requests": {"cpu": "1e-1", "memory": "1000Ki", "ephemeral-storage": "1.5Gi"},
        },
    ),
    "a quantity of nonsense": (f"{CONTAINER}/resources", {"limits": {"cpu": "a lot"}}),
    "a negative quantity": (f"{CONTAINER}/resources", {"limits": {"cpu": "-1"}}),
    "a request above its limit": (f"{CONTAINER}/resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
    "an unknown resource": (f"{CONTAINER}/resources", {"limits": {"gpus": "1"}}),
    "a device": (f"{CONTAINER}/resources", {"limits": {"example.com/gpu": "1"}}),
    "a device requested only": (f"{CONTAINER}/resources", {"requests": {"example.com/gpu": "1"}}),
    "a mount without a volume": (f"{CONTAINER}/volumeMounts", [{"name": "a", "mountPath": "/a"}]),
    "volumes": (
        f"{POD}/volumes",
        [
            {"name": "a", "configMap": {"name": "a"}},
            {"name": "b", "secret": {"secretName": "b"}},
            {"name": "c", "emptyDir": {}},
            {"name": "d", "hostPath": {"path": "/d"}},
            {"name": "e", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {
                "name": "f",
                "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "x"}}]},
            },
            {"name": "g", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "h"},
            {"name": "i", "configMap": {"name": "a", "items": [{"key": "k", "path": "p"}], "defaultMode": 256}},
            {
                "name": "j",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                },
            },
            {"name": "k", "nfs": {"server": "s", "path": "/p"}},
        ],
    ),
    "a volume's name twice": (f"{POD}/volumes", [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
    "a volume of two sources": (f"{POD}/volumes", [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    "a restart policy": (f"{POD}/restartPolicy", "Never"),
    "an unknown restart policy": (f"{POD}/restartPolicy", "Sometimes"),
    "a service account": (f"{POD}/serviceAccount", "other"),
    "hostNetwork": (f"{POD}/hostNetwork", True),
    "hostAliases": (
        f"{POD}/hostAliases",
        [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}],
    ),
    "pull secrets": (f"{POD}/imagePullSecrets", [{"name": "a"}, {"name": "a"}]),
    "a pull secret without a name": (f"{POD}/imagePullSecrets", [{}]),
    "tolerations": (f"{POD}/tolerations", [{"key": "a", "operator": "Exists"}, {"operator": "Exists"}, {"key": "b"}]),
    "a toleration twice": (f"{POD}/tolerations", [{"key": "a", "value": "x"}, {"key": "a", "value": "x"}]),
    "a bad toleration": (f"{POD}/tolerations", [{"key": "a", "operator": "Exists", "value": "x"}]),
    "affinity": (
        f"{POD}/affinity",
        {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            }
        },
    ),
    "affinity without a topology": (
        f"{POD}/affinity",
        {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"a": "b"}}}]
            }
        },
    ),
    "spread": (
        f"{POD}/topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
    "spread twice": (
        f"{POD}/topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2,
    ),
    "spread of nothing": (
        f"{POD}/topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
    "a security context": (f"{CONTAINER}/securityContext", {"runAsUser": 0, "privileged": False}),
    "a privileged one that may not": (
        f"{CONTAINER}/securityContext",
        {"privileged": True, "allowPrivilegeEscalation": False},
    ),
    "the pod's security context": (f"{POD}/securityContext", {"fsGroup": 1, "runAsNonRoot": True}),
    "node selector": (f"{POD}/nodeSelector", {"a": "b"}),
    "no grace": (f"{POD}/terminationGracePeriodSeconds", 0),
    "negative grace": (f"{POD}/terminationGracePeriodSeconds", -1),
    "a dns policy": (f"{POD}/dnsPolicy", "None"),
    "a priority class": (f"{POD}/priorityClassName", "system-node-critical"),
    "labels that do not fit": ("spec/template/metadata/labels", {"app": "other"}),
    "no labels": ("spec/template/metadata", {}),
    "no selector": ("spec/selector", None),
    "an empty selector": ("spec/selector", {}),
    "a selector's bad operator": (
        "spec/selector",
        {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]},
    ),
    "a selector of expressions": (
        "spec/selector",
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
    ),
    "no template": ("spec/template", None),
    "no spec": ("spec", None),
    "no replicas": ("spec/replicas", None),
    "zero replicas": ("spec/replicas", 0),
    "negative replicas": ("spec/replicas", -1),
    "replicas are text": ("spec/replicas", "two"),
    "replicas are a fraction": ("spec/replicas", 1.5),
    "Recreate": ("spec/strategy", {"type": "Recreate"}),
    "Recreate with a rolling update": ("spec/strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
    "an unknown strategy": ("spec/strategy", {"type": "Sudden"}),
    "no surge and nothing unavailable": ("spec/strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
    "a percentage above all": ("spec/strategy", {"rollingUpdate": {"maxUnavailable": "120%"}}),
    "a percentage of nonsense": ("spec/strategy", {"rollingUpdate": {"maxUnavailable": "half"}}),
    "no deadline": ("spec/progressDeadlineSeconds", 0),
    "ready after the deadline": ("spec/minReadySeconds", 700),
    "a short history": ("spec/revisionHistoryLimit", 0),
    "paused": ("spec/paused", True),
}


def of_deployments() -> Iterator[Case]:
    """Yield every edit, created, applied twice, and then put over what is there."""
    plain = kind("Deployment")
    for number, (what, (path, value)) in enumerate(EDITS.items()):
        made = edited(named(plain, f"deployment-{number}"), path, value)
        applied = named(made, f"applied-{made['metadata']['name']}")
        original = named(plain, f"updated-{number}")
        updated = named(made, f"updated-{number}")
        yield Case(
            f"deployment with {what}",
            (
                *(create(made), apply(made), update(made)),
                *(apply(applied), apply(applied)),
                *(create(original), update(updated), apply(original)),
            ),
        )


def of_others() -> Iterator[Case]:
    """Yield some of the edits in the other kinds that have a pod template, and in pods."""
    chosen = ("an env name twice", "a port twice", "liveness", "volumes", "quantities", "an unknown restart policy")
    chosen += ("a container's name twice", "no containers", "images", "hostNetwork", "tolerations", "no labels")
    for word in ("StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"):
        for number, what in enumerate(chosen):
            path, value = EDITS[what]
            made = _edited(named(kind(word), f"{word.lower()}-{number}"), path, value)
            applied = named(made, f"applied-{made['metadata']['name']}")
            yield Case(
                f"{word.lower()} with {what}",
                (create(made), update(made), apply(applied), apply(applied)),
            )


def _edited(document: Document, path: str, value: Any) -> Document:
    if document["kind"] == "Pod":
        path = path.replace(POD, "spec").replace("spec/template/metadata", "metadata/labels")
    if document["kind"] == "CronJob":
        path = path.replace("spec/template", "spec/jobTemplate/spec/template")
    return edited(document, path, value)

"""The overview's manifests, a hold of what they place, and clusters to place them on."""

from __future__ import annotations

import copy
from datetime import datetime
from functools import lru_cache
from typing import Any

import yaml

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.meta import Object, kind_key
from controlplane.kind import Kind
from controlplane.kinds import KINDS
from controlplane.settings import Settings

NGINX = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  labels:
    app: nginx
spec:
  replicas: %d
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - image: nginx
        name: nginx
"""

_OF_NGINX = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: nginx-propagation
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
      name: nginx
"""
DUPLICATED = f"""{_OF_NGINX}  placement:
    clusterAffinity:
      clusterNames:
        - member1
        - member2
        - member3
        - member5
    spreadConstraints:
      - maxGroups: 2
        minGroups: 2
    replicaScheduling:
      replicaSchedulingType: Duplicated
"""

DIVIDED = f"""{_OF_NGINX}  placement:
    clusterAffinity:
      clusterNames:
        - member1
        - member2
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
          - targetCluster:
              clusterNames:
                - member1
            weight: 1
          - targetCluster:
              clusterNames:
                - member2
            weight: 2
"""

ANYWHERE = f"""{_OF_NGINX}  failover:
    cluster:
      purgeMode: Gracefully
      tolerationSeconds: 4
  placement:
    clusterAffinity:
      exclude:
        - member5
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        dynamicWeight: AvailableReplicas
"""

TWO_OF_A_GROUP = f"""{_OF_NGINX}  placement:
    clusterAffinities:
      - affinityName: primary
        clusterNames: [member1, member2]
      - affinityName: backup
        clusterNames: [member3, member4]
    spreadConstraints:
      - spreadByField: cluster
        minGroups: 2
        maxGroups: 2
    replicaScheduling:
      replicaSchedulingType: %s
      replicaDivisionPreference: Weighted
      weightPreference:
        dynamicWeight: AvailableReplicas
"""

NOT_READY_MEANS_LEAVE = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata:
  name: detect-cluster-not-ready
spec:
  matchConditions:
  - conditionType: Ready
    operator: In
    statusValues: ["False", "Unknown"]
  taintsToAdd:
  - key: cluster.karmada.io/not-ready
    effect: NoExecute
    addOnMatchSeconds: 5
    removeOnMismatchSeconds: 5
"""

HELD = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: EvictionHold
metadata:
  name: release
spec:
  reason: we are releasing
  selector:
    matchLabels:
      app: nginx
"""


def cluster(name: str, *, pull: bool = False) -> dict[str, Any]:
    """Return the document of a Push cluster, or of a Pull cluster."""
    push = {"syncMode": "Push", "apiEndpoint": f"https://{name}.example:6443"}
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Pull"} if pull else push,
    }


def admitted(
    text: str | dict[str, Any], settings: Settings, *, now: datetime, rename: tuple[str, str] = ("", "")
) -> Object:
    """Return the object of a manifest as the API would store it; namespaced ones without a namespace in `default`.

    `rename`: a word in the manifest and what stands there instead.
    """
    doc: dict[str, Any] = copy.deepcopy(_read(text, *rename)) if isinstance(text, str) else text
    kind: Kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    if kind.resource.namespaced:
        doc["metadata"].setdefault("namespace", "default")
    uid = f"uid-{doc['kind'].lower()}-{doc['metadata']['name']}"
    return admit_create(
        kind, doc, namespace=doc["metadata"].get("namespace", ""), settings=settings, now=now, uid=uid
    ).object


@lru_cache(maxsize=256)
def _read(text: str, old: str, new: str) -> Any:
    return yaml.safe_load(text.replace(old, new) if old else text)

"""The built-in kinds of Kubernetes 1.32: their declarations, and the schemas of their fields.

These are the kinds that users may propagate without a CustomResourceDefinition, and the reviews that kubectl sends.
Schemas are loaded from `data/` (see its README) when they are first needed.
"""

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import orjson

from controlplane.wire.columns import COLUMNS
from controlplane.wire.pod_columns import EVENT, EVENT_V1, POD
from controlplane.wire.resource import Column, Resource
from controlplane.wire.schema import Components, Schema

KUBERNETES = "1.32"

# Under each apiVersion, a line per kind: kind, plural, N if namespaced, short names, categories, subresources; -: none.
_CATALOGUE = """
v1
  ConfigMap configmaps N cm
  Endpoints endpoints N ep
  Event events N ev
  LimitRange limitranges N limits
  Namespace namespaces - ns - status,finalize
  Node nodes - no - status
  PersistentVolume persistentvolumes - pv - status
  PersistentVolumeClaim persistentvolumeclaims N pvc - status
  Pod pods N po all status
  PodTemplate podtemplates N
  ReplicationController replicationcontrollers N rc all status,scale
  ResourceQuota resourcequotas N quota - status
  Secret secrets N
  Service services N svc all status
  ServiceAccount serviceaccounts N sa - token
apps/v1
  ControllerRevision controllerrevisions N
  DaemonSet daemonsets N ds all status
  Deployment deployments N deploy all status,scale
  ReplicaSet replicasets N rs all status,scale
  StatefulSet statefulsets N sts all status,scale
batch/v1
  CronJob cronjobs N cj all status
  Job jobs N - all status
autoscaling/v2
  HorizontalPodAutoscaler horizontalpodautoscalers N hpa all status
networking.k8s.io/v1
  Ingress ingresses N ing - status
  IngressClass ingressclasses -
  NetworkPolicy networkpolicies N netpol
policy/v1
  PodDisruptionBudget poddisruptionbudgets N pdb - status
rbac.authorization.k8s.io/v1
  ClusterRole clusterroles -
  ClusterRoleBinding clusterrolebindings -
  Role roles N
  RoleBinding rolebindings N
storage.k8s.io/v1
  CSIDriver csidrivers -
  CSINode csinodes -
  CSIStorageCapacity csistoragecapacities N
  StorageClass storageclasses - sc
  VolumeAttachment volumeattachments - - - status
coordination.k8s.io/v1
  Lease leases N
discovery.k8s.io/v1
  EndpointSlice endpointslices N
events.k8s.io/v1
  Event events N ev
scheduling.k8s.io/v1
  PriorityClass priorityclasses - pc
admissionregistration.k8s.io/v1
  MutatingWebhookConfiguration mutatingwebhookconfigurations - - api-extensions
  ValidatingAdmissionPolicy validatingadmissionpolicies - - api-extensions status
  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings - - api-extensions
  ValidatingWebhookConfiguration validatingwebhookconfigurations - - api-extensions
apiextensions.k8s.io/v1
  CustomResourceDefinition customresourcedefinitions - crd,crds api-extensions status
apiregistration.k8s.io/v1
  APIService apiservices - - api-extensions status
certificates.k8s.io/v1
  CertificateSigningRequest certificatesigningrequests - csr - status,approval
node.k8s.io/v1
  RuntimeClass runtimeclasses -
flowcontrol.apiserver.k8s.io/v1
  FlowSchema flowschemas - - - status
  PriorityLevelConfiguration prioritylevelconfigurations - - - status
"""

# Older versions of the kinds above, which are served from the same stored objects.
_OLDER = """
autoscaling/v1
  HorizontalPodAutoscaler horizontalpodautoscalers N hpa all status
"""

# Reviews are questions: they are created, answered in the response, and never stored.
_REVIEWS = """
authentication.k8s.io/v1
  SelfSubjectReview selfsubjectreviews -
  TokenReview tokenreviews -
authorization.k8s.io/v1
  LocalSubjectAccessReview localsubjectaccessreviews N
  SelfSubjectAccessReview selfsubjectaccessreviews -
  SelfSubjectRulesReview selfsubjectrulesreviews -
  SubjectAccessReview subjectaccessreviews -
"""

# The fields for field selectors besides name and namespace, as in Kubernetes. Two are left out because they read
# another field than their name suggests: source of Event and status.successful of Job.
_FIELDS: dict[str, tuple[str, ...]] = {
    "v1/Event": (
        *(f"involvedObject.{field}" for field in ("apiVersion", "fieldPath", "kind", "name", "namespace", "uid")),
        *("involvedObject.resourceVersion", "reason", "reportingComponent", "type"),
    ),
    "v1/Namespace": ("status.phase",),
    "v1/Node": ("spec.unschedulable",),
    "v1/Pod": (
        *("spec.hostNetwork", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.nominatedNodeName", "status.phase", "status.podIP"),
    ),
    "v1/ReplicationController": ("status.replicas",),
    "v1/Secret": ("type",),
    "v1/Service": ("spec.clusterIP", "spec.type"),
    "apps/v1/ReplicaSet": ("status.replicas",),
    "certificates.k8s.io/v1/CertificateSigningRequest": ("spec.signerName",),
}
_ABOUT = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_STORED_FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "events.k8s.io/v1/Event": (
        *((f"regarding.{field}", f"involvedObject.{field}") for field in _ABOUT),
        ("reportingController", "reportingComponent"),
    ),
}
_FIELDS["events.k8s.io/v1/Event"] = (*(name for name, _ in _STORED_FIELDS["events.k8s.io/v1/Event"]), "reason", "type")
_POD_COLUMNS: dict[str, tuple[Column, ...]] = {"v1/Pod": POD, "v1/Event": EVENT, "events.k8s.io/v1/Event": EVENT_V1}


def _parsed(catalogue: str, **common: Any) -> tuple[Resource, ...]:
    """Return the declarations of a catalogue. `common` are further fields of each Resource."""
    found = []
    group = version = ""
    for line in catalogue.strip().splitlines():
        if not line.startswith(" "):
            group, _, version = line.rpartition("/")
            continue
        kind, plural, scope, short, categories, subresources = (line.split() + ["-"] * 3)[:6]
        name = f"{group}/{version}/{kind}".removeprefix("/")
        found.append(
            Resource(
                group=group,
                version=version,
                kind=kind,
                plural=plural,
                singular=kind.lower(),
                namespaced=scope == "N",
                short_names=_names(short),
                categories=_names(categories),
                subresources=_names(subresources),
                columns=_POD_COLUMNS.get(name) or COLUMNS.get(name, ()),
                fields=_FIELDS.get(name, ()),
                stored_fields=_STORED_FIELDS.get(name, ()),
                **common,
            )
        )
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


RESOURCES = _parsed(_CATALOGUE)
OLDER = _parsed(_OLDER)
REVIEWS = _parsed(_REVIEWS, verbs=("create",))

_BY_KIND = {(known.group, known.version, known.kind): known for known in RESOURCES + OLDER + REVIEWS}


def resource(group: str, version: str, kind: str) -> Resource | None:
    """Return the declaration of a built-in kind; None: it is not built in. `group` is "" for the core group."""
    return _BY_KIND.get((group, version, kind))


def is_builtin(group: str, version: str, kind: str) -> bool:
    """Test whether a kind is built in. Only built-in kinds support strategic merge patches."""
    return (group, version, kind) in _BY_KIND


@cache
def components() -> Components:
    """Return the schemas of all built-in kinds and of their parts, by name, for example "io.k8s.api.core.v1.Pod"."""
    return Components({name: _described(name, node) for name, node in _data("schemas.json.gz").items()})


def schema(group: str, version: str, kind: str) -> Schema:
    """Return the schema of a built-in kind; Schema.OPEN for all others.

    Scale, Eviction, Binding, TokenRequest, DeleteOptions and Status have schemas too.
    """
    name = component_name(group, version, kind)
    return Schema.OPEN if name is None else components().schema(name)


def component_name(group: str, version: str, kind: str) -> str | None:
    """Return the name of the component with the schema of a built-in kind; None: it is not built in."""
    return _component_names().get((group, version, kind))


@cache
def messages() -> Mapping[str, Mapping[str, str]]:
    """Return the protobuf fields of every message, by number, in the notation of `protobuf`."""
    found: Mapping[str, Mapping[str, str]] = _data("protobuf.json.gz")
    return found


@cache
def _component_names() -> Mapping[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, node in components().schemas.items()
        for kind in node.get("x-kubernetes-group-version-kind", ())
    }


def _described(name: str, node: dict[str, Any]) -> dict[str, Any]:
    """Return a component with the descriptions of descriptions.json for it ("") and its fields."""
    for field, text in _descriptions().get(name, {}).items():
        described = node["properties"][field] if field else node
        described["description"] = text
    return node


@cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = _data("descriptions.json")
    return found


def _data(name: str) -> Any:
    content = resources.files("controlplane.wire").joinpath("data", name).read_bytes()
    return orjson.loads(gzip.decompress(content) if name.endswith(".gz") else content)

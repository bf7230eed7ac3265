"""The plan of an import: which objects of another control plane are written, in which order, and which are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from apps.command.errors import Document
from apps.command.source import Identity, Source
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    CREDENTIALS_ANNOTATION,
    IMPORTED_ID_ANNOTATION,
    OBSERVE_ANNOTATION,
    PROPAGATION_POLICY_ID_LABEL,
    is_reserved_namespace,
)

CLUSTER: Final = ("cluster.karmada.io/v1alpha1", "Cluster")
POLICIES: Final = tuple(
    ("policy.karmada.io/v1alpha1", kind)
    for kind in (
        *("PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy", "ClusterOverridePolicy"),
        *("ClusterTaintPolicy", "FederatedResourceQuota"),
    )
)
TAINT_POLICY: Final = ("policy.karmada.io/v1alpha1", "ClusterTaintPolicy")
INTERPRETERS: Final = tuple(
    ("config.karmada.io/v1alpha1", kind)
    for kind in ("ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration")
)
BINDINGS: Final = tuple(("work.karmada.io/v1alpha2", kind) for kind in ("ResourceBinding", "ClusterResourceBinding"))
DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
NAMESPACE: Final = ("v1", "Namespace")
PRIORITY_CLASS: Final = ("scheduling.k8s.io/v1", "PriorityClass")
TOKEN_SECRET: Final = "kubernetes.io/service-account-token"
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_JOB_LABELS: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", "batch.kubernetes.io/") for name in ("controller-uid", "job-name")
)
_TAINTS_OF_CONTROLLERS: Final = frozenset(
    f"cluster.karmada.io/{reason}" for reason in ("not-ready", "unreachable", "terminating")
)
_OWN_GROUPS: Final = (".karmada.io", ".lifeboat.io")  # definitions of the control plane itself
_KEPT: Final = ("name", "namespace", "labels", "annotations")
IDS: Final = {
    "PropagationPolicy": PROPAGATION_POLICY_ID_LABEL,
    "ClusterPropagationPolicy": CLUSTER_PROPAGATION_POLICY_ID_LABEL,
}
"""The label with the permanent id of a policy, by its kind."""
_SECRETS: Final = ("secretRef", "impersonatorSecretRef")
_DELETING: Final = "the source is deleting it"


class Item(NamedTuple):
    """An object to write. `left_out` "": it is written; otherwise the reason why it is not."""

    identity: Identity
    document: Document
    left_out: str = ""

    @property
    def kind(self) -> str:
        return self.identity[1]

    @property
    def title(self) -> str:
        """Return "Deployment shop/web"."""
        return f"{self.kind} {'/'.join(filter(None, self.identity[2:]))}"


def planned(source: Source) -> list[Item]:
    """Return the objects of a source in the order in which they are written.

    Bindings come before their templates, and before policies, because a definition that is there already would get
    another binding. So a template finds its placement, nothing is scheduled again, and bindings keep their ids.
    """
    bindings = [_binding(one) for kind in BINDINGS for one in source.listed(*kind)]
    definitions = list(_definitions(source))
    written = {item.identity for item in definitions}
    templates = dict.fromkeys(_template_of(item.document) for item in bindings)
    return _without_what_goes(
        [
            *_namespaces(source),
            *_clusters(source),
            *(_item(one) for kind in INTERPRETERS for one in source.listed(*kind)),
            *bindings,
            *(item for item in _priority_classes(source) if item.identity not in templates),
            *(_policy(one) for kind in POLICIES for one in source.listed(*kind)),
            *definitions,
            *_templates(source, [identity for identity in templates if identity not in written]),
        ]
    )


def _without_what_goes(items: Sequence[Item]) -> list[Item]:
    """Leave out what goes with an object that the source is deleting. Here nothing would delete it."""
    going = {item.identity for item in items if item.left_out == _DELETING}
    bindings = bindings_by_template(items)

    def reason(item: Item) -> str:
        if (*NAMESPACE, "", item.identity[2]) in going:
            return "the source is deleting its Namespace"
        if bindings.get(item.identity) in going:
            return "the source is deleting its binding"
        is_binding = item.identity[:2] in BINDINGS
        return "the source is deleting its template" if is_binding and _template_of(item.document) in going else ""

    return [item._replace(left_out=item.left_out or reason(item)) for item in items]


def _namespaces(source: Source) -> Iterator[Item]:
    """Yield the Namespaces of users. Each control plane has `default` and those of its own parts already."""
    for document in source.listed(*NAMESPACE):
        name: str = document["metadata"]["name"]
        if name != "default" and not name.startswith("kube-") and not is_reserved_namespace(name):
            yield _item(document)


def _definitions(source: Source) -> Iterator[Item]:
    for document in source.listed(*DEFINITION):
        if not str(document["spec"]["group"]).endswith(_OWN_GROUPS):
            yield _item(document)


def _clusters(source: Source) -> Iterator[Item]:
    """Yield each cluster after the Secrets that it names. All clusters are observed at first."""
    of_policies = {
        (taint.get("key"), taint.get("effect"))
        for policy in source.listed(*TAINT_POLICY)
        for taint in (policy.get("spec") or {}).get("taints") or ()
    }
    for document in source.listed(*CLUSTER):
        for field in _SECRETS:
            ref = document["spec"].get(field) or {}
            if ref:
                secret = _secret(source, ref["namespace"], ref["name"], of=document["metadata"]["name"])
                yield secret._replace(left_out=secret.left_out or _deleting(document))
        item = _item(document)
        metadata, spec = item.document["metadata"], item.document["spec"]
        annotations = {**metadata.get("annotations", {}), OBSERVE_ANNOTATION: "true"}
        plain = {**item.document, "metadata": {**metadata, "annotations": annotations}}
        if spec.get("taints"):
            plain["spec"] = {**spec, "taints": [one for one in spec["taints"] if _of_a_person(one, of_policies)]}
        yield item._replace(document=plain)


def _of_a_person(taint: Document, of_policies: set[tuple[Any, Any]]) -> bool:
    """Test whether a person has put a taint on a cluster of the source.

    Its controllers have put the others there, and would remove them. Here they would stay for ever, because what is
    written counts as a person's. The controllers here add their own as long as the reason is there.
    """
    key, effect = taint.get("key"), taint.get("effect")
    return key not in _TAINTS_OF_CONTROLLERS and (key, effect) not in of_policies


def _priority_classes(source: Source) -> Iterator[Item]:
    """Yield the PriorityClasses that policies name: without them the policies change no binding."""
    policies = (one for kind in POLICIES for one in source.listed(*kind))
    named = {((one.get("spec") or {}).get("schedulePriority") or {}).get("priorityClassName") for one in policies}
    for name in sorted(filter(None, named)):
        document = source.read((*PRIORITY_CLASS, "", name))
        if document is not None:
            yield _item(document)


def _policy(document: Document) -> Item:
    """Return a policy that keeps its permanent id, because the objects on members have it in a label."""
    item = _item(document)
    metadata = item.document["metadata"]
    if not (given := metadata.get("labels", {}).get(IDS.get(item.kind, ""))):
        return item
    annotations = {**metadata.get("annotations", {}), IMPORTED_ID_ANNOTATION: given}
    return item._replace(document={**item.document, "metadata": {**metadata, "annotations": annotations}})


def _secret(source: Source, namespace: str, name: str, *, of: str) -> Item:
    identity = ("v1", "Secret", namespace, name)
    document = source.read(identity)
    if document is None:
        return Item(identity, {}, "the source does not have it")
    kept: Document = {key: document[key] for key in ("apiVersion", "kind", "type", "data") if key in document}
    metadata = {"namespace": namespace, "name": name, "annotations": {CREDENTIALS_ANNOTATION: of}}
    # A token Secret belongs to a ServiceAccount of the source; its contents are what is needed.
    return Item(identity, {**kept, "type": "Opaque", "metadata": metadata})


def _binding(document: Document) -> Item:
    item = _item(document)
    spec = {**item.document["spec"], "resource": {**document["spec"]["resource"], "uid": "", "resourceVersion": ""}}
    metadata = {**item.document["metadata"], "finalizers": document["metadata"].get("finalizers") or []}
    return item._replace(document={**item.document, "metadata": metadata, "spec": spec})


def _templates(source: Source, bound: Iterable[Identity]) -> Iterator[Item]:
    for identity in bound:
        found = source.read(identity)
        yield Item(identity, {}, "the source does not have it") if found is None else _item(_written(found))


def _written(template: Document) -> Document:
    """Return a template without what its API server filled in and another one refuses, or deletes it for."""
    match _kind_of(template):
        case ("batch/v1", "Job"):
            return _job(template)
        case ("v1", "Secret") if template.get("type") == TOKEN_SECRET:
            return _token_secret(template)
    return template


def _job(template: Document) -> Document:
    """Return a Job without the selector and the labels that were generated for it."""
    spec = template.get("spec") or {}
    if spec.get("manualSelector"):
        return template
    pod = spec.get("template") or {}
    metadata = pod.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in _JOB_LABELS}
    kept = {name: value for name, value in spec.items() if name != "selector"}
    return {**template, "spec": {**kept, "template": {**pod, "metadata": {**metadata, "labels": labels}}}}


def _token_secret(template: Document) -> Document:
    """Return the Secret of a ServiceAccount without its token and the account's uid: the account has another here."""
    notes = template["metadata"].get("annotations") or {}
    kept = {name: value for name, value in notes.items() if name != _ACCOUNT_UID}
    plain = {name: value for name, value in template.items() if name != "data"}
    return {**plain, "metadata": {**template["metadata"], "annotations": kept}}


def _kind_of(document: Document) -> tuple[str, str]:
    return document.get("apiVersion", ""), document.get("kind", "")


def _item(document: Document) -> Item:
    """Return an object without what its server wrote: uid, version, owners, finalizers and status.

    Bindings keep their finalizers (`_binding`), by which their Works go with them.
    """
    metadata = {key: value for key, value in document["metadata"].items() if key in _KEPT and value is not None}
    plain = {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}
    identity = document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"]
    return Item(identity, plain, _deleting(document))


def _deleting(document: Document) -> str:
    return _DELETING if document["metadata"].get("deletionTimestamp") else ""


def removable(items: list[Item]) -> list[Item]:
    """Return what an undo removes, in its order: templates, policies, clusters.

    Namespaces, definitions, PriorityClasses and the credentials of clusters are left. Bindings go with their templates.
    What the source is deleting may have been imported before.
    """
    kept = {"Namespace", DEFINITION[1], *(kind for _, kind in BINDINGS)}
    if_bound = ("Secret", PRIORITY_CLASS[1])
    bound = {_template_of(item.document) for item in items if item.identity[:2] in BINDINGS}
    return [
        item
        for item in reversed(items)
        if item.document and item.kind not in kept and (item.kind not in if_bound or item.identity in bound)
    ]


def bindings_of(removed: list[Item], items: list[Item]) -> set[Identity]:
    """Return the bindings that go with these templates."""
    templates = {item.identity for item in removed}
    return {
        item.identity for item in items if item.identity[:2] in BINDINGS and _template_of(item.document) in templates
    }


def bindings_by_template(items: Iterable[Item]) -> dict[Identity, Identity]:
    """Return the binding of each template."""
    return {_template_of(item.document): item.identity for item in items if item.identity[:2] in BINDINGS}


def counted(items: list[Item]) -> list[tuple[str, int, int]]:
    """Return for each kind, in order, how many objects are written and how many are left out."""
    written = Counter(item.kind for item in items if not item.left_out)
    left_out = Counter(item.kind for item in items if item.left_out)
    return [(kind, written[kind], left_out[kind]) for kind in dict.fromkeys(item.kind for item in items)]


def placements(items: list[Item]) -> dict[Identity, dict[str, int]]:
    """Return the clusters of each binding that is written, with their replicas."""
    bindings = (item for item in items if item.identity[:2] in BINDINGS and not item.left_out)
    return {item.identity: targets(item.document) for item in bindings}


def expected_copies(items: list[Item]) -> set[tuple[str, str]]:
    """Return for each target of each binding whose template is imported the cluster, and the object's title there."""
    written = {item.identity for item in items if not item.left_out}
    names = {item.identity[3] for item in items if item.identity[:2] == CLUSTER}
    found = set()
    for item in items:
        if item.identity[:2] in BINDINGS:
            template = _template_of(item.document)
            if template in written:
                title = f"{template[1]} {'/'.join(filter(None, template[2:]))}"
                found |= {(cluster, title) for cluster in targets(item.document) if cluster in names}
    return found


def _template_of(binding: Document) -> Identity:
    resource = binding["spec"]["resource"]
    return resource["apiVersion"], resource["kind"], resource.get("namespace", ""), resource["name"]


def targets(binding: Document) -> dict[str, int]:
    """Return the clusters of a binding, with their replicas. {} is a binding without clusters."""
    return {one["name"]: one.get("replicas", 0) for one in binding.get("spec", {}).get("clusters") or ()}

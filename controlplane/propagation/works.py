"""Renders the Works of a binding: one object per target cluster, with the manifest that the member gets
[work-rendering]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane import interpret
from controlplane.apimachinery.meta import ObjectMeta, Ref, Struct, to_seconds
from controlplane.apimachinery.names import (
    APPLIED_CLUSTER_OVERRIDES,
    APPLIED_OVERRIDES,
    BINDING_ANNOTATION,
    CLUSTER_RESOURCE_BINDING_ID_LABEL,
    CONFLICT_RESOLUTION_ANNOTATION,
    DRIFT_ANNOTATION,
    IMPERSONATOR,
    MANAGED_ANNOTATIONS_ANNOTATION,
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    MANAGED_LABELS_ANNOTATION,
    RESOURCE_BINDING_ID_LABEL,
    TEMPLATE_GENERATION_ANNOTATION,
    TEMPLATE_UID_ANNOTATION,
    WORK_FINALIZER,
    WORK_ID_LABEL,
    WORK_NAME_ANNOTATION,
    WORK_NAMESPACE_ANNOTATION,
    execution_namespace,
    work_name,
)
from controlplane.apimachinery.uids import child_uid
from controlplane.authorization.policy import GROUP as RBAC
from controlplane.authorization.proxied import Subjects, impersonation_rules
from controlplane.interpret import prune
from controlplane.interpret.known_rules import UNREADABLE
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work, Workload, WorkSpec
from controlplane.propagation.overrides import Overridden

API_VERSION, KIND = "work.karmada.io/v1alpha1", "Work"
ABORT, OVERWRITE = "abort", "overwrite"
IMPERSONATOR_KINDS = ("ClusterRole", "ClusterRoleBinding")
_OF_SOME_WORKS = (APPLIED_OVERRIDES, APPLIED_CLUSTER_OVERRIDES, DRIFT_ANNOTATION)

Document = dict[str, Any]


Override = Callable[[str, Document], Overridden]
"""A function that applies override policies: (cluster name, manifest) → result. It may raise OverrideFailed."""


class Rendering(Struct, frozen=True):
    """The part of the Works of a binding that is the same for all clusters, computed once.

    `own_labels` and `own_annotations` are those that this control plane adds to each manifest. `labels` and
    `annotations` are all those of a copy that no override policy changes. `revise` is None if no copy gets a number of
    replicas of its own, as of a workload with components.
    """

    binding: Binding
    name: str
    manifest: Document  # of the template, pruned
    metadata: ObjectMeta  # of the template
    own_labels: dict[str, str]
    own_annotations: dict[str, str]
    labels: dict[str, str]
    annotations: dict[str, str]
    work_labels: dict[str, str]
    work_annotations: dict[str, str]
    revise: Callable[[Document, int], Document] | None


def targets(binding: Binding) -> Iterator[TargetCluster]:
    """Yield the clusters that get a copy: the targets of the binding, then the clusters of the bindings that need it.

    There a binding has the replicas of the binding that needs it, but its own if that has none, and if it is an
    attached binding, which has no placement.
    """
    seen = set()
    for target in binding.spec.clusters:
        seen.add(target.name)
        yield target
    is_attached = binding.spec.placement is None
    for parent in binding.spec.required_by:
        for target in parent.clusters:
            if target.name not in seen:
                seen.add(target.name)
                own = is_attached or not target.replicas
                yield TargetCluster(target.name, binding.spec.replicas) if own else target


def rendering(binding: Binding, template: Template) -> Rendering:
    """Return the common part of the Works of a binding."""
    name = work_name(template.kind, template.metadata.name, template.metadata.namespace)
    knows = interpret.interpreter_for(template.api_version, template.kind)
    manifest, place = _pruned(template, knows)
    link_labels, link_annotations = _links(binding)
    annotations = {
        **link_annotations,
        TEMPLATE_GENERATION_ANNOTATION: str(place.generation),
        TEMPLATE_UID_ANNOTATION: place.uid,
        WORK_NAME_ANNOTATION: name,
    }
    own_labels = {**link_labels, MANAGED_LABEL: MANAGED_LABEL_VALUE}
    conflict = {CONFLICT_RESOLUTION_ANNOTATION: conflict_resolution(binding, place.annotations)}
    drift = place.annotations.get(DRIFT_ANNOTATION) or binding.metadata.annotations.get(DRIFT_ANNOTATION)
    return Rendering(
        binding=binding,
        name=name,
        manifest=manifest,
        metadata=place,
        own_labels=own_labels,
        own_annotations=annotations,
        labels={**place.labels, **own_labels},
        annotations={**place.annotations, **annotations, **conflict},
        work_labels=link_labels,
        work_annotations={**link_annotations, BINDING_ANNOTATION: str(binding.ref), **conflict}
        | ({DRIFT_ANNOTATION: drift} if drift else {}),
        revise=knows.revise if binding.workload and not binding.spec.components else None,
    )


def render(
    common: Rendering,
    target: TargetCluster,
    *,
    completions: int | None = None,
    override: Override | None = None,
    now: datetime,
) -> Work:
    """Return the Work for one target.

    `completions`: its share of the completions of a Job; None: they are not divided. `override`: applies override
    policies to the manifest; None: there are none. The labels and annotations that this control plane needs are set
    after that. Raises what `override` raises.
    """
    binding, namespace = common.binding, execution_namespace(target.name)
    manifest = common.manifest
    if common.revise is not None:
        manifest = common.revise(manifest, target.replicas)
    if completions is not None:
        manifest = {**manifest, "spec": {**manifest.get("spec", {}), "completions": completions}}
    labels, annotations, work_annotations = common.labels, common.annotations, common.work_annotations
    if override is not None:
        manifest, labels, annotations, work_annotations = _overridden(common, target.name, manifest, override)
    if preserved := preserved_labels(binding, target.name):
        labels = {**labels, **preserved}
    annotations = _recorded(annotations, labels, namespace)
    metadata = {**manifest["metadata"], "labels": labels, "annotations": annotations}
    return Work(
        api_version=API_VERSION,
        kind=KIND,
        metadata=ObjectMeta(
            name=common.name,
            namespace=namespace,
            uid=child_uid(binding.metadata.uid, "work", target.name),
            generation=1,
            creation_timestamp=to_seconds(now),
            labels=common.work_labels,
            annotations=work_annotations,
            finalizers=(WORK_FINALIZER,),
        ),
        spec=WorkSpec(
            workload=Workload((({**manifest, "metadata": metadata}),)),
            suspend_dispatching=binding.spec.dispatching_suspended(target.name),
            preserve_resources_on_deletion=binding.spec.preserve_resources_on_deletion is True,
        ),
    )


def namespace_work(namespace: Template, cluster: str, *, override: Override | None = None, now: datetime) -> Work:
    """Return the Work that creates a Namespace on a cluster. It belongs to the Namespace, not to a binding.

    `override` as in `render`; only its labels and annotations count.
    """
    place, work_namespace = namespace.metadata, execution_namespace(cluster)
    name = work_name(namespace.kind, place.name)
    labels, annotations, applied = place.labels, place.annotations, dict[str, str]()
    if override is not None:
        head = {"apiVersion": namespace.api_version, "kind": namespace.kind}
        metadata = {"name": place.name, "labels": labels, "annotations": annotations}
        result = override(cluster, {**head, "metadata": metadata})
        applied = result.annotations
        labels, annotations = (result.manifest["metadata"].get(key) or {} for key in ("labels", "annotations"))
    labels = {**labels, MANAGED_LABEL: MANAGED_LABEL_VALUE}
    annotations = {
        **annotations,
        TEMPLATE_GENERATION_ANNOTATION: str(place.generation),
        TEMPLATE_UID_ANNOTATION: place.uid,
        CONFLICT_RESOLUTION_ANNOTATION: ABORT,
        WORK_NAME_ANNOTATION: name,
    }
    manifest = {
        "apiVersion": namespace.api_version,
        "kind": namespace.kind,
        "metadata": {
            "name": place.name,
            "labels": labels,
            "annotations": _recorded(annotations, labels, work_namespace),
        },
    }
    return Work(
        api_version=API_VERSION,
        kind=KIND,
        metadata=ObjectMeta(
            name=name,
            namespace=work_namespace,
            uid=child_uid(place.uid, "work", cluster),
            generation=1,
            creation_timestamp=to_seconds(now),
            annotations={BINDING_ANNOTATION: str(namespace.ref), CONFLICT_RESOLUTION_ANNOTATION: ABORT, **applied},
            finalizers=(WORK_FINALIZER,),
        ),
        spec=WorkSpec(workload=Workload((manifest,))),
    )


def impersonator_works(cluster: Cluster, subjects: Subjects, *, now: datetime) -> Iterator[Work]:
    """Yield the Works with ClusterRole and ClusterRoleBinding of the impersonator of a cluster [proxy-rights].

    They belong to the Cluster, which has to name the Secret of its impersonator.
    """
    reference = cluster.spec.impersonator_secret_ref
    assert reference is not None, "only a cluster with an impersonator has these Works"
    account = {"kind": "ServiceAccount", "namespace": reference.namespace, "name": IMPERSONATOR}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": IMPERSONATOR}
    contents: dict[str, Document] = {
        "ClusterRole": {"rules": impersonation_rules(subjects)},
        "ClusterRoleBinding": {"roleRef": role, "subjects": [account]},
    }
    space = execution_namespace(cluster.metadata.name)
    for kind in IMPERSONATOR_KINDS:
        name = work_name(kind, IMPERSONATOR)
        labels = {MANAGED_LABEL: MANAGED_LABEL_VALUE}
        notes = {CONFLICT_RESOLUTION_ANNOTATION: OVERWRITE, WORK_NAME_ANNOTATION: name}
        metadata = {"name": IMPERSONATOR, "labels": labels, "annotations": _recorded(notes, labels, space)}
        manifest = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **contents[kind]}
        yield Work(
            api_version=API_VERSION,
            kind=KIND,
            metadata=ObjectMeta(
                name=name,
                namespace=space,
                uid=child_uid(cluster.metadata.uid, "impersonator", kind),
                generation=1,
                creation_timestamp=to_seconds(now),
                annotations={BINDING_ANNOTATION: str(cluster.ref), CONFLICT_RESOLUTION_ANNOTATION: OVERWRITE},
                finalizers=(WORK_FINALIZER,),
            ),
            spec=WorkSpec(workload=Workload((manifest,))),
        )


def managed_metadata(name: str, namespace: str, *, work: str, execution_space: str) -> Document:
    """Return the metadata of an object that is made here without a template. `work`: the name of its Work."""
    labels = {MANAGED_LABEL: MANAGED_LABEL_VALUE}
    notes = {CONFLICT_RESOLUTION_ANNOTATION: ABORT, WORK_NAME_ANNOTATION: work}
    recorded = _recorded(notes, labels, execution_space)
    return {"name": name, "namespace": namespace, "labels": labels, "annotations": recorded}


def authored(work: Work) -> Work:
    """Return a user's Work in the form of a rendered Work: its manifests pruned and labelled with the id of the
    Work."""
    mark = {WORK_ID_LABEL: work.metadata.labels.get(WORK_ID_LABEL, work.metadata.uid)}
    manifests = tuple(_marked(manifest, mark) for manifest in work.spec.workload.manifests)
    return replace(work, spec=replace(work.spec, workload=Workload(manifests)))


def _marked(manifest: Document, mark: dict[str, str]) -> Document:
    pruned = prune.without_own_metadata(manifest)
    rule = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).prune
    pruned = pruned if rule is None else rule(pruned)
    metadata = pruned.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **mark}
    annotations = _listed(metadata.get("annotations") or {}, labels)
    return {**pruned, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def sent(work: Work) -> Document:
    """Return the manifest of a Work with the label and annotations by which its object on the member is recognised.

    Rendered manifests have them. A user's Work may lack them; its object could be neither updated, watched nor removed.
    """
    manifest = work.manifest
    metadata = manifest.get("metadata") or {}
    marks = {
        "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE},
        "annotations": {WORK_NAME_ANNOTATION: work.metadata.name, WORK_NAMESPACE_ANNOTATION: work.metadata.namespace},
    }
    marked = {part: {**(metadata.get(part) or {}), **ours} for part, ours in marks.items()}
    if all(metadata.get(part) == whole for part, whole in marked.items()):
        return manifest
    return {**manifest, "metadata": {**metadata, **marked}}


def owner(work: Work, kinds: Sequence[str]) -> Iterator[Ref]:
    """Yield the object that a Work was rendered for, if it is of one of these kinds. A user's Work has none."""
    made_for = work.made_for
    if made_for is not None and made_for.kind in kinds:
        yield made_for


def is_copy_of(work: Work, kind: str, name: str, namespace: str = "") -> bool:
    """Test whether a Work has the name of the copies of an object.

    All copies of an object have this name, and a Work cannot be renamed. Labels and annotations alone are no proof,
    because other clients may have written them.
    """
    return work.metadata.name == work_name(kind, name, namespace)


def is_of(work: Work, binding: Binding) -> bool:
    """Test whether a Work is a copy of the template of a binding, by the name of the Work alone."""
    resource = binding.spec.resource
    return is_copy_of(work, resource.kind, resource.name, resource.namespace)


def updated(stored: Work, wanted: Work) -> Work:
    """Return a stored Work with the content of the wanted Work. If nothing changes, the same object is returned.

    Labels and annotations of others stay. An annotation that only some Works have is removed if it is not wanted.
    """
    metadata = stored.metadata
    labels = {**metadata.labels, **wanted.metadata.labels}
    annotations = {
        key: value for key, value in metadata.annotations.items() if key not in _OF_SOME_WORKS
    } | wanted.metadata.annotations
    return stored.with_spec(
        workload=wanted.spec.workload,
        suspend_dispatching=wanted.spec.suspend_dispatching,
        preserve_resources_on_deletion=wanted.spec.preserve_resources_on_deletion,
    ).with_meta(labels=labels, annotations=annotations)


def is_divided(binding: Binding) -> bool:
    """Test whether a binding is of a workload whose replicas are divided among its clusters."""
    placement = binding.spec.placement
    return placement is not None and placement.divided and binding.workload


def requested_replicas(work: Work) -> int | None:
    """Return how many replicas a Work requests. None: its kind has none, or they cannot be read.

    An override policy or an edit of the Work may have put any value there, also "inf". Its member refuses such an
    object. Raises Unanswered.
    """
    manifest = work.manifest
    count = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).replicas
    try:
        return None if count is None else count(manifest).replicas
    except UNREADABLE:
        return None


def conflict_resolution(binding: Binding, annotations: Mapping[str, str]) -> str:
    """Return what happens if the member already has such an object: ABORT or OVERWRITE.

    A valid annotation of the object, from its template or from an override policy, takes precedence over the policy.
    """
    annotation = annotations.get(CONFLICT_RESOLUTION_ANNOTATION)
    if annotation in (ABORT, OVERWRITE):
        return annotation
    return OVERWRITE if binding.spec.conflict_resolution == "Overwrite" else ABORT


def preserved_labels(binding: Binding, cluster: str) -> Mapping[str, str]:
    """Return the labels that transfer preserved state to a new copy [state-preservation] [state-injection].

    Only the newest graceful eviction task counts. Its purge mode must be Directly, and the binding must have one
    target.
    {}: otherwise, and on a cluster that ran a copy before the failover.
    """
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks or len(binding.spec.clusters) != 1:
        return {}
    last = tasks[-1]
    if last.purge_mode != DIRECTLY or cluster in last.clusters_before_failover or cluster == last.from_cluster:
        return {}
    return last.preserved_label_state


def _pruned(template: Template, knows: interpret.Interpreter) -> tuple[Document, ObjectMeta]:
    """Return the manifest of a template for members, and its metadata with those labels and annotations that members
    get."""
    place = template.metadata
    metadata = {
        "name": place.name,
        **({"namespace": place.namespace} if place.namespace else {}),
        "labels": place.labels,
        "annotations": place.annotations,
    }
    doc = {"apiVersion": template.api_version, "kind": template.kind, "metadata": metadata, **template.content}
    if knows.prune is None:
        return doc, place
    pruned = knows.prune(doc)
    kept = pruned["metadata"]
    return pruned, replace(place, labels=kept["labels"], annotations=kept["annotations"])


def _links(binding: Binding) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations by which Works and member objects refer to their binding."""
    metadata = binding.metadata
    label = RESOURCE_BINDING_ID_LABEL if metadata.namespace else CLUSTER_RESOURCE_BINDING_ID_LABEL
    labels = {label: metadata.labels[label]} if label in metadata.labels else {label: metadata.uid}
    if metadata.namespace:
        return labels, {
            "resourcebinding.karmada.io/namespace": metadata.namespace,
            "resourcebinding.karmada.io/name": metadata.name,
        }
    return labels, {"clusterresourcebinding.karmada.io/name": metadata.name}


def _overridden(
    common: Rendering, cluster: str, manifest: Document, override: Override
) -> tuple[Document, dict[str, str], dict[str, str], dict[str, str]]:
    """Return the manifest, its labels and annotations, and the annotations of the Work after override policies.

    Override policies cannot change the labels and annotations that this control plane needs.
    """
    metadata = {
        **manifest["metadata"],
        "labels": common.metadata.labels,
        "annotations": common.metadata.annotations,
    }
    result = override(cluster, {**manifest, "metadata": metadata})
    labels, annotations = (result.manifest["metadata"].get(key) or {} for key in ("labels", "annotations"))
    conflict = {CONFLICT_RESOLUTION_ANNOTATION: conflict_resolution(common.binding, annotations)}
    return (
        result.manifest,
        {**labels, **common.own_labels},
        {**annotations, **common.own_annotations, **conflict},
        {**common.work_annotations, **conflict, **result.annotations},
    )


def _recorded(annotations: Mapping[str, str], labels: Mapping[str, str], namespace: str) -> dict[str, str]:
    """Return the annotations of a manifest, with the namespace of its Work."""
    return _listed({**annotations, WORK_NAMESPACE_ANNOTATION: namespace}, labels)


def _listed(annotations: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """Return annotations with the lists of managed labels and annotations, which may be removed again later."""
    out = {**annotations, MANAGED_ANNOTATIONS_ANNOTATION: "", MANAGED_LABELS_ANNOTATION: ",".join(sorted(labels))}
    out[MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(sorted(out))
    return out

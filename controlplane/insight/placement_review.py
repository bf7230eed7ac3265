"""Answers PlacementReviews: decodes the documents of a review and predicts what the scheduler would decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.causes import forbidden, invalid, mistyped, required
from controlplane.apimachinery.errors import BadRequest, Cause, Invalid
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.quantities import QuantityError, parse
from controlplane.apimachinery.uids import child_uid
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER, CLUSTER_RESOURCE_BINDING, POLICIES, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster, ClusterStatus
from controlplane.kinds.placement_review import KIND, PlacementReview, PlacementReviewSpec, PlacementReviewStatus
from controlplane.kinds.policy import Policy, PropagationSpec, placement_rules
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.scheduling.dry_run import NO_OTHER_BINDINGS, Around
from controlplane.scheduling.dry_run import review as rehearse
from controlplane.settings import Settings
from controlplane.wire.patch import merge_patch
from controlplane.wire.request import metadata_of

Document = dict[str, Any]
_UNNAMED = "review"


def decode_review(document: Document, *, settings: Settings, now: datetime) -> PlacementReview:
    """Return the PlacementReview in a document. Raises BadRequest, or Invalid with all causes."""
    metadata = metadata_of(document)
    metadata.setdefault("name", _UNNAMED)  # a review needs no name
    content = {**document, "metadata": metadata}
    content.pop("status", None)
    review = admit_create(KIND, content, namespace="", settings=settings, now=now, uid="").object
    assert isinstance(review, PlacementReview), "admission returns objects of the given kind"
    causes = _causes(review.spec)
    if causes:
        raise _invalid(review, causes)
    return review


def reviewed_binding(review: PlacementReview) -> Ref | None:
    """Return the existing binding that a review starts from; None: it starts from a manifest."""
    namespace, slash, name = review.spec.binding.partition("/")
    if not review.spec.binding:
        return None
    return Ref(RESOURCE_BINDING, namespace, name) if slash else Ref(CLUSTER_RESOURCE_BINDING, "", namespace)


def answer_review(
    review: PlacementReview,
    clusters: Sequence[Cluster],
    *,
    binding: Binding | None = None,
    reserved_capacity: Sequence[tuple[str, str, int]] = (),
    around: Callable[[Binding], Around] = lambda subject: NO_OTHER_BINDINGS,
    reported_at: Mapping[str, datetime] = {},
    settings: Settings,
    now: datetime,
) -> PlacementReviewStatus:
    """Return the status of a review: what the scheduler would decide. Nothing is written.

    `clusters` and `reserved_capacity`: as they are now. `binding`: the binding that the review names. `around` reads
    what surrounds the reviewed binding. Raises Invalid with the causes if the documents are invalid.
    """
    spec = review.spec
    supposed, causes = _supposed_clusters(spec, clusters, settings=settings, now=now)
    try:
        subject = _subject_binding(spec, binding, settings=settings, now=now)
    except _InvalidReview as wrong:
        causes += wrong.causes
    except (
        ValueError,
        TypeError,
        AttributeError,
    ) as error:  # of the interpreter
        causes.append(invalid("spec.manifest", _subject_name(spec), str(error)))
    else:
        if subject.spec.replicas < 0:
            causes.append(invalid("spec.manifest.spec.replicas", subject.spec.replicas, "must be 0 or more"))
    if causes:
        raise _invalid(review, causes)
    try:
        return rehearse(
            subject,
            supposed,
            reserved_capacity=reserved_capacity,
            around=around(subject),
            lost=spec.clusters.lost,
            reported_at=reported_at,
            settings=settings,
            now=now,
        )
    except ValueError as error:
        raise _invalid(review, [invalid("spec.manifest", _subject_name(spec), str(error))]) from None


def _subject_name(spec: PlacementReviewSpec) -> str:
    """Return a short name of the reviewed object for error messages, because a whole manifest would hide the reason."""
    manifest = spec.manifest or {}
    metadata = manifest.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{manifest['kind']} {name}".rstrip() if "kind" in manifest else spec.binding


class _InvalidReview(Exception):
    """A document in the review is invalid."""

    def __init__(self, causes: list[Cause]) -> None:
        super().__init__(str(causes))
        self.causes = causes


def _invalid(review: PlacementReview, causes: list[Cause]) -> Invalid:
    return Invalid.of(KIND.resource.kind, review.metadata.name, causes, group=KIND.resource.group)


def _causes(spec: PlacementReviewSpec) -> list[Cause]:
    causes = []
    if spec.manifest is None and not spec.binding:
        causes.append(required("spec.manifest", "set the object to be placed, or name an existing binding"))
    if spec.policy is not None and spec.placement is not None:
        causes.append(forbidden("spec.placement", "may not be used together with policy, which has its own placement"))
    if spec.policy is None and spec.placement is None and not spec.binding:
        causes.append(required("spec.placement", "set a placement or a policy"))
    return causes


# What is placed


def _subject_binding(
    spec: PlacementReviewSpec, binding: Binding | None, *, settings: Settings, now: datetime
) -> Binding:
    """Return the binding to be scheduled. Raises _InvalidReview."""
    policy = _policy(spec, settings=settings, now=now)
    if spec.manifest is None:
        assert binding is not None, "a review without a manifest names a binding"
        if policy is None:
            return binding
        placement = placement_rules.effective(policy.spec.placement)
        return replace(binding, spec=replace(binding.spec, placement=placement, failover=policy.spec.failover))
    template = _template(spec.manifest, settings=settings, now=now)
    _same_namespace(spec, template)
    if binding is not None:
        _same_object(spec, template, binding)
    if binding is not None and binding.spec.resource.uid:
        template = template.with_meta(uid=binding.spec.resource.uid)  # the uid breaks ties between clusters
    if policy is None:
        assert binding is not None, "a review without policy and placement names a binding"
        own = binding.spec
        replicas, requirements = bindings.demand(template)
        return replace(binding, spec=replace(own, replicas=replicas, replica_requirements=requirements))
    if binding is not None:
        return bindings.refresh(binding, template, policy, gates=settings.feature_gates)
    return bindings.create(template, policy, gates=settings.feature_gates, now=now)


def _policy(spec: PlacementReviewSpec, *, settings: Settings, now: datetime) -> Policy | None:
    if spec.policy is not None:
        key = kind_key(str(spec.policy.get("apiVersion", "")), str(spec.policy.get("kind", "")))
        if key not in POLICIES:
            rule = "must be a PropagationPolicy or ClusterPropagationPolicy of policy.karmada.io/v1alpha1"
            raise _InvalidReview([invalid("spec.policy.kind", spec.policy.get("kind"), rule)])
        policy: Policy = _admit(key, spec.policy, "spec.policy", settings=settings, now=now)
        return policy
    if spec.placement is None:
        return None
    policy_spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": spec.placement}
    document = {"metadata": {"name": _UNNAMED}, "spec": msgspec.to_builtins(policy_spec)}
    try:
        found: Policy = _admit(POLICIES[1], document, "", settings=settings, now=now)
    except _InvalidReview as wrong:
        raise _InvalidReview([replace(cause, field=cause.field.lstrip(".")) for cause in wrong.causes]) from None
    return replace(found, spec=PropagationSpec(placement=found.spec.placement))


def _same_namespace(spec: PlacementReviewSpec, template: Template) -> None:
    """Raise _InvalidReview if the PropagationPolicy is in another namespace than the manifest."""
    metadata = (spec.policy or {}).get("metadata")
    namespace = metadata.get("namespace", "") if isinstance(metadata, dict) else ""
    where = template.metadata.namespace
    if namespace and where and namespace != where and str((spec.policy or {}).get("kind")) == "PropagationPolicy":
        rule = f"a PropagationPolicy places only objects of its own namespace, and the manifest is in {where}"
        raise _InvalidReview([invalid("spec.policy.metadata.namespace", namespace, rule)])


def _same_object(spec: PlacementReviewSpec, template: Template, binding: Binding) -> None:
    """Raise _InvalidReview if the manifest describes another object than the binding."""
    resource, metadata = binding.spec.resource, template.metadata
    reviewed = (resource.api_version, resource.kind, resource.name, resource.namespace)
    if (template.api_version, template.kind, metadata.name, metadata.namespace or resource.namespace) != reviewed:
        where = f"{resource.namespace}/{resource.name}" if resource.namespace else resource.name
        rule = f"the binding is of {resource.kind} {where} ({resource.api_version}); omit spec.binding for a new object"
        raise _InvalidReview([invalid("spec.manifest", _subject_name(spec), rule)])


def _template(manifest: Document, *, settings: Settings, now: datetime) -> Template:
    """Return the template of a manifest, with the defaults of its kind."""
    for field in ("apiVersion", "kind"):
        value = manifest.get(field)
        if not value:
            raise _InvalidReview([required(f"spec.manifest.{field}")])
        if not isinstance(value, str):
            raise _InvalidReview([invalid(f"spec.manifest.{field}", value, "must be of type string")])
    key = kind_key(str(manifest["apiVersion"]), str(manifest["kind"]))
    if key in KINDS:
        found = _admit(key, manifest, "spec.manifest", settings=settings, now=now)
        if not isinstance(found, Template):
            raise _InvalidReview(
                [invalid("spec.manifest.kind", manifest["kind"], "is a kind of Lifeboat, which is never placed")]
            )
        return found
    try:
        template = Template.fold(manifest)
    except msgspec.ValidationError as error:
        raise _InvalidReview([invalid("spec.manifest.metadata", manifest.get("metadata"), str(error))]) from None
    return template.with_meta(uid=child_uid(_UNNAMED, "template", template.metadata.name))


# Where it is placed


def _supposed_clusters(
    spec: PlacementReviewSpec, clusters: Sequence[Cluster], *, settings: Settings, now: datetime
) -> tuple[list[Cluster], list[Cause]]:
    """Return the clusters as the review supposes them, and the causes if its documents are invalid."""
    by_name = {cluster.metadata.name: cluster for cluster in clusters}
    causes: list[Cause] = []
    for index, name in enumerate(spec.clusters.lost):
        if name not in by_name:
            causes.append(invalid(f"spec.clusters.lost[{index}]", name, "there is no such cluster"))
    for field, documents in (("added", spec.clusters.added), ("changed", spec.clusters.changed)):
        for index, document in enumerate(documents):
            path = f"spec.clusters.{field}[{index}]"
            try:
                cluster = _cluster(document, by_name, path, new=field == "added", settings=settings, now=now)
            except _InvalidReview as wrong:
                causes += wrong.causes
                continue
            by_name[cluster.metadata.name] = cluster
    return list(by_name.values()), causes


def _cluster(
    document: Document, clusters: Mapping[str, Cluster], path: str, *, new: bool, settings: Settings, now: datetime
) -> Cluster:
    metadata = document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    if not isinstance(name, str):
        raise _InvalidReview([mistyped(f"{path}.metadata.name", name, "must be of type string")])
    if new and name in clusters:
        raise _InvalidReview([invalid(f"{path}.metadata.name", name, "exists already; put it under changed")])
    if not new:
        if name not in clusters:
            raise _InvalidReview(
                [invalid(f"{path}.metadata.name", name, "there is no such cluster; put it under added")]
            )
        document = merge_patch(msgspec.to_builtins(clusters[name]), document)
    cluster: Cluster = _admit(CLUSTER, document, path, settings=settings, now=now)
    try:
        status = msgspec.convert(document.get("status") or {}, ClusterStatus)
    except msgspec.ValidationError as error:
        raise _InvalidReview([invalid(f"{path}.status", document.get("status"), str(error))]) from None
    if status.resource_summary is not None:
        amounts = msgspec.to_builtins(status.resource_summary)
        for part in ("allocatable", "allocated", "allocating"):
            for name, text in amounts.get(part, {}).items():
                try:
                    parse(text)
                except QuantityError as error:
                    where = f"{path}.status.resourceSummary.{part}[{name}]"
                    raise _InvalidReview([invalid(where, text, str(error))]) from None
    return replace(cluster, status=status)


def _admit(key: str, document: Document, path: str, *, settings: Settings, now: datetime) -> Any:
    """Return the object of a document as the API would store it. Raises _InvalidReview with causes under `path`."""
    kind = KINDS[key]
    metadata = document.get("metadata")
    named = dict(metadata) if isinstance(metadata, dict) else {}
    named.setdefault("name", _UNNAMED)
    if kind.resource.namespaced:
        named.setdefault("namespace", "default")
    uid = child_uid(_UNNAMED, key, str(named["name"]))
    try:
        return admit_create(
            kind,
            {**document, "metadata": named},
            namespace=str(named.get("namespace", "")),
            settings=settings,
            now=now,
            uid=uid,
        ).object
    except Invalid as error:
        raise _InvalidReview(
            [replace(cause, field=f"{path}.{cause.field}") for cause in error.details.causes]
        ) from None
    except BadRequest as error:
        raise _InvalidReview([invalid(path or "spec", named.get("name"), str(error))]) from None

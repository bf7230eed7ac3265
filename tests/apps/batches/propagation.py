"""Cases of the controllers between a workload and the Works made of it, and back to its status."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, OwnerReference, Ref
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_FINALIZER,
    NAMESPACE_CONTENT_FINALIZER,
    RETAIN_REPLICAS_LABEL,
)
from controlplane.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from controlplane.authentication.bootstrap_tokens import TYPE as TOKEN_TYPE
from controlplane.authorization.registration_roles import BOOTSTRAP_GROUP, documents
from controlplane.controllers.bootstrap_tokens import CLUSTER_INFO
from controlplane.controllers.definitions import GROUP
from controlplane.controllers.federated_quotas import USED
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.override_policies import SELECTION, TARGET
from controlplane.controllers.works import BACK
from controlplane.eviction.leftovers import as_leftover
from controlplane.interpret.interpreter import Dependency
from controlplane.kinds import CLUSTER, INTERPRETER_CUSTOMIZATION
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.override_policy import (
    LabelAnnotationOverrider,
    OverridePolicy,
    Overriders,
    OverrideRule,
    OverrideSpec,
)
from controlplane.kinds.override_policy.registration import ALL_OBJECTS
from controlplane.kinds.policy import (
    DIVIDED,
    ClusterAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    ResourceSelector,
)
from controlplane.kinds.template import Template
from controlplane.kinds.template.signing_request import CLIENT_SIGNER
from controlplane.kinds.template.signing_request import KEY as SIGNING_REQUEST
from controlplane.propagation.attached_bindings import annotated
from controlplane.propagation.bindings import template_ref
from controlplane.propagation.matching import CLAIM_LABELS
from controlplane.wire.definition import CLEANUP_FINALIZER
from tests.apps.batches.fleet import to_placed
from tests.apps.batches.stored import (
    ALL,
    AT_ONCE,
    Case,
    bound,
    clusters,
    deployment,
    federated_quota,
    many,
    plain,
    policy,
    refs,
    work_of,
)
from tests.builders import templates
from tests.builders.certificates import request_for
from tests.builders.objects import START
from tests.builders.templates import deployment as built
from tests.core.test_scaled_replicas import autoscaler


def policies(size: int) -> Case:
    """New templates, whose bindings are placed and get their Works in the same batch."""
    found = [deployment(name) for name in many(size)]
    return Case([policy(), *clusters("spare"), *found], refs(found), 3 * size)


def cluster_roles(size: int) -> Case:
    found = [aggregated(name) for name in many(size)]
    return Case([part_of_roles(), *found], [FLEET], size)


def token_secrets(size: int) -> Case:
    found = [token_secret(name) for name in many(size)]
    return Case([service_account(), *found], refs(found), 2 * size)


def bootstrap_tokens(size: int) -> Case:
    return Case([expired_token(name) for name in many(size)], [CLUSTER_INFO], size)


def expired_token(name: str) -> Template:
    """A bootstrap token of 2020. Its id has six characters."""
    token_id = f"id{name}"
    values = {"token-id": token_id, "token-secret": "0123456789abcdef", "expiration": "2020-01-01T00:00:00Z"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    metadata = ObjectMeta(
        name=f"bootstrap-token-{token_id}", namespace="kube-system", uid=f"uid-{token_id}", creation_timestamp=START
    )
    return Template("v1", "Secret", metadata, {"type": TOKEN_TYPE, "data": data})


def signing_requests(size: int) -> Case:
    """Requests of new agents, which roles allow to approve."""
    made = [registration(document) for document in documents()]
    return Case([*made, *(agents_request(name) for name in many(size))], requests(size), size)


def registration(document: dict[str, Any]) -> Template:
    metadata = ObjectMeta(
        name=document["metadata"]["name"],
        namespace=document["metadata"].get("namespace", ""),
        uid=f"uid-{document['kind']}-{document['metadata']['name']}",
        creation_timestamp=START,
    )
    content = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    return Template(document["apiVersion"], document["kind"], metadata, content)


def agents_request(name: str) -> Template:
    groups = ["system:bootstrappers", BOOTSTRAP_GROUP]
    spec = {
        **{"request": AGENTS_REQUEST, "signerName": CLIENT_SIGNER, "usages": ["client auth", "digital signature"]},
        **{"username": "system:bootstrap:abcdef", "groups": groups},
    }
    metadata = ObjectMeta(name=name, uid=f"uid-csr-{name}", generation=1, creation_timestamp=datetime.now(UTC))
    return Template("certificates.k8s.io/v1", "CertificateSigningRequest", metadata, {"spec": spec})


def requests(size: int) -> list[Ref]:
    return [Ref(SIGNING_REQUEST, "", name) for name in many(size)]


def to_signing_requests(size: int) -> Case:
    return Case([agents_request(name) for name in many(size)], [FLEET], size)


AGENTS_REQUEST = request_for("system:karmada:agent:member9", "system:karmada:agents")


def to_token_secrets(size: int) -> Case:
    account = service_account()
    return Case([account, *(token_secret(name) for name in many(size))], [account.ref], size)


def service_account() -> Template:
    metadata = ObjectMeta(name="ci", namespace="default", uid="uid-ci", creation_timestamp=START)
    return Template("v1", "ServiceAccount", metadata)


def token_secret(name: str) -> Template:
    """A Secret that waits for its token."""
    annotations = {"kubernetes.io/service-account.name": "ci"}
    metadata = ObjectMeta(
        name=name, namespace="default", uid=f"uid-secret-{name}", creation_timestamp=START, annotations=annotations
    )
    return Template("v1", "Secret", metadata, {"type": "kubernetes.io/service-account-token"})


def part_of_roles() -> Template:
    """A ClusterRole that the aggregated ones select."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return cluster_role("zz", {"rules": rules}).with_meta(labels={"part": "yes"})


def finished_jobs(size: int) -> Case:
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    found = []
    for name in many(size):
        metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-job-{name}", generation=1)
        job = Template("batch/v1", "Job", metadata, {"spec": {"ttlSecondsAfterFinished": 0}})
        found.append(replace(job, status={"conditions": [ended]}))
    return Case(found, refs(found), size)


def aggregated(name: str) -> Template:
    return cluster_role(name, {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}})


def cluster_role(name: str, content: dict[str, Any]) -> Template:
    metadata = ObjectMeta(name=name, uid=f"uid-role-{name}", generation=1, creation_timestamp=START)
    return Template("rbac.authorization.k8s.io/v1", "ClusterRole", metadata, content)


def policy_release(size: int) -> Case:
    leaving = {"deletion_timestamp": START, "finalizers": (CLUSTER_PROPAGATION_POLICY_FINALIZER,)}
    found = [policy(name, **leaving) for name in many(size)]
    return Case(found, refs(found), size)


def needing(name: str) -> Template:
    """A Deployment whose environment comes from a ConfigMap of its own."""
    one = deployment(name)
    pod = {"containers": [{"name": "main", "image": "main", "envFrom": [{"configMapRef": {"name": name}}]}]}
    return one.with_content({**one.content, "spec": {**one.spec, "template": {"spec": pod}}}).with_meta(generation=1)


def dependencies(size: int) -> Case:
    found = [one.with_spec(propagate_deps=True) for one in bound(size, spare=2)]
    needed = [plain("ConfigMap", name, "default") for name in many(size)]
    return Case([*found, *(needing(name) for name in many(size)), *needed], refs(found), 2 * size)


def to_needing(size: int) -> Case:
    shared = plain("ConfigMap", "shared", "default")
    needs = [Dependency("v1", "ConfigMap", "default", "shared")]
    found = [annotated(one.with_spec(propagate_deps=True), needs) for one in bound(size, spare=2)]
    return Case([shared, *found], [shared.ref], size)


def works(size: int) -> Case:
    found = bound(size, spare=2)
    return Case([*clusters("spare"), *(deployment(name) for name in many(size)), *found], refs(found), size)


def overriding(**metadata: Any) -> OverridePolicy:
    """Return a policy that changes all objects on clusters without a label."""
    unlabelled = LabelSelectorRequirement("failed", "DoesNotExist")
    target = ClusterAffinity(label_selector=LabelSelector(match_expressions=(unlabelled,)))
    rule = OverrideRule(Overriders(labels_overrider=(LabelAnnotationOverrider("add", {"by": "policy"}),)), target)
    meta = ObjectMeta(name="all", uid="uid-override", generation=1, creation_timestamp=START, **metadata)
    kind = "OverridePolicy" if meta.namespace else "ClusterOverridePolicy"
    return OverridePolicy("policy.karmada.io/v1alpha1", kind, meta, OverrideSpec(override_rules=(rule,)))


def works_overridden(size: int) -> Case:
    case = works(size)
    return case._replace(stored=[overriding(), overriding(namespace="default"), *case.stored])


def to_overridden(size: int) -> Case:
    found = bound(size, spare=2)
    return Case([*clusters("spare"), overriding(), *found], [Ref(f"{SELECTION}{ALL_OBJECTS}", "", "")], size)


def to_changed_cluster(size: int) -> Case:
    found = bound(size, spare=2)
    return Case([*clusters("spare"), overriding(), *found], [Ref(TARGET, "", "spare")], size)


def namespaces(size: int) -> Case:
    found = [plain("Namespace", name) for name in many(size)]
    return Case([*clusters("spare"), *found], refs(found), size)


def namespaces_of_a_fleet(size: int) -> Case:
    one = plain("Namespace", "shop")
    return Case([*clusters(*many(size)), one], [one.ref], size)


def federated_quotas(size: int) -> Case:
    found = [federated_quota(name, "a") for name in many(size)]
    return Case([*clusters("a"), *found], [one.ref for one in found], size)


def to_quotas_of_a_namespace(size: int) -> Case:
    return Case([federated_quota(name) for name in many(size)], [Ref(USED, "", "default")], size)


def scale_targets(size: int) -> Case:
    """Each workload has an autoscaler that was propagated."""
    found = [deployment(name) for name in many(size)]
    scaling = [autoscaler(name, f"of-{name}").with_meta(labels={CLAIM_LABELS[0]: "id"}) for name in many(size)]
    return Case([*found, *scaling], refs(found), size)


def replicas_to_sync(size: int) -> Case:
    """The members of each Deployment run more replicas than it asks for."""
    divided = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=DIVIDED))
    stored, items = list[Any](clusters("a")), list[Any]()
    for held in bound(size, a=2):
        report = AggregatedStatusItem("a", {"replicas": 4}, applied=True, health="Healthy")
        held = held.with_spec(placement=divided, replicas=2)
        stored.append(
            held.with_status(
                aggregated_status=(report,), scheduler_observed_generation=held.metadata.generation, conditions=()
            )
        )
        made = built(held.spec.resource.name, replicas=2, labels={RETAIN_REPLICAS_LABEL: "true"})
        items.append(replace(made, status={"replicas": 4}))
    return Case([*stored, *items], refs(items), size)


def impersonators(size: int) -> Case:
    reference = SecretReference("karmada-cluster", "impersonator")
    found = [one.with_spec(impersonator_secret_ref=reference) for one in clusters(*many(size))]
    return Case(found, [one.ref for one in found], size)


def to_impersonators(size: int) -> Case:
    role = replace(plain("ClusterRole", "proxies"), api_version="rbac.authorization.k8s.io/v1")
    return Case([role, *clusters(*many(size))], [role.ref], size)


def namespace_content(size: int) -> Case:
    going = plain("Namespace", "shop", deletion_timestamp=START, finalizers=(NAMESPACE_CONTENT_FINALIZER,))
    inside = [plain("ConfigMap", name, "shop") for name in many(size)]
    return Case([going, *inside], [going.ref], min(size, AT_ONCE), -(-size // AT_ONCE))


def definition(name: str, **meta: Any) -> Template:
    return templates.definition(name.replace("-", "").capitalize(), name, **meta)


def definitions(size: int) -> Case:
    going = definition("boats", deletion_timestamp=START, finalizers=(CLEANUP_FINALIZER,))
    brought = [replace(plain("Boats", name, "default"), api_version="example.io/v1") for name in many(size)]
    return Case([going, *brought], [going.ref], min(size, 500))


def to_definitions(size: int) -> Case:
    found = [definition(name) for name in many(size)]
    return Case(found, [Ref(GROUP, "", "example.io")], size)


def owners(size: int) -> Case:
    """Objects that have gone, each the only owner of another."""
    gone = [plain("ConfigMap", name, "default") for name in many(size)]
    said = [OwnerReference("v1", "ConfigMap", one.metadata.name, one.metadata.uid) for one in gone]
    owned = [plain("Secret", one.name, "default", owner_references=(one,)) for one in said]
    return Case(owned, refs(gone), size)


def binding_status(size: int) -> Case:
    found = [one.with_status(aggregated_status=()) for one in bound(size, spare=2)]
    return Case([*found, *(work_of(one, "spare", applied=True) for one in found)], refs(found), size)


def template_status(size: int) -> Case:
    said = AggregatedStatusItem("spare", {"replicas": 2, "readyReplicas": 2}, applied=True, health="Healthy")
    found = [one.with_status(aggregated_status=(said,)) for one in bound(size, spare=2)]
    return Case([*found, *(deployment(name) for name in many(size))], [template_ref(one) for one in found], size)


def to_left(size: int) -> Case:
    back = clusters("spare")
    found = [as_leftover(work_of(one, "spare")) for one in bound(size, spare=2)]
    return Case([*back, *found], [Ref(BACK, "", "spare")], size)


def to_reported(size: int) -> Case:
    found = bound(size, spare=2)
    works = (work_of(one, "spare", applied=True) for one in found)
    return Case([*clusters("spare"), *found, *works], [Ref(CLUSTER, "", "spare")], size)


def to_namespaces(size: int) -> Case:
    joined = clusters("spare")
    return Case([*joined, *(plain("Namespace", name) for name in many(size))], refs(joined), size)


def to_selected(size: int) -> Case:
    return Case([policy(), *(deployment(name) for name in many(size))], [ALL], size)


def to_named(size: int) -> Case:
    """Each template is named by a selector of its own."""
    one = policy()
    named = tuple(ResourceSelector("apps/v1", "Deployment", "default", name) for name in many(size))
    one = replace(one, spec=replace(one.spec, resource_selectors=named))
    return Case([one, *(deployment(name) for name in many(size))], [ALL], size)


def to_interpreted(size: int) -> Case:
    """The rules of users for Deployments have changed."""
    found = bound(size, spare=2)
    works = (work_of(one, "spare", applied=True) for one in found)
    templates = (deployment(name) for name in many(size))
    return Case([*found, *works, *templates], [Ref(INTERPRETER_CUSTOMIZATION, "", "apps/Deployment")], size)


BATCHES: dict[str, Callable[[int], Case]] = {
    "cluster_roles": cluster_roles,
    "token_secrets": token_secrets,
    "bootstrap_tokens": bootstrap_tokens,
    "signing_requests": signing_requests,
    "policies": policies,
    "policy_release": policy_release,
    "dependencies": dependencies,
    "works": works,
    "works overridden": works_overridden,
    "federated_quotas": federated_quotas,
    "hpa_scale_target_marker": scale_targets,
    "deployment_replicas_syncer": replicas_to_sync,
    "finished_jobs": finished_jobs,
    "namespaces": namespaces,
    "namespaces of a fleet": namespaces_of_a_fleet,
    "impersonators": impersonators,
    "namespace_content": namespace_content,
    "definitions": definitions,
    "owners": owners,
    "binding_status": binding_status,
    "template_status": template_status,
}

FAN_OUTS: dict[str, Callable[[int], Case]] = {
    "policies": to_selected,
    "policies by name": to_named,
    "dependencies": to_needing,
    "works": to_placed,
    "works left behind": to_left,
    "works overridden": to_overridden,
    "works of a changed cluster": to_changed_cluster,
    "binding_status": to_reported,
    "template_status": to_interpreted,
    "federated_quotas": to_quotas_of_a_namespace,
    "namespaces": to_namespaces,
    "impersonators": to_impersonators,
    "definitions": to_definitions,
    "token_secrets": to_token_secrets,
    "signing_requests": to_signing_requests,
}

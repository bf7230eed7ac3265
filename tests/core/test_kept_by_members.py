"""What members set on their objects: it is neither sent to other members nor set back [resource-interpreter]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clusters.drift import differences
from controlplane.clusters.questions import retaining
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, works
from tests.builders.objects import START, policy

Document = dict[str, Any]
BOUND = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def sent(document: Document) -> Document:
    """Return what members are sent of a template."""
    template = Template.fold({**document, "metadata": {"uid": "uid", "namespace": "default", **document["metadata"]}})
    binding = bindings.create(template, policy(), gates={}, now=START)
    return works.rendering(binding, template).manifest


ROLE: Document = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "monitoring"},
    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"monitoring": "true"}}]},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
THEIRS = [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}]


@pytest.mark.parametrize("theirs", [THEIRS, [], None])
def test_an_aggregated_role_has_the_rules_that_its_member_fills_in(theirs: Any) -> None:
    """Those here are of the roles here. The controller of a member would put its own back for ever."""
    held = {**ROLE, "rules": theirs}

    manifest = sent(ROLE)
    kept = retaining(manifest, held)

    assert "rules" not in manifest
    assert kept.get("rules") == theirs
    assert differences(kept, held) == []
    assert retaining(ROLE, held).get("rules") == theirs, "an override policy or a user's Work may have set rules"


def test_a_role_that_is_not_aggregated_has_its_own_rules() -> None:
    plain = {name: value for name, value in ROLE.items() if name != "aggregationRule"}

    assert sent(plain)["rules"] == ROLE["rules"]
    assert retaining(plain, {**plain, "rules": THEIRS})["rules"] == ROLE["rules"]


def claim(volume: str, **notes: str) -> Document:
    spec = {"volumeName": volume, "storageClassName": "fast"}
    metadata = {"name": "data", "annotations": {"team": "shop", **notes}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def test_a_claim_that_was_read_from_a_cluster_is_bound_by_each_member_itself() -> None:
    """With the mark of its binding, and a volume that is not there, a claim is Lost."""
    older = "volume.beta.kubernetes.io/storage-provisioner"
    read = claim("pvc-1", **{BOUND: "yes", BY_CONTROLLER: "yes", PROVISIONER: "ebs.csi", older: "ebs.csi"})

    manifest = sent(read)

    assert manifest["metadata"]["annotations"] == {"team": "shop"}
    assert manifest["spec"] == {"storageClassName": "fast"}
    assert retaining(manifest, read)["spec"] == read["spec"], "where it was read, its volume stays"


@pytest.mark.parametrize("notes", [{}, {BOUND: "yes"}])
def test_a_volume_that_the_author_of_a_claim_has_chosen_is_sent(notes: dict[str, str]) -> None:
    manifest = sent(claim("disk-7", **notes))

    assert manifest["spec"]["volumeName"] == "disk-7"
    assert manifest["metadata"]["annotations"] == {"team": "shop"}


def volume(reference: Any) -> Document:
    notes = {BY_CONTROLLER: "yes", "pv.kubernetes.io/provisioned-by": "ebs.csi"}
    metadata = {"name": "pv-1", "namespace": "", "annotations": notes}
    spec = {"claimRef": reference, "capacity": {"storage": "1Gi"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def test_a_volume_that_was_read_from_a_cluster_waits_for_the_claim_of_that_name() -> None:
    """The claim has another uid on each member: with that of one, a volume is Released, and reclaimed."""
    name = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    read = volume({**name, "uid": "uid-of-one-member", "resourceVersion": "17"})

    manifest = sent(read)

    assert manifest["spec"]["claimRef"] == name
    assert manifest["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "ebs.csi"}
    assert retaining(manifest, read)["spec"] == read["spec"]


@pytest.mark.parametrize("reference", [None, "odd", {"name": "data"}])
def test_a_volume_without_a_binding_is_sent_as_it_is(reference: Any) -> None:
    assert sent(volume(reference))["spec"] == volume(reference)["spec"]


HOOKS = {
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}


def with_authority(kind: str, bundle: str | None, notes: dict[str, str]) -> Document:
    """Return an object by which a member calls a webhook, with this caBundle; None: it has none."""
    metadata = {"name": "shop", "namespace": "", "annotations": notes}
    client = {"service": {"name": "shop", "namespace": "shop"}} | ({} if bundle is None else {"caBundle": bundle})
    if kind == "APIService":
        spec = {**client, "group": "shop.example.com", "version": "v1"}
        return {"apiVersion": "apiregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    if kind == "CustomResourceDefinition":
        spec = {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client}}, "group": "shop.example.com"}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    webhooks = [{"name": "a.example.com", "clientConfig": client}, {"name": "b.example.com"}]
    return {"apiVersion": HOOKS[kind], "kind": kind, "metadata": metadata, "webhooks": webhooks}


def content(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "metadata"}


@pytest.mark.parametrize("kind", [*HOOKS, "CustomResourceDefinition", "APIService"])
@pytest.mark.parametrize(
    ("bundle", "notes", "left_out"),
    [
        ("", {}, True),
        ("Cg==", {}, True),  # a line break, as older generators write where the authority is injected
        ("T1VSUw==", {}, False),
        ("T1VSUw==", {"cert-manager.io/inject-ca-from": "shop/serving"}, True),
        ("T1VSUw==", {"cert-manager.io/inject-apiserver-ca": "true"}, True),
        ("T1VSUw==", {"cert-manager.io/issuer": "shop"}, False),
    ],
)
def test_an_authority_that_is_injected_on_each_member_is_not_sent(
    kind: str, bundle: str, notes: dict[str, str], *, left_out: bool
) -> None:
    """Each member has certificates of its own: with another authority it could not call the webhook any more."""
    manifest = sent(with_authority(kind, bundle, notes))

    assert content(manifest) == content(with_authority(kind, None if left_out else bundle, notes))
    assert left_out == (differences(manifest, with_authority(kind, "VEhFSVJT", notes)) == [])


@pytest.mark.parametrize("kind", [*HOOKS, "CustomResourceDefinition", "APIService"])
@pytest.mark.parametrize("odd", [{}, {"webhooks": "a", "spec": "a"}, {"webhooks": ["a"], "spec": {"conversion": 1}}])
def test_what_has_no_webhook_is_sent_as_it_is(kind: str, odd: Document) -> None:
    whole = with_authority(kind, "", {})
    plain = {name: value for name, value in whole.items() if name not in ("spec", "webhooks")} | odd

    assert content(sent(plain)) == content(plain)

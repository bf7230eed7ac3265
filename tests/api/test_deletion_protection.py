"""What carries the label of deletion protection cannot be deleted by anybody [deletion-protection]."""

from __future__ import annotations

from tests.api.server import Client
from tests.builders.documents import config_map, config_maps, policies, policy

LABEL = "resourcetemplate.karmada.io/deletion-protected"
REFUSED = f"This resource is protected, please make sure to remove the label: {LABEL}"


def test_a_protected_object_is_deleted_only_after_its_label(api: Client, namespace: str) -> None:
    protected = config_map("kept", labels={LABEL: "Always"})
    never = config_map("free", labels={LABEL: "Never"})
    assert api.post(config_maps(namespace), protected).status == 201
    assert api.post(config_maps(namespace), never).status == 201

    refused = api.delete(config_maps(namespace, "kept"))

    assert (refused.status, refused.document["reason"]) == (403, "Forbidden")
    assert REFUSED in refused.document["message"]
    assert f"kubectl label configmaps kept -n {namespace} {LABEL}-" in refused.document["message"]
    assert api.delete(config_maps(namespace)).status == 403
    assert api.delete(config_maps(namespace, "kept") + "?dryRun=All").status == 403
    assert api.delete(config_maps(namespace, "free")).status == 200
    removed = {"metadata": {"labels": {LABEL: None}}}
    assert api.patch(config_maps(namespace, "kept"), removed).status == 200
    assert api.delete(config_maps(namespace, "kept")).status == 200


def test_a_namespace_and_a_policy_are_protected_as_well(api: Client, namespace: str) -> None:
    labelled = {"metadata": {"labels": {LABEL: "Always"}}}
    made = policy("p", metadata={"labels": {LABEL: "Always"}})
    assert api.post(policies(namespace), made).status == 201
    assert api.patch(f"/api/v1/namespaces/{namespace}", labelled).status == 200

    for url in (f"/api/v1/namespaces/{namespace}", policies(namespace, "p")):
        assert REFUSED in api.delete(url).document["message"]
        assert api.patch(url, {"metadata": {"labels": {LABEL: None}}}).status == 200
        if url != f"/api/v1/namespaces/{namespace}":
            assert api.delete(url).status == 200

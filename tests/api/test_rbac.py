"""Roles and bindings decide what users may do, within a second of a change."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.roles import ACCESS, RBAC, bind, user, wait_until_allowed
from tests.api.server import Client, Server
from tests.builders.documents import config_map, config_maps
from tests.processes import until

GROUP = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
PAIR = ("one", "two")


@pytest.fixture(scope="module")
def eva(server: Server) -> Client:
    """A user in the group `shop-team` without a role."""
    return user(server, "eva", groups=("shop-team",))


def allowed(client: Client, verb: str, resource: str, **more: str) -> bool:
    question = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource, **more}}}
    found: bool = client.post(ACCESS, question).document["status"]["allowed"]
    return found


def test_a_user_without_a_role_asks_about_the_user_and_reads_nothing(eva: Client, namespace: str) -> None:
    refused = eva.get(config_maps(namespace))

    assert refused.status == 403
    assert (
        'User "eva" cannot list resource "configmaps" in API group "" in the namespace' in refused.document["message"]
    )
    assert eva.get("/apis").status == 200
    assert eva.get("/metrics").status == 403
    assert eva.get(RBAC + "/clusterroles").status == 403
    assert not allowed(eva, "list", "configmaps", namespace=namespace)


def test_a_binding_counts_in_its_namespace_for_groups_and_ends_when_it_is_deleted(
    api: Client, eva: Client, namespace: str
) -> None:
    bind(api, "team", to={"kind": "Group", "name": "shop-team"}, roles=("edit",), namespace=namespace)
    wait_until_allowed(eva, "create", "configmaps", namespace=namespace)

    assert eva.post(config_maps(namespace), config_map("one")).status == 201
    assert eva.get(config_maps(namespace, "one")).status == 200
    assert eva.get("/api/v1/configmaps").status == 403
    assert eva.post(config_maps("default"), config_map("one")).status == 403

    api.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/team-edit")
    until(lambda: eva.get(config_maps(namespace, "one")).status == 403, within=10)


def let_eva(api: Client, namespace: str, **rule: list[str]) -> None:
    """Give eva a role with one rule for the ConfigMaps of a namespace."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], **rule}]
    roles = f"{RBAC}/namespaces/{namespace}"
    api.post(f"{roles}/roles", {"metadata": {"name": "one"}, "rules": rules})
    ref = {"kind": "Role", "name": "one", "apiGroup": GROUP}
    subjects = [{"kind": "User", "name": "eva"}]
    api.post(f"{roles}/rolebindings", {"metadata": {"name": "one"}, "roleRef": ref, "subjects": subjects})


def test_a_rule_for_one_name_allows_one_name(api: Client, eva: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))
    let_eva(api, namespace, verbs=["get", "watch"], resourceNames=["one"])
    until(lambda: eva.get(config_maps(namespace, "one")).status == 200, within=10)

    assert eva.get(config_maps(namespace, "two")).status == 403
    assert eva.get(config_maps(namespace)).status == 403
    for more in ("", f",metadata.namespace={namespace}", ",metadata.name!=two"):
        with eva.watch(config_maps(namespace), fieldSelector=f"metadata.name=one{more}") as stream:
            assert stream.status == 200, more
            assert stream.next()["object"]["metadata"]["name"] == "one"
    for selector in ("metadata.name!=one", "metadata.name=two,metadata.name=one", "metadata.name=two"):
        with eva.watch(config_maps(namespace), fieldSelector=selector) as stream:
            assert stream.status == 403, selector


def test_an_apply_creates_an_object_only_with_the_right_to_create(api: Client, eva: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))
    let_eva(api, namespace, verbs=["patch"])
    wait_until_allowed(eva, "patch", "configmaps", namespace=namespace)

    kept, new = (eva.patch(config_maps(namespace, name), config_map(name), APPLY, fieldManager="m") for name in PAIR)

    assert kept.status == 200
    assert new.status == 403
    assert 'User "eva" cannot create resource "configmaps"' in new.document["message"]
    assert api.get(config_maps(namespace, "two")).status == 404


def test_a_user_grants_no_more_than_the_user_has(api: Client, eva: Client, namespace: str) -> None:
    bind(api, "boss", to={"kind": "User", "name": "eva"}, roles=("admin",), namespace=namespace)
    wait_until_allowed(eva, "create", "roles", group=GROUP, namespace=namespace)
    roles, bindings = (f"{RBAC}/namespaces/{namespace}/{plural}" for plural in ("roles", "rolebindings"))
    reads = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    drains = [{"apiGroups": ["failover.lifeboat.io"], "resources": ["drains"], "verbs": ["create"]}]

    assert eva.post(roles, {"metadata": {"name": "reads"}, "rules": reads}).status == 201
    refused = eva.post(roles, {"metadata": {"name": "drains"}, "rules": drains})
    assert refused.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused.document["message"]
    assert eva.patch(f"{roles}/reads", {"rules": drains}).status == 403
    assert eva.patch(f"{roles}/reads", {"metadata": {"labels": {"team": "shop"}}}).status == 200

    def binding(role: str) -> dict[str, Any]:
        ref = {"kind": "ClusterRole", "name": role, "apiGroup": GROUP}
        return {"metadata": {"name": role}, "roleRef": ref, "subjects": [{"kind": "User", "name": "bob"}]}

    assert eva.post(bindings, binding("view")).status == 201
    assert eva.post(bindings, binding("cluster-admin")).status == 403


def test_a_binding_never_changes_its_role(api: Client, namespace: str) -> None:
    bind(api, "fixed", to={"kind": "User", "name": "bob"}, roles=("view",), namespace=namespace)
    path = f"{RBAC}/namespaces/{namespace}/rolebindings/fixed-view"

    answer = api.patch(path, {"roleRef": {"name": "edit"}})

    assert answer.status == 422
    assert "cannot change roleRef" in answer.document["message"]


@pytest.mark.parametrize("name", ["a\nb", "a\n", "\nb", "a b?c#d", "ä:\t"])
def test_a_binding_of_any_name_is_found_and_deleted_by_it(api: Client, namespace: str, name: str) -> None:
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    one = f"{bindings}/{quote(name)}"
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    assert api.post(bindings, {"metadata": {"name": name}, "roleRef": ref}).status == 201

    assert api.get(one).document["metadata"]["name"] == name
    assert api.patch(one, {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert api.delete(one).status == 200
    assert api.get(bindings).document["items"] == []


def test_reviews_answer_for_another_user(api: Client, eva: Client, namespace: str) -> None:
    bind(api, "robot", to={"kind": "Group", "name": "robots"}, roles=("view",), namespace=namespace)
    asked = {"verb": "list", "resource": "configmaps", "namespace": namespace}
    spec = {"user": "r2", "groups": ["robots"], "resourceAttributes": asked}

    def answered(path: str, spec: dict[str, Any]) -> Any:
        return api.post(path, {"spec": spec}).document["status"]

    until(lambda: answered(f"{REVIEWS}/subjectaccessreviews", spec)["allowed"], within=10)
    local = f"{REVIEWS}/namespaces/{namespace}/localsubjectaccessreviews"
    assert answered(local, spec)["allowed"]
    assert not answered(local, {**spec, "groups": []})["allowed"]
    assert api.post(f"{REVIEWS}/namespaces/other/localsubjectaccessreviews", {"spec": spec}).status == 422
    assert api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": {"resourceAttributes": asked}}).status == 422
    assert eva.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).status == 403


def test_a_field_that_is_null_is_not_set_in_a_review(api: Client, namespace: str) -> None:
    bind(api, "nobody", to={"kind": "Group", "name": "nobodies"}, roles=("view",), namespace=namespace)
    pods = {"verb": "get", "group": None, "resource": "pods", "namespace": namespace, "name": None}

    def answered(**spec: Any) -> Any:
        answer = api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "r2", "groups": ["nobodies"], **spec}})
        assert answer.status == 201, answer.body
        assert b"null" not in answer.body
        return answer.document["status"]["allowed"]

    until(lambda: answered(resourceAttributes={name: value for name, value in pods.items() if value}), within=10)
    assert answered(resourceAttributes=pods)
    assert not answered(resourceAttributes={"verb": None, "resource": None})
    assert not answered(nonResourceAttributes={"path": None, "verb": "get"}, extra={"scopes": None})


def test_an_impersonated_user_has_that_users_rights_and_name(api: Client, eva: Client, namespace: str) -> None:
    bind(api, "guest", to={"kind": "User", "name": "guest"}, roles=("edit",), namespace=namespace)

    def as_guest(client: Client, method: str, path: str, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {client.token}", "Impersonate-User": "guest", **headers}
        return client.send(method, path, None, sent)

    until(lambda: as_guest(api, "GET", config_maps(namespace)).status == 200, within=10)
    assert as_guest(api, "GET", "/api/v1/configmaps").status == 403
    assert as_guest(api, "GET", "/api/v1/configmaps", **{"Impersonate-Group": "system:masters"}).status == 200
    refused = as_guest(eva, "GET", config_maps(namespace))
    assert refused.status == 403
    assert 'User "eva" cannot impersonate resource "users"' in refused.document["message"]
    unnamed = api.send("GET", "/api", None, {"Authorization": f"Bearer {api.token}", "Impersonate-Group": "robots"})
    assert unnamed.status == 400


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("", ["system:masters", "system:authenticated"]),
        ("system:serviceaccount:shop", ["system:authenticated"]),
        (
            "system:serviceaccount:shop:bot",
            ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
        ),
    ],
    ids=["no name", "half a name", "a whole name"],
)
def test_an_impersonated_name_has_the_groups_of_its_form(api: Client, name: str, groups: list[str]) -> None:
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json",
        "Impersonate-User": name,
    }

    answer = api.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b"{}", headers)

    assert answer.document["status"]["userInfo"]["groups"] == groups


def test_a_label_does_not_add_cluster_admin_to_the_role_of_readers(api: Client, server: Server) -> None:
    ria = user(server, "ria")
    writes = [{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["get", "patch", "update"]}]
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "writes-roles"}, "rules": writes})
    bind(api, "ria", to={"kind": "User", "name": "ria"}, roles=("writes-roles",))
    wait_until_allowed(ria, "patch", "clusterroles", group=GROUP)
    path, label = f"{RBAC}/clusterroles/cluster-admin", {f"{GROUP}/aggregate-to-view": "true"}

    refused = ria.patch(path, {"metadata": {"labels": label}})

    assert refused.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused.document["message"]
    assert ria.patch(path, {"metadata": {"annotations": {"note": "x"}}}).status == 200


def test_default_roles_are_there_from_the_first_start(api: Client) -> None:
    admin = api.get(f"{RBAC}/clusterroles/admin").document

    assert admin["aggregationRule"]
    assert {"apiGroups": ["apps"]} in [{"apiGroups": rule["apiGroups"]} for rule in admin["rules"]]
    assert api.get(f"{RBAC}/clusterrolebindings/cluster-admin").status == 200

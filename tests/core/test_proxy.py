"""Which request a member gets through the proxy, and which answer the caller gets [proxy-to-members] [proxy-rights]."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from controlplane.apimachinery.errors import BadRequest
from controlplane.authorization.attributes import Caller
from controlplane.authorization.proxied import Subjects, impersonation_rules, subjects
from controlplane.clusters import proxy
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.template import Template
from tests.builders import templates
from tests.builders.objects import cluster

REFERENCE = SecretReference("karmada-cluster", "member1")
MEMBER = cluster("member1").with_spec(
    sync_mode="Push", api_endpoint="https://member1:6443", secret_ref=REFERENCE, impersonator_secret_ref=REFERENCE
)


def secret(**data: str) -> Template:
    return templates.secret("member1", data, namespace="karmada-cluster")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/apis/cluster.karmada.io/v1alpha1/clusters/a/proxy", ("a", "/")),
        ("/apis/cluster.karmada.io/v1alpha1/clusters/a/proxy/", ("a", "/")),
        ("/apis/cluster.karmada.io/v1alpha1/clusters/a/proxy/api/v1/x%2Fy", ("a", "/api/v1/x%2Fy")),
        ("/apis/cluster.karmada.io/v1alpha1/clusters/a/proxied", None),
        ("/apis/cluster.karmada.io/v1alpha1/clusters/a/status", None),
    ],
)
def test_a_path_names_the_cluster_and_the_path_on_the_member(path: str, found: tuple[str, str] | None) -> None:
    assert proxy.parsed(path) == found


@pytest.mark.parametrize("path", ["/..", "/a/../b", "/a/%2E%2e/b", "/a/./b", "/a/%2e", "/a%2f..%2fb", "/a\\..\\b"])
def test_a_path_that_leaves_its_place_is_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        proxy.check_path(path)


@pytest.mark.parametrize("path", ["/", "/a..b", "/...", "/.well-known/x", "/a%2Fb"])
def test_other_paths_with_dots_are_passed_on(path: str) -> None:
    proxy.check_path(path)


def test_the_token_is_that_of_the_impersonator_and_never_that_of_the_control_plane() -> None:
    target = proxy.target(MEMBER, secret(token="admin", caBundle="CA"), secret(token="impersonates"))

    assert (target.token, target.ca, target.endpoint) == ("impersonates", "CA", "https://member1:6443")
    assert proxy.target(MEMBER, secret(token="admin", caBundle="CA"), secret(token="a", caBundle="own")).ca == "own"


@pytest.mark.parametrize(
    ("changes", "impersonator", "why"),
    [
        ({"sync_mode": "Pull"}, secret(token="a"), "spec.syncMode Pull"),
        ({"api_endpoint": ""}, secret(token="a"), "no spec.apiEndpoint"),
        ({"impersonator_secret_ref": None}, None, "no spec.impersonatorSecretRef"),
        (
            {},
            None,
            "the Secret karmada-cluster/member1 of spec.impersonatorSecretRef of cluster member1 does not exist",
        ),
        ({}, secret(), "has no token that can be read"),
    ],
)
def test_a_member_without_an_impersonator_is_refused_with_the_reason(
    changes: dict[str, Any], impersonator: Template | None, why: str
) -> None:
    with pytest.raises(BadRequest, match=why):
        proxy.target(MEMBER.with_spec(**changes), secret(token="admin"), impersonator)


def test_the_caller_is_impersonated_with_the_groups_that_are_granted() -> None:
    groups = ("system:masters", "shop", "unknown", "system:authenticated")
    caller = Caller("eva", groups, "7", {"a.b/c d": ("1", "2")})

    assert proxy.impersonation(caller, {"system:masters", "shop"}) == [
        ("Impersonate-User", "eva"),
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Group", "shop"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-a.b%2Fc%20d", "1"),
        ("Impersonate-Extra-a.b%2Fc%20d", "2"),
    ]


def test_the_member_itself_adds_the_groups_of_a_service_account() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")

    headers = proxy.impersonation(Caller("system:serviceaccount:shop:ci", groups), set(groups))

    assert headers == [("Impersonate-User", "system:serviceaccount:shop:ci")]


def test_headers_of_the_caller_and_of_the_connection_are_not_passed_on() -> None:
    dropped = [
        *("authorization", "cookie", "host", "impersonate-user", "impersonate-extra-a", "x-remote-group", "x_remote"),
        *(
            "x-forwarded-for",
            "forwarded",
            "te",
            "transfer-encoding",
            "upgrade",
            "content-length",
            "proxy-authorization",
        ),
    ]
    given = [(name, "x") for name in (*dropped, "x-hop", "x-kept", "accept")]

    kept = [*proxy.forwarded([*given, ("connection", "close, X-Hop")])]

    assert kept == [("x-kept", "x"), ("accept", "x")]


def test_an_answer_for_a_browser_is_text_or_a_download() -> None:
    def disposition(type_: str) -> str:
        return dict(proxy.returned([("Content-Type", type_)]))["content-disposition"]

    assert disposition("application/json; charset=utf-8") == "inline"
    assert disposition("text/plain") == "inline"
    assert disposition("text/html") == "attachment"
    assert disposition("image/svg+xml") == "attachment"
    assert dict(proxy.returned([]))["content-type"] == "application/octet-stream"
    assert ("etag", "a\rb") not in proxy.returned([("ETag", "a\rb")])


def test_an_unchanged_answer_does_not_replace_the_type_of_the_one_that_a_client_keeps() -> None:
    unchanged = dict(proxy.returned([("ETag", '"1"')], status=HTTPStatus.NOT_MODIFIED))
    typed = dict(proxy.returned([("Content-Type", "text/html")], status=HTTPStatus.NOT_MODIFIED))

    assert unchanged["etag"] == '"1"'
    assert "content-security-policy" in unchanged
    assert not {"content-type", "content-disposition"} & set(unchanged)
    assert typed["content-disposition"] == "attachment"


ROLE = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["get"]}


def _role(name: str, **rule: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": [{**ROLE, **rule}]}


def _binding(role: str, *who: tuple[str, str], kind: str = "ClusterRole") -> dict[str, Any]:
    found = [{"kind": what, "name": name, "namespace": "shop"} for what, name in who]
    return {"metadata": {"name": role}, "roleRef": {"kind": kind, "name": role}, "subjects": found}


def test_the_subjects_of_a_cluster_are_those_whom_roles_allow_its_proxy() -> None:
    roles = [
        _role("one", resourceNames=["member1"]),
        _role("other", resourceNames=["member2"]),
        _role("all", apiGroups=["*"], resources=["*"]),
        _role("pods", resources=["pods"]),
    ]
    bindings = [
        _binding("one", ("User", "eva"), ("ServiceAccount", "ci")),
        _binding("other", ("User", "mia")),
        _binding("all", ("Group", "system:masters")),
        _binding("pods", ("User", "tom")),
        _binding("one", ("User", "role"), kind="Role"),
    ]

    assert subjects("member1", roles, bindings) == Subjects(("eva",), ("system:masters",), ("ci",))


def test_the_impersonator_may_act_as_the_named_subjects_only() -> None:
    rules = impersonation_rules(Subjects(("eva",), (), ("ci",)))

    assert [(rule["resources"], rule.get("resourceNames")) for rule in rules[:2]] == [
        (["users"], ["eva"]),
        (["serviceaccounts"], ["ci"]),
    ]


def test_users_of_a_group_cannot_be_named_so_that_only_groups_are_limited() -> None:
    rules = impersonation_rules(Subjects((), ("shop",), ()))

    assert [(rule["resources"], rule.get("resourceNames")) for rule in rules[:3]] == [
        (["users"], None),
        (["serviceaccounts"], None),
        (["groups"], ["shop"]),
    ]
    assert impersonation_rules(Subjects()) == []

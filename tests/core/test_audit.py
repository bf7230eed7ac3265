"""Audit policies and events: which rule decides about a request, and the document that records it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.audit_event import Answered, Sent, event
from controlplane.authorization.audit_policy import AGENTS, DEFAULT, PolicyInvalid, is_refusal, policy_of

EVA = Caller("eva", ("shop-team", "system:authenticated"), uid="7")
AGENT = Caller("system:lifeboat:agent:member1", (AGENTS,))


def asked(verb: str, resource: str = "", **more: str) -> Request:
    return Request(verb, resource=resource, **more)


@pytest.mark.parametrize(
    ("caller", "request_", "level"),
    [
        (EVA, asked("create", "configmaps", namespace="shop"), "Metadata"),
        (EVA, asked("deletecollection", "deployments", api_group="apps"), "Metadata"),
        (EVA, asked("get", "configmaps"), "None"),
        (EVA, asked("watch", "deployments", api_group="apps"), "None"),
        (EVA, asked("get", "secrets", name="password"), "Metadata"),
        (EVA, asked("list", "secrets"), "None"),
        (EVA, asked("get", "clusters", subresource="proxy", api_group="cluster.karmada.io"), "Metadata"),
        (EVA, asked("create", "selfsubjectaccessreviews", api_group="authorization.k8s.io"), "None"),
        (EVA, asked("create", "events"), "None"),
        (EVA, asked("get", path="/metrics"), "None"),
        (EVA, asked("post", path="/clusters/member1"), "Metadata"),
        (AGENT, asked("patch", "works", subresource="status", api_group="work.karmada.io"), "None"),
        (AGENT, asked("update", "leases", api_group="coordination.k8s.io"), "None"),
        (AGENT, asked("patch", "works", api_group="work.karmada.io"), "Metadata"),
        (EVA, asked("patch", "works", subresource="status", api_group="work.karmada.io"), "Metadata"),
    ],
)
def test_the_default_policy_records_writes_and_reads_of_what_is_secret(
    caller: Caller, request_: Request, level: str
) -> None:
    assert DEFAULT.level(caller, request_) == level


def policy(*rules: dict[str, Any]) -> Any:
    return policy_of({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules)})


@pytest.mark.parametrize(
    ("rule", "request_", "matches"),
    [
        ({}, asked("get", "pods"), True),
        ({"users": ["eva"]}, asked("get", "pods"), True),
        ({"users": ["adam"]}, asked("get", "pods"), False),
        ({"userGroups": ["shop-team"]}, asked("get", "pods"), True),
        ({"userGroups": ["other"]}, asked("get", "pods"), False),
        ({"verbs": ["list"]}, asked("get", "pods"), False),
        ({"verbs": ["*"]}, asked("get", "pods"), True),
        ({"namespaces": ["shop"]}, asked("get", "pods", namespace="shop"), True),
        ({"namespaces": ["shop"]}, asked("get", "pods", namespace="other"), False),
        ({"namespaces": [""]}, asked("get", "nodes"), True),
        ({"resources": [{"group": ""}]}, asked("get", "pods", subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, asked("get", "pods"), True),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, asked("get", "pods", subresource="log"), False),
        ({"resources": [{"group": "", "resources": ["pods/log"]}]}, asked("get", "pods", subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, asked("get", "pods", subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, asked("get", "pods", subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["*"]}]}, asked("get", "pods"), True),
        ({"resources": [{"group": "apps"}]}, asked("get", "pods"), False),
        (
            {"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["one"]}]},
            asked("get", "pods", name="one"),
            True,
        ),
        (
            {"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["one"]}]},
            asked("get", "pods", name="two"),
            False,
        ),
        ({"nonResourceURLs": ["/healthz*"]}, asked("get", path="/healthz/ready"), True),
        ({"nonResourceURLs": ["/healthz"]}, asked("get", path="/healthz/ready"), False),
        ({"nonResourceURLs": ["*"]}, asked("get", "pods"), False),
        ({"resources": [{"group": ""}]}, asked("get", path="/metrics"), False),
    ],
)
def test_the_first_rule_that_matches_decides(rule: dict[str, Any], request_: Request, matches: bool) -> None:
    rules = policy({"level": "Request", **rule}, {"level": "Metadata"})

    assert rules.level(EVA, request_) == ("Request" if matches else "Metadata")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "apiVersion audit.k8s.io/v1"),
        ({"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}, "at least one rule"),
        ({"level": "Everything"}, 'rules[0].level: "Everything" is not one of None, Metadata'),
        ({"level": "None", "user": ["eva"]}, "rules[0]: Object contains unknown field `user`"),
        ({"level": "None", "namespaces": ["a"], "nonResourceURLs": ["/x"]}, "write two rules"),
        ({"level": "None", "nonResourceURLs": ["x"]}, 'nonResourceURLs[0]: "x"'),
        ({"level": "None", "nonResourceURLs": ["/a*b"]}, 'may end with "*"'),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_with_the_place(document: Any, problem: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        policy(document) if isinstance(document, dict) and "level" in document else policy_of(document)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("verb", "code", "refused"),
    [
        *[("get", 200, False), ("get", 404, False), ("get", 403, True), ("list", 401, True), ("create", 201, False)],
        *[("create", 422, True), ("delete", 409, True), ("patch", 404, True), ("watch", 429, True)],
    ],
)
def test_a_refusal_is_what_a_user_may_not_do_or_a_write_that_failed(verb: str, code: int, refused: bool) -> None:
    assert is_refusal(asked(verb, "pods"), code) is refused


def test_an_event_has_the_shape_of_audit_k8s_io() -> None:
    now = datetime(2026, 3, 14, 2, 36, 26, 5000, tzinfo=UTC)
    request = asked("patch", "deployments", api_group="apps", namespace="shop", name="web")
    sent = Sent(
        *("id-1", Caller("admin", ("system:masters",), extra={"reason": ("on call",)}), request, now),
        api_version="v1",
        impersonated=EVA,
        uri="/apis/apps/v1/namespaces/shop/deployments/web",
        source="192.0.2.7",
        user_agent="kubectl/v1.36",
        decision="forbid",
        reason="no rule",
    )

    made = event(sent, Answered(403, "Forbidden", "may not"), level="Metadata", now=now, annotations={"a": "b"})

    assert made == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web",
        "verb": "patch",
        "user": {"username": "admin", "groups": ["system:masters"], "extra": {"reason": ["on call"]}},
        "impersonatedUser": {"username": "eva", "uid": "7", "groups": ["shop-team", "system:authenticated"]},
        "sourceIPs": ["192.0.2.7"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {
            **{"resource": "deployments", "namespace": "shop", "name": "web"},
            **{"apiGroup": "apps", "apiVersion": "v1"},
        },
        "responseStatus": {
            **{"metadata": {}, "code": 403, "status": "Failure"},
            **{"reason": "Forbidden", "message": "may not"},
        },
        "requestReceivedTimestamp": "2026-03-14T02:36:26.005000Z",
        "stageTimestamp": "2026-03-14T02:36:26.005000Z",
        "annotations": {
            "authorization.k8s.io/decision": "forbid",
            "authorization.k8s.io/reason": "no rule",
            "a": "b",
        },
    }

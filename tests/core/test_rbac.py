"""Role-based access control: what rules allow, what roles may be granted, what the default roles contain."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.aggregation import aggregated_rules
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.default_roles import documents
from controlplane.authorization.escalation import check_binding, check_role
from controlplane.authorization.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE, ROLE_BINDING, Policy
from controlplane.authorization.rules import MOST_PARTS, rules_in, spelled, uncovered
from controlplane.controllers.cluster_roles import ClusterRoles
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.settings import Settings
from tests.builders.objects import START
from tests.core.admitted import created, fields

EVA, ROOT = Caller("eva", ("shop-team", "system:authenticated")), Caller("root", ("system:masters",))


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return made | ({"resourceNames": names.split()} if names else {})


def role(name: str, *rules: dict[str, Any], namespace: str = "", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": [*rules]}


def bind(name: str, subject: dict[str, Any], *, namespace: str = "", to: str = "ClusterRole") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {"kind": kind, "metadata": metadata, "roleRef": {"kind": to, "name": name}, "subjects": [subject]}


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "name": name}


def group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "name": name}


@pytest.mark.parametrize(
    ("granted", "request_", "allowed"),
    [
        (rule("get", "pods"), Request("get", "", "pods", "", "shop", "web"), True),
        (rule("get", "pods"), Request("list", "", "pods", "", "shop"), False),
        (rule("*", "pods"), Request("escalate", "", "pods"), True),
        (rule("get", "pods"), Request("get", "apps", "pods"), False),
        (rule("get", "pods", "*"), Request("get", "metrics.k8s.io", "pods"), True),
        (rule("get", "pods"), Request("get", "", "pods", "log"), False),
        (rule("get", "pods/log"), Request("get", "", "pods", "log"), True),
        (rule("get", "*/log"), Request("get", "", "pods", "log"), True),
        (rule("get", "*/log"), Request("get", "", "pods"), False),
        (rule("get", "*"), Request("get", "", "pods", "log"), True),
        (rule("get", "pods", names="web api"), Request("get", "", "pods", "", "shop", "api"), True),
        (rule("get", "pods", names="web"), Request("get", "", "pods", "", "shop", "api"), False),
        (rule("list", "pods", names="web"), Request("list", "", "pods", "", "shop"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, Request("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, Request("get", path="/metrics/all"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/apis/*"]}, Request("get", path="/apis/apps/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/apis/*"]}, Request("get", path="/api"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Request("get", path="/debug"), True),
        (rule("*", "*", "*"), Request("get", path="/metrics"), False),
        ({"verbs": ["*"], "nonResourceURLs": ["*"]}, Request("get", "", "pods"), False),
        ({"verbs": "get", "resources": 7}, Request("get", "", "pods"), False),
    ],
)
def test_a_rule_allows_what_kubernetes_lets_it_allow(granted: dict[str, Any], request_: Request, allowed: bool) -> None:
    policy = Policy({CLUSTER_ROLE: [role("some", granted)], CLUSTER_ROLE_BINDING: [bind("some", user("eva"))]})

    assert policy.authorize(EVA, request_).allowed is allowed


def test_a_binding_in_a_namespace_grants_nothing_elsewhere() -> None:
    policy = Policy(
        {CLUSTER_ROLE: [role("edit", rule("*", "pods"))], ROLE_BINDING: [bind("edit", user("eva"), namespace="shop")]}
    )

    assert policy.authorize(EVA, Request("delete", "", "pods", "", "shop", "web"))
    assert policy.authorize(EVA, Request("delete", "", "pods", "", "shop", "web")).allowed
    assert not policy.authorize(EVA, Request("delete", "", "pods", "", "bank", "web")).allowed
    assert not policy.authorize(EVA, Request("list", "", "pods")).allowed


def test_a_role_counts_in_its_own_namespace_only() -> None:
    policy = Policy(
        {
            ROLE: [role("read", rule("get", "pods"), namespace="bank")],
            ROLE_BINDING: [bind("read", user("eva"), namespace="shop", to="Role")],
        }
    )

    assert not policy.authorize(EVA, Request("get", "", "pods", "", "shop", "web")).allowed


@pytest.mark.parametrize(
    ("subject", "caller", "bound"),
    [
        (user("eva"), EVA, True),
        (user("eva"), Caller("evan"), False),
        (group("shop-team"), EVA, True),
        (group("eva"), EVA, False),
        (
            {"kind": "ServiceAccount", "name": "ci", "namespace": "shop"},
            Caller("system:serviceaccount:shop:ci"),
            True,
        ),
        (
            {"kind": "ServiceAccount", "name": "ci", "namespace": "shop"},
            Caller("system:serviceaccount:bank:ci"),
            False,
        ),
        ({"kind": "ServiceAccount", "name": "ci"}, Caller("system:serviceaccount:shop:ci"), True),
        ({"kind": "Robot", "name": "eva"}, EVA, False),
        ({}, Caller(""), False),
    ],
)
def test_a_binding_applies_to_its_subjects(subject: dict[str, Any], caller: Caller, bound: bool) -> None:
    policy = Policy(
        {CLUSTER_ROLE: [role("read", rule("get", "pods"))], ROLE_BINDING: [bind("read", subject, namespace="shop")]}
    )

    assert policy.authorize(caller, Request("get", "", "pods", "", "shop", "web")).allowed is bound


def test_the_reason_names_the_binding_and_the_role() -> None:
    policy = Policy(
        {
            CLUSTER_ROLE: [role("view", rule("get", "pods"))],
            ROLE_BINDING: [bind("view", group("shop-team"), namespace="shop")],
        }
    )

    reason = policy.authorize(EVA, Request("get", "", "pods", "", "shop", "web")).reason

    assert reason == 'RBAC: allowed by RoleBinding "shop/view" of ClusterRole "view" to Group "shop-team"'


def test_administrators_need_no_role() -> None:
    assert Policy({}).authorize(ROOT, Request("delete", "", "secrets", "", "shop", "key")).allowed
    assert not Policy({}).authorize(EVA, Request("get", "", "pods")).allowed


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        (rule("get list", "pods services"), rule("get", "services"), 0),
        (rule("get", "pods"), rule("get list", "pods"), 1),
        (rule("*", "*", "*"), rule("delete", "secrets", "apps"), 0),
        (rule("get", "*"), rule("get", "pods/log"), 0),
        (rule("get", "*/log"), rule("get", "pods/log"), 0),
        (rule("get", "pods"), rule("get", "*"), 1),
        (rule("get", "pods", names="web"), rule("get", "pods", names="web"), 0),
        (rule("get", "pods", names="web"), rule("get", "pods"), 1),
        (rule("get", "pods"), rule("get", "pods", names="web"), 0),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, {"verbs": ["get"], "nonResourceURLs": ["/a/b"]}, 0),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/b"]}, {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, 1),
    ],
)
def test_rules_cover_what_they_allow(owned: dict[str, Any], wanted: dict[str, Any], missing: int) -> None:
    left = uncovered(rules_in({"rules": [owned]}), rules_in({"rules": [wanted]}))

    assert len(left) == missing


def test_a_rule_whose_parts_multiply_is_not_taken_apart() -> None:
    values = tuple(f"x{number}" for number in range(150))
    (wanted,) = rules_in({"rules": [{"verbs": values, "apiGroups": values, "resources": values}]})
    names = tuple(f"web-{number}" for number in range(10 * MOST_PARTS))
    (named,) = rules_in({"rules": [{**rule("get list", "pods"), "resourceNames": names}]})

    assert uncovered(rules_in({"rules": [rule("get", "pods")]}), [wanted, named]) == [wanted, named]
    assert uncovered(rules_in({"rules": [rule("*", "*", "*")]}), [wanted, named]) == []
    assert len(spelled(named)) < 10_000


HELD = rule("get list", "pods")
EDITOR = Policy(
    {
        CLUSTER_ROLE: [
            role("reader", HELD),
            role("boss", rule("*", "*", "*")),
            role("roles", rule("create", "roles rolebindings", GROUP)),
            role("binder", rule("bind", "clusterroles", GROUP, names="boss")),
            role("raiser", rule("escalate", "roles", GROUP)),
        ],
        CLUSTER_ROLE_BINDING: [
            bind("reader", user("eva")),
            bind("binder", user("bob")),
            bind("raiser", user("ray")),
        ],
    }
)


@pytest.mark.parametrize(
    ("caller", "written", "refused"),
    [
        (EVA, role("mine", HELD, namespace="shop"), ""),
        (EVA, role("mine", rule("delete", "pods"), namespace="shop"), 'Resources:["pods"], Verbs:["delete"]'),
        (Caller("ray"), role("mine", rule("delete", "pods"), namespace="shop"), ""),
        (ROOT, role("mine", rule("*", "*", "*"), namespace="shop"), ""),
        (EVA, {**role("sum"), "aggregationRule": {"clusterRoleSelectors": []}}, 'NonResourceURLs:["*"]'),
    ],
)
def test_a_user_writes_no_role_with_more_rights_than_the_user_has(
    caller: Caller, written: dict[str, Any], refused: str
) -> None:
    if not refused:
        check_role(EDITOR, caller, written, None)
        return
    with pytest.raises(Forbidden, match="is attempting to grant RBAC permissions not currently held") as error:
        check_role(EDITOR, caller, written, None)
    assert refused in str(error.value)


def test_an_edit_that_changes_no_rule_needs_no_rights() -> None:
    before = role("mine", rule("delete", "pods"), namespace="shop")

    check_role(EDITOR, EVA, {**before, "metadata": {**before["metadata"], "labels": {"team": "shop"}}}, before)


@pytest.mark.parametrize(
    ("labels", "before"),
    [({"aggregate-to-view": "true"}, {}), ({}, {"aggregate-to-view": "true"})],
    ids=["new", "gone"],
)
def test_a_label_of_a_cluster_role_needs_its_rights_because_aggregated_roles_choose_by_labels(
    labels: dict[str, str], before: dict[str, str]
) -> None:
    """Otherwise a label on cluster-admin would make every reader an administrator."""
    boss, reader = role("boss", rule("*", "*", "*"), **before), role("reader", HELD, **before)
    new, held = ({**one, "metadata": {**one["metadata"], "labels": labels}} for one in (boss, reader))

    with pytest.raises(Forbidden, match="is attempting to grant RBAC permissions not currently held"):
        check_role(EDITOR, EVA, new, boss)
    check_role(EDITOR, EVA, held, reader)
    check_role(EDITOR, ROOT, new, boss)
    check_role(EDITOR, EVA, {**boss, "metadata": {**boss["metadata"], "annotations": {"note": "x"}}}, boss)


@pytest.mark.parametrize(
    ("caller", "bound", "refused"),
    [
        (EVA, "reader", ""),
        (EVA, "boss", "not currently held"),
        (Caller("bob"), "boss", ""),
        (Caller("bob"), "reader", "not currently held"),
        (EVA, "missing", '"missing" not found'),
        (ROOT, "boss", ""),
    ],
)
def test_a_user_binds_no_role_with_more_rights_than_the_user_has(caller: Caller, bound: str, refused: str) -> None:
    written = bind(bound, user("eva"), namespace="shop")
    if not refused:
        check_binding(EDITOR, caller, written, None)
        return
    with pytest.raises(Forbidden, match=refused):
        check_binding(EDITOR, caller, written, None)


def test_an_aggregated_role_has_the_rules_of_the_roles_it_selects_once() -> None:
    whole = {**role("whole"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}}
    parts = [role("b", HELD, part="yes"), role("a", rule("get", "services"), HELD, part="yes"), role("c", HELD)]

    assert aggregated_rules(whole, [*parts, whole]) == [rule("get", "services"), HELD]
    assert aggregated_rules(parts[0], parts) is None


DEFAULTS = Policy(
    {
        CLUSTER_ROLE: [doc for doc in documents() if doc["kind"] == "ClusterRole"],
        CLUSTER_ROLE_BINDING: [
            *(doc for doc in documents() if doc["kind"] == "ClusterRoleBinding"),
            *(bind(name, user(name)) for name in ("view", "edit", "admin", "lifeboat:viewer", "lifeboat:operator")),
        ],
    }
)


@pytest.mark.parametrize(
    ("caller", "allowed", "refused"),
    [
        (
            "view",
            "get apps/deployments; list policy.karmada.io/propagationpolicies",
            "get /secrets; update apps/deployments",
        ),
        (
            "edit",
            "delete apps/deployments; get /secrets",
            "create rbac.authorization.k8s.io/roles; get work.karmada.io/works",
        ),
        ("admin", "create rbac.authorization.k8s.io/roles; get /secrets", "delete cluster.karmada.io/clusters"),
        (
            "lifeboat:viewer",
            "get cluster.karmada.io/clusters; list work.karmada.io/resourcebindings",
            "get /secrets; get work.karmada.io/works",
        ),
        (
            "lifeboat:operator",
            "update cluster.karmada.io/clusters; create failover.lifeboat.io/drains",
            "get /secrets; delete apps/deployments",
        ),
        ("guest", "create authorization.k8s.io/selfsubjectaccessreviews", "list /pods"),
    ],
)
def test_default_roles_allow_what_their_name_says(caller: str, allowed: str, refused: str) -> None:
    someone = Caller(caller, ("system:authenticated",))

    for text, expected in ((allowed, True), (refused, False)):
        for question in text.split("; "):
            verb, _, path = question.partition(" ")
            group_, _, resource = path.partition("/")
            verdict = DEFAULTS.authorize(someone, Request(verb, group_, resource, "", "shop"))
            assert verdict.allowed is expected, question


def test_the_default_roles_are_valid_objects() -> None:
    for document in documents():
        created(document, namespace="")


def test_rules_without_verbs_and_bindings_of_unknown_kinds_are_refused() -> None:
    wrong = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": "x"},
        "rules": [{"apiGroups": [""]}, {"verbs": ["get"], "nonResourceURLs": ["/"]}],
    }
    assert fields(wrong) == {"rules[0].verbs", "rules[0].resources", "rules[1].nonResourceURLs"}
    binding = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "x"},
        "roleRef": {"kind": "Role", "name": "x"},
        "subjects": [{"kind": "ServiceAccount", "name": "ci"}, {"kind": "Robot", "name": "r"}],
    }
    assert fields({**binding, "kind": "RoleBinding", "metadata": {"name": "x"}}) == {"subjects[1].kind"}


def test_an_aggregated_role_follows_the_roles_it_selects() -> None:
    controllers = [ClusterRoles()]
    store = MemoryStore(controllers=controllers, clock=lambda: START)
    whole = {**role("whole"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}}

    def settled() -> list[Any]:
        run.run_until_idle(controllers, store, Settings(), world=run.World())
        ref = Ref(CLUSTER_ROLE, "", "whole")
        rules: list[Any] = store.get([ref])[ref].content["rules"]
        return rules

    def stored(document: dict[str, Any]) -> Any:
        return created({"apiVersion": f"{GROUP}/v1", **document}, namespace="").object

    store.create(stored(whole), stored(role("some", HELD, part="yes")), stored(role("other", HELD)))
    assert settled() == [HELD]
    store.create(stored(role("more", rule("get", "services"), part="yes")))
    assert settled() == [rule("get", "services"), HELD]

"""Admission webhooks with writes: what a path of the server answers is in `hook_server`."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.admission.policy_cases import BAD, GROUP, LABEL, NAMESPACE, OK, Node, Write, filled, rules

ALL: list[Node] = rules("CREATE", "UPDATE", "DELETE")["resourceRules"]
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"


class HookCase(NamedTuple):
    """The webhooks of a case, each with its kind, and writes."""

    hooks: tuple[tuple[str, Node], ...]
    writes: tuple[Write, ...] = (OK,)


def check(path: str, **more: Any) -> tuple[str, Node]:
    """Return a validating webhook that is answered by a path."""
    return VALIDATING, {"path": path, **more}


def change(path: str, **more: Any) -> tuple[str, Node]:
    """Return a mutating webhook that is answered by a path."""
    return MUTATING, {"path": path, **more}


def when(expression: str) -> list[Node]:
    return [{"name": "condition", "expression": expression}]


DRY = Write("create", {"a": "1"}, dry_run=True)
UPDATED, DELETED = Write("update", {"a": "2"}), Write("delete")

HOOKS = (
    HookCase((check("allow"),), (OK, UPDATED, DELETED)),
    HookCase((check("describe"),), (DRY, OK, UPDATED, DELETED)),
    HookCase((change("describe"),), (DRY, OK, UPDATED, DELETED)),
    HookCase((check("deny"),)),
    HookCase((check("deny-message"),)),
    HookCase((check("deny-reason"),)),
    HookCase((check("deny-code"),)),
    HookCase((check("deny-low-code"),)),
    HookCase((change("deny-message"),)),
    HookCase((check("warn"),)),
    HookCase((check("deny-warn"),)),
    HookCase((check("warn"), check("deny-message"))),
    HookCase((check("deny-message", failurePolicy="Ignore"),)),
    HookCase((check("error"),)),
    HookCase((check("error", failurePolicy="Ignore"),)),
    HookCase((check("no-json"),)),
    HookCase((check("empty"),)),
    HookCase((check("wrong-uid"),)),
    HookCase((check("wrong-kind"),)),
    HookCase((check("wrong-version"),)),
    HookCase((check("wrong-kind", failurePolicy="Ignore"),)),
    HookCase((check("slow", timeoutSeconds=1),)),
    HookCase((check("slow", timeoutSeconds=1, failurePolicy="Ignore"),)),
    HookCase((check("redirect"),)),
    HookCase((check("patch-b"),)),
    HookCase((change("patch-b"), check("describe")), (OK, UPDATED)),
    HookCase((change("patch-b"), check("describe")), (DRY,)),
    HookCase((change("patch-b", sideEffects="NoneOnDryRun"),), (DRY,)),
    HookCase((change("patch-untyped"),)),
    HookCase((change("patch-typed-empty"),)),
    HookCase((change("patch-odd-type"),)),
    HookCase((change("patch-odd-type", failurePolicy="Ignore"),)),
    HookCase((change("patch-no-json"),)),
    HookCase((change("patch-nowhere"),)),
    HookCase((change("patch-nowhere", failurePolicy="Ignore"),)),
    HookCase((change("patch-wrong-type"),)),
    HookCase((change("patch-name"),)),
    HookCase((change("patch-unknown"), check("describe"))),
    HookCase((change("append-x"), change("append-y"), check("describe"))),
    HookCase((change("append-x", reinvocationPolicy="IfNeeded"), change("append-y"), check("describe"))),
    HookCase((change("append-x", reinvocationPolicy="IfNeeded"), check("describe"))),
    HookCase((change("append-x"), change("append-y", reinvocationPolicy="IfNeeded"), check("describe"))),
    HookCase(
        (
            change("append-x", reinvocationPolicy="IfNeeded"),
            change("append-y", reinvocationPolicy="IfNeeded"),
            check("describe"),
        )
    ),
    HookCase((check("deny", matchConditions=when("object.data.a == '2'")),), (OK, BAD)),
    HookCase((check("deny", matchConditions=when("object.data.zz == '2'")),)),
    HookCase((check("deny", failurePolicy="Ignore", matchConditions=when("object.data.zz == '2'")),)),
    HookCase((check("deny", matchConditions=[*when("object.data.zz == '2'"), {"name": "no", "expression": "false"}]),)),
    HookCase((check("deny", objectSelector={"matchLabels": {"skip": "{case}"}}),)),
    HookCase((check("deny", namespaceSelector={"matchLabels": {"team": "b"}}),)),
    HookCase((check("deny", namespaceSelector={"matchLabels": {"team": "a"}}),)),
    HookCase((check("deny", rules=rules("UPDATE")["resourceRules"]),), (OK, UPDATED)),
    HookCase((check("deny", rules=rules("*", groups=("*",), resources=("*",))["resourceRules"]),)),
    HookCase((check("deny", rules=rules("*", resources=("configmaps/status",))["resourceRules"]),)),
    HookCase((check("deny-delete"),), (OK, DELETED)),
    HookCase((change("deny-delete"),), (OK, DELETED)),
    HookCase((change("patch-b"),), (OK, DELETED)),
    HookCase((check("note"),)),
    HookCase((check("allow", caBundle="other"),)),
    HookCase((check("allow", port=1),)),
)


def configurations(case: int, url: str, bundle: str, other: str) -> list[Node]:
    """Return the configurations of a case, in the order of their names. `url`: of the server, without a path."""
    made = []
    for index, (kind, stated) in enumerate(filled(HOOKS[case].hooks, case)):
        hook = {key: value for key, value in stated.items() if key not in ("path", "caBundle", "port")}
        name = f"hook-{case}-{index}"
        address = url if "port" not in stated else f"https://127.0.0.1:{stated['port']}"
        ca = other if "caBundle" in stated else bundle
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{address}/{stated['path']}", "caBundle": ca},
            "rules": ALL,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": {LABEL: f"hook{case}"}},
            **hook,
        }
        made.append({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]})
    return made


def written(case: int, write: Write) -> Node:
    """Return the ConfigMap that a write of a case sends."""
    labels = {LABEL: f"hook{case}", **(write.labels or {})}
    metadata = {"name": f"hook{case}", "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": write.data or {}}


def _spec(**changes: Any) -> Node:
    made = {
        "name": "tried.example.com",
        "clientConfig": {"url": "https://127.0.0.1/check"},
        "rules": ALL,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


CONFIGURED: tuple[list[Node], ...] = (
    [],
    [_spec()],
    [_spec(name="")],
    [_spec(name="short")],
    [_spec(name="A.example.com")],
    [_spec(), _spec()],
    [_spec(rules=[])],
    [_spec(rules=None)],
    [_spec(rules=rules()["resourceRules"])],
    [_spec(rules=rules("READ")["resourceRules"])],
    [_spec(rules=rules("*", "CREATE")["resourceRules"])],
    [_spec(rules=rules("*", resources=("*/*", "a"))["resourceRules"])],
    [_spec(rules=rules("*", resources=("*", "a"))["resourceRules"])],
    [_spec(rules=rules("*", resources=("a/*", "a/b"))["resourceRules"])],
    [_spec(rules=rules("*", resources=("*", "a/b"))["resourceRules"])],
    [_spec(rules=rules("*", groups=("*", "a"))["resourceRules"])],
    [_spec(sideEffects=None)],
    [_spec(sideEffects="Some")],
    [_spec(sideEffects="Odd")],
    [_spec(admissionReviewVersions=None)],
    [_spec(admissionReviewVersions=["v1", "v1"])],
    [_spec(admissionReviewVersions=["v2"])],
    [_spec(timeoutSeconds=0)],
    [_spec(timeoutSeconds=31)],
    [_spec(timeoutSeconds=30)],
    [_spec(failurePolicy="Odd")],
    [_spec(matchPolicy="Odd")],
    [_spec(clientConfig=None)],
    [_spec(clientConfig={})],
    [_spec(clientConfig={"url": "http://127.0.0.1/"})],
    [_spec(clientConfig={"url": "https://"})],
    [_spec(clientConfig={"url": "https://a:b@127.0.0.1/"})],
    [_spec(clientConfig={"url": "https://127.0.0.1/?a=b"})],
    [_spec(clientConfig={"url": "https://127.0.0.1/#a"})],
    [_spec(clientConfig={"url": "nothing"})],
    [_spec(clientConfig={"url": "https://127.0.0.1/", "service": {"name": "a", "namespace": "b"}})],
    [_spec(clientConfig={"service": {"name": "a", "namespace": "b", "path": "/c"}})],
    [_spec(clientConfig={"service": {"name": "", "namespace": ""}})],
    [_spec(clientConfig={"service": {"name": "a", "namespace": "b", "path": "c"}})],
    [_spec(clientConfig={"service": {"name": "a", "namespace": "b", "port": 0}})],
    [_spec(matchConditions=when("objekt == 1"))],
    [_spec(matchConditions=when("1"))],
    [_spec(matchConditions=when("params.a == 1"))],
    [_spec(matchConditions=[*when("true"), *when("true")])],
    [_spec(objectSelector={"matchExpressions": [{"key": "a", "operator": "Odd"}]})],
)
"""Webhooks of configurations, each written once with dryRun."""
REINVOKED: tuple[list[Node], ...] = ([_spec(reinvocationPolicy="Odd")], [_spec(reinvocationPolicy="IfNeeded")])
"""The same for mutating webhooks."""

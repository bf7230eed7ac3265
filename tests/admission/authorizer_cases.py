"""Admission policies that ask what a user or a ServiceAccount may do, through the variable `authorizer`."""

from __future__ import annotations

from typing import Any

from tests.admission.policy_cases import DENY, NAMESPACE, OK, PARAM_KIND, PolicyCase, Write, check, policy, spec

READER = "case-reader"
GRANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "roles",
        {
            "metadata": {"name": READER},
            "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
                {
                    "apiGroups": ["apps"],
                    "resources": ["deployments/scale"],
                    "verbs": ["update"],
                    "resourceNames": ["web"],
                },
            ],
        },
    ),
    (
        "rolebindings",
        {
            "metadata": {"name": "case-readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER},
            "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": NAMESPACE}],
        },
    ),
)
"""What is granted in the namespace of the cases: plural and document."""

ACCOUNT = f"authorizer.serviceAccount('{NAMESPACE}', '{READER}')"
MAPS = f"{ACCOUNT}.group('').resource('configmaps').namespace('{NAMESPACE}')"
SCALE = f"{ACCOUNT}.group('apps').resource('deployments').subresource('scale').namespace('{NAMESPACE}')"


def true(expression: str) -> PolicyCase:
    """Return a policy whose only validation this is, and a write."""
    return PolicyCase(policy(check(expression)), (OK,))


def said(expression: str) -> PolicyCase:
    """Return a policy that denies a write with the value of an expression."""
    stated = policy(
        check("false", messageExpression="string(variables.value)"),
        variables=[{"name": "value", "expression": expression}],
    )
    return PolicyCase(stated, (OK,))


ASKING = (
    true("authorizer.group('').resource('configmaps').check('delete').allowed()"),
    true("authorizer.path('/anything').check('get').allowed()"),
    true("authorizer.requestResource.check('anything').allowed()"),
    true("authorizer.requestResource.name('other').namespace('default').check('get').allowed()"),
    true(f"{MAPS}.check('get').allowed()"),
    true(f"{MAPS}.check('delete').allowed()"),
    true(f"!{MAPS}.check('delete').allowed() && {MAPS}.check('list').allowed()"),
    true(f"{MAPS}.name('anything').check('get').allowed()"),
    true(f"{ACCOUNT}.group('').resource('configmaps').check('get').allowed()"),
    true(f"{SCALE}.name('web').check('update').allowed()"),
    true(f"{SCALE}.name('other').check('update').allowed()"),
    true(f"{ACCOUNT}.path('/api').check('get').allowed()"),
    true(f"{ACCOUNT}.path('/metrics').check('get').allowed()"),
    true(f"{MAPS}.check('get').errored()"),
    true(f"{MAPS}.check('get').error() == ''"),
    said(f"{MAPS}.check('get').reason()"),
    said(f"{MAPS}.check('delete').reason() == ''"),
    said(f"{ACCOUNT}.path('/api').check('get').reason()"),
    true("authorizer.serviceAccount('a b', 'c').path('/api').check('get').allowed()"),
    true("authorizer.serviceAccount('default', 'no name').path('/api').check('get').allowed()"),
    true("authorizer.path('').check('get').allowed()"),
    true(f"['get', 'list'].all(verb, {MAPS}.check(verb).allowed())"),
    true(f"['get', 'list', 'watch'].all(verb, {MAPS}.check(verb).allowed())"),
    true(f"{MAPS}.check('delete').allowed() || object.data.a == '1'"),
    true(f"{MAPS}.fieldSelector('metadata.name=a').check('list').allowed()"),
    true(f"{MAPS}.labelSelector('a=b').check('list').allowed()"),
    PolicyCase(
        policy(
            check("variables.may", message="not allowed"),
            variables=[{"name": "may", "expression": f"{MAPS}.check('delete').allowed()"}],
        ),
        (OK,),
    ),
    PolicyCase(
        policy(
            check("false", message="for deleters"),
            matchConditions=[{"name": "may", "expression": f"{MAPS}.check('delete').allowed()"}],
        ),
        (OK,),
    ),
    PolicyCase(
        policy(
            check("false", message="for readers"),
            matchConditions=[{"name": "may", "expression": f"{MAPS}.check('get').allowed()"}],
        ),
        (OK, Write("delete")),
    ),
    PolicyCase(
        {"auditAnnotations": [{"key": "may", "valueExpression": f"string({MAPS}.check('get').allowed())"}]},
        (OK,),
        (DENY,),
    ),
)
"""Policies with writes."""

ASKING_SPECS = (
    spec(check("authorizer")),
    spec(check("authorizer.requestResource")),
    spec(check("authorizer.requestResource.check('get')")),
    spec(check("authorizer.requestResource.check('get').allowed()")),
    spec(check("authorizer.requestResource.check('get').reason()")),
    spec(check("authorizer.group('apps').check('get').allowed()")),
    spec(check("authorizer.group('apps').resource('deployments').allowed()")),
    spec(check("authorizer.group(1).resource('deployments').check('get').allowed()")),
    spec(check("authorizer.resource('deployments').check('get').allowed()")),
    spec(check("authorizer.path('/a').namespace('b').check('get').allowed()")),
    spec(check("authorizer.serviceAccount('a').path('/').check('get').allowed()")),
    spec(check("authorizer.nothing")),
    spec(check("authorizer.user == 'a'")),
    spec(check("true", messageExpression="authorizer.path('/').check('get').reason()")),
    spec(check("true"), variables=[{"name": "may", "expression": "authorizer.path('/a').check('get')"}]),
    spec(
        check("variables.may.allowed()"),
        variables=[{"name": "may", "expression": "authorizer.path('/a').check('get')"}],
    ),
    spec(check("variables.may"), variables=[{"name": "may", "expression": "authorizer.path('/a').check('get')"}]),
    spec(check("true"), matchConditions=[{"name": "a", "expression": "authorizer.path('/a').check('get').allowed()"}]),
    spec(check("true"), matchConditions=[{"name": "a", "expression": "authorizer.path('/a').check('get')"}]),
    spec(
        check("true"), auditAnnotations=[{"key": "a", "valueExpression": "authorizer.path('/a').check('get').reason()"}]
    ),
    spec(check("authorizer.path('/a').check('get').allowed() && params.a == 1"), paramKind=PARAM_KIND),
)
"""Specs of policies, each written once with dryRun."""

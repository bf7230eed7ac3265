"""Specs of admission policies whose expressions are checked against the types of the kinds that they concern."""

from __future__ import annotations

from tests.admission.policy_cases import Node, check

KINDS: tuple[tuple[str, str, str], ...] = (
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
)


def of(*kinds: int, **more: object) -> Node:
    """Return matchConstraints for some of KINDS."""
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [plural]}
        for group, version, plural in (KINDS[index] for index in kinds)
    ]
    return {"resourceRules": rules, **more}


def typed(*expressions: str, to: Node, **more: object) -> Node:
    return {"matchConstraints": to, "validations": [check(one) for one in expressions], **more}


def rule(**more: object) -> Node:
    base: Node = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {"resourceRules": [{**base, **more}]}


TYPED: tuple[Node, ...] = (
    typed("object.spec.replicas > 5", to=of(0)),
    typed("object.spec.replicas > '5'", to=of(0)),
    typed("object.foo == 1", to=of(0)),
    typed("object.spec.replicas > 5", to=of(0, 2)),
    typed("object.foo == 1", "object.spec.replicas > 1", "object.bar == 'a'", to=of(0, 1)),
    typed("object.metadata.name == 1", to=of(0)),
    typed("object.metadata.nam == 'a'", to=of(0)),
    typed("object.metadata.labels['a'] == 1", to=of(0)),
    typed("has(object.spec.paused) && object.spec.paused", to=of(0)),
    typed("has(object.spec.pausedd)", to=of(0)),
    typed("oldObject.foo == 1", to=of(0)),
    typed("object.spec.template.spec.containers.all(c, c.image == 1)", to=of(0)),
    typed("object.spec.template.spec.containers.all(c, c.imag == 'a')", to=of(0)),
    typed("object.spec.containers.all(c, c.ports.all(p, p.containerPort == '80'))", to=of(2)),
    typed("object.spec.containers.all(c, c.resources.limits['cpu'] == 1)", to=of(2)),
    typed("object.spec.containers[0].livenessProbe.httpGet.port == 80", to=of(2)),
    typed("object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')", to=of(2)),
    typed("object.metadata.creationTimestamp == 'a'", to=of(2)),
    typed("object.data.a == 1", to=of(3)),
    typed("object.binaryData.a == 1", to=of(3)),
    typed("object.kind == 1 || object.apiVersion == 1", to=of(3)),
    typed("object.metadata.managedFields.size() == 'a'", to=of(3)),
    typed("object.metadata.namespace == 'a' && object.metadata.name == 'b'", to=of(3)),
    typed("request.name == 'a' && object.metadata.__namespace__ == 'b'", to=of(3)),
    typed("object.spec.strategy.rollingUpdate.maxUnavailable == 1", to=of(0)),
    typed("variables.a == 1", to=of(0), variables=[{"name": "a", "expression": "object.spec.nope"}]),
    typed("variables.a == 'x'", to=of(0), variables=[{"name": "a", "expression": "object.spec.replicas"}]),
    typed("true", to=of(0), matchConditions=[{"name": "a", "expression": "object.spec.nope == 1"}]),
    {
        "matchConstraints": of(0),
        "validations": [check("object.nope == 1", messageExpression="'a' + string(object.spec.nope2)")],
    },
    typed("true", to=of(0), auditAnnotations=[{"key": "k", "valueExpression": "string(object.spec.nope)"}]),
    typed("object.foo == 1", to=rule(resources=["*"])),
    typed("object.foo == 1", to=rule(apiGroups=["*"])),
    typed("object.foo == 1", to=rule(apiVersions=["*"])),
    typed("object.foo == 1", to=rule(resources=["pods/status"])),
    typed("object.foo == 1", to=rule(resources=["pods/*"])),
    typed("object.foo == 1", to=rule(resources=["nothing"])),
    typed("object.foo == 1", to=rule(resources=["pods", "services", "secrets"])),
    typed("object.foo == 1", to=rule(resources=["deployments/scale"], apiGroups=["apps"])),
    typed("object.foo == 1", to=rule(apiGroups=["", "apps"], resources=["pods", "deployments"])),
    typed(
        "object.foo == 1",
        to=rule(
            resources=[
                *("pods", "services", "secrets", "configmaps", "endpoints", "namespaces", "nodes", "limitranges"),
                *("events", "persistentvolumes", "persistentvolumeclaims", "serviceaccounts"),
            ]
        ),
    ),
    typed(
        "object.spec.replicas == 1",
        to=rule(apiGroups=["autoscaling"], apiVersions=["v1", "v2"], resources=["horizontalpodautoscalers"]),
    ),
    typed("params.data.a == 1 && object.foo == 1", to=of(0), paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
    typed("params.foo == 1", to=of(0), paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
    typed("params.foo == 1", to=of(0), paramKind={"apiVersion": "no.example.com/v1", "kind": "Nothing"}),
    typed("authorizer.path('/a').check('get').allowed() && object.foo == 1", to=of(0)),
    typed("object == null || object.foo == 1", to=of(0)),
    typed("object != null && oldObject != null && object.spec == oldObject.spec", to=of(0)),
    typed("object.?foo.orValue('a') == 'a'", to=of(0)),
    typed("dyn(object).foo == 'a'", to=of(0)),
    typed("object.spec.template == object.metadata", to=of(0)),
    typed("quantity(object.spec.containers[0].resources.limits.cpu).isGreaterThan(quantity('1'))", to=of(2)),
    typed("object.foo ==\n 1", to=of(0)) | {"validations": [check("object.foo ==\n 1", message="m")]},
)
"""Specs of policies, each stored."""

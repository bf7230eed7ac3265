"""ValidatingAdmissionPolicies with writes that follow or break them, and policies that are refused."""

from __future__ import annotations

from typing import Any, NamedTuple

Node = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
NAMESPACE = "admission-cases"
LABEL = "case"  # of the objects that a case writes; its value is the number of the case


class Write(NamedTuple):
    """A write of the ConfigMap of a case: `do` is create, update or delete."""

    do: str
    data: Node | None = None
    labels: Node | None = None
    dry_run: bool = False


class PolicyCase(NamedTuple):
    """The spec of a policy, without its matchConstraints, those of its bindings, its parameters, and writes."""

    spec: Node
    writes: tuple[Write, ...]
    bindings: tuple[Node, ...] = ({"validationActions": ["Deny"]},)
    params: tuple[Node, ...] = ()


def check(expression: str, **more: Any) -> Node:
    return {"expression": expression, **more}


def policy(*validations: Node, **more: Any) -> Node:
    return {"validations": list(validations), **more}


def rules(*operations: str, groups: tuple[str, ...] = ("",), resources: tuple[str, ...] = ("configmaps",)) -> Node:
    rule = {
        "apiGroups": list(groups),
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }
    return {"resourceRules": [rule]}


ALL = rules("CREATE", "UPDATE", "DELETE")
OK, BAD = Write("create", {"a": "1"}), Write("create", {"a": "2"})
IS_ONE = "object.data.a == '1'"
DENY: Node = {"validationActions": ["Deny"]}
PARAM_KIND: Node = {"apiVersion": "v1", "kind": "ConfigMap"}
NAMED: Node = {"name": "params-{case}", "namespace": NAMESPACE, "parameterNotFoundAction": "Deny"}
PARAM: Node = {"name": "params-{case}", "data": {"want": "1"}, "labels": {"params": "p{case}"}}
WANTED = check("object.data.a == params.data.want", message="not what is wanted")


def bound(*actions: str, **more: Any) -> Node:
    return {"validationActions": list(actions), **more}


PLAIN = (
    PolicyCase(policy(check(IS_ONE)), (OK, Write("update", {"a": "2"}), Write("update", {"a": "1", "b": "2"}))),
    PolicyCase(policy(check(IS_ONE)), (BAD,)),
    PolicyCase(policy(check(IS_ONE, message="a must be 1")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, messageExpression="'a is ' + object.data.a")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, message="plain", messageExpression="'a is ' + object.data.zz")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, message="plain", messageExpression="'  '")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, messageExpression="'two\\nlines'")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, reason="Forbidden")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, reason="RequestEntityTooLarge")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, reason="Invalid")), (BAD,)),
    PolicyCase(policy(check(IS_ONE, message="first"), check("object.data.a != '2'", message="second")), (BAD, OK)),
    PolicyCase(policy(check("object.data.zz == '1'")), (OK,)),
    PolicyCase(policy(check("object.data.zz == '1'"), failurePolicy="Ignore"), (OK,)),
    PolicyCase(policy(check("object.data.zz == '1'")), (OK,), (bound("Warn"),)),
    PolicyCase(policy(check(IS_ONE)), (BAD,), (bound("Warn"),)),
    PolicyCase(policy(check(IS_ONE, message="a must be 1")), (BAD,), (bound("Warn", "Audit"),)),
    PolicyCase(policy(check(IS_ONE)), (BAD,), (bound("Audit"),)),
    PolicyCase(policy(check(IS_ONE)), (BAD,), (bound("Deny", "Audit"),)),
    PolicyCase(policy(check(IS_ONE)), (BAD,), ()),
    PolicyCase(policy(check("!has(oldObject.data.a) || object.data.a == oldObject.data.a")), (OK,)),
    PolicyCase(
        policy(check("oldObject == null || object.data.a == oldObject.data.a", message="a is fixed")),
        (OK, Write("update", {"a": "2"}), Write("update", {"a": "1", "b": "1"})),
    ),
    PolicyCase(
        policy(check("object != null || oldObject.data.a != 'kept'", message="kept")),
        (Write("create", {"a": "kept"}), Write("delete"), Write("update", {"a": "1"}), Write("delete")),
    ),
    PolicyCase(
        policy(check("request.operation != 'DELETE'", message="may not go")), (OK, Write("delete", dry_run=True))
    ),
    PolicyCase(
        policy(
            check("variables.twice == 'xx'", messageExpression="'twice is ' + variables.twice"),
            variables=[
                {"name": "value", "expression": "object.data.a"},
                {"name": "twice", "expression": "variables.value + variables.value"},
            ],
        ),
        (Write("create", {"a": "x"}), Write("update", {"a": "y"})),
    ),
    PolicyCase(
        policy(check("variables.bad == 1"), variables=[{"name": "bad", "expression": "int(object.data.a)"}]),
        (OK, Write("update", {"a": "no number"})),
    ),
    PolicyCase(
        policy(check("true"), variables=[{"name": "bad", "expression": "int(object.data.a)"}]),
        (Write("create", {"a": "no number"}),),
    ),
    PolicyCase(
        policy(
            check("false", message="never"), matchConditions=[{"name": "two", "expression": "object.data.a == '2'"}]
        ),
        (OK, Write("update", {"a": "2"})),
    ),
    PolicyCase(
        policy(check("false"), matchConditions=[{"name": "odd", "expression": "object.data.zz == '2'"}]),
        (OK,),
    ),
    PolicyCase(
        policy(
            check("false"),
            matchConditions=[
                {"name": "odd", "expression": "object.data.zz == '2'"},
                {"name": "no", "expression": "false"},
            ],
        ),
        (OK,),
    ),
    PolicyCase(
        policy(
            check("false"),
            failurePolicy="Ignore",
            matchConditions=[{"name": "odd", "expression": "object.data.zz == '2'"}],
        ),
        (OK,),
    ),
    PolicyCase(
        policy(
            check(
                "request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.resource.resource == "
                "'configmaps' && request.namespace == 'admission-cases' && request.userInfo.username != '' && "
                "'system:authenticated' in request.userInfo.groups && !request.dryRun && request.subResource == '' && "
                "request.requestKind.version == 'v1' && request.name.startsWith('case')"
            )
        ),
        (OK,),
    ),
    PolicyCase(
        policy(
            check(
                "request.operation == 'CREATE' && request.resource.version == 'v1' && request.namespace != '' && "
                "request.userInfo.username != '' && !request.dryRun && !has(request.subResource) && "
                "request.options.kind == 'CreateOptions' && size(request.userInfo.groups) > 0"
            )
        ),
        (OK,),
    ),
    PolicyCase(
        policy(check("request.dryRun == false", message="dry")), (Write("create", {"a": "1"}, dry_run=True), OK)
    ),
    PolicyCase(
        policy(
            check(
                "namespaceObject.metadata.name == 'admission-cases' && namespaceObject.metadata.labels['team'] == 'a'"
            )
        ),
        (OK,),
    ),
    PolicyCase(policy(check("namespaceObject.metadata.labels['team'] == 'b'")), (OK,)),
    PolicyCase(
        policy(WANTED, paramKind=PARAM_KIND),
        (OK, Write("update", {"a": "2"})),
        (bound("Deny", paramRef=NAMED),),
        (PARAM,),
    ),
    PolicyCase(policy(WANTED, paramKind=PARAM_KIND), (OK,), (bound("Deny", paramRef=NAMED),)),
    PolicyCase(
        policy(WANTED, paramKind=PARAM_KIND),
        (OK,),
        (bound("Deny", paramRef={**NAMED, "parameterNotFoundAction": "Allow"}),),
    ),
    PolicyCase(policy(WANTED, paramKind=PARAM_KIND, failurePolicy="Ignore"), (OK,), (bound("Deny", paramRef=NAMED),)),
    PolicyCase(
        policy(WANTED, paramKind=PARAM_KIND),
        (OK, Write("update", {"a": "2"})),
        (
            bound(
                "Deny", paramRef={"selector": {"matchLabels": {"params": "p{case}"}}, "parameterNotFoundAction": "Deny"}
            ),
        ),
        (PARAM, {**PARAM, "name": "more-{case}", "data": {"want": "3"}}),
    ),
    PolicyCase(
        policy(WANTED, paramKind=PARAM_KIND),
        (OK,),
        (
            bound(
                "Deny", paramRef={"selector": {"matchLabels": {"params": "nothing"}}, "parameterNotFoundAction": "Deny"}
            ),
        ),
        (PARAM,),
    ),
    PolicyCase(
        policy(WANTED, paramKind=PARAM_KIND),
        (OK, Write("update", {"a": "2"})),
        (bound("Deny", paramRef={"name": "params-{case}", "parameterNotFoundAction": "Deny"}),),
        (PARAM,),
    ),
    PolicyCase(policy(check("params == null"), paramKind=PARAM_KIND), (OK,), (DENY,)),
    PolicyCase(
        policy(WANTED, paramKind={"apiVersion": "nowhere.example.com/v1", "kind": "Nothing"}),
        (OK,),
        (bound("Deny", paramRef=NAMED),),
    ),
    PolicyCase(
        policy(check(IS_ONE), auditAnnotations=[{"key": "value", "valueExpression": "'a is ' + object.data.a"}]), (OK,)
    ),
    PolicyCase({"auditAnnotations": [{"key": "value", "valueExpression": "null"}]}, (OK,)),
    PolicyCase({"auditAnnotations": [{"key": "value", "valueExpression": "string(object.data.zz)"}]}, (OK,)),
    PolicyCase(
        policy(check(IS_ONE)),
        (BAD, Write("create", {"a": "2"}, {"skip": "yes"})),
        (bound("Deny", matchResources={"objectSelector": {"matchLabels": {"case": "{case}", "skip": "yes"}}}),),
    ),
    PolicyCase(
        policy(check(IS_ONE)),
        (BAD,),
        (bound("Deny", matchResources={"namespaceSelector": {"matchLabels": {"team": "b"}}}),),
    ),
    PolicyCase(
        policy(check(IS_ONE)),
        (BAD,),
        (
            bound(
                "Deny",
                matchResources={
                    "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}
                },
            ),
        ),
    ),
    PolicyCase(
        policy(check(IS_ONE)),
        (BAD,),
        (bound("Deny", matchResources={"excludeResourceRules": rules("*")["resourceRules"]}),),
    ),
    PolicyCase(
        policy(check(IS_ONE)),
        (BAD,),
        (bound("Deny", matchResources={"resourceRules": rules("UPDATE")["resourceRules"]}),),
    ),
    PolicyCase(
        policy(
            check(IS_ONE),
            matchConstraints={
                **ALL,
                "excludeResourceRules": [{**ALL["resourceRules"][0], "resourceNames": ["case{case}"]}],
            },
        ),
        (BAD,),
    ),
    PolicyCase(
        policy(check(IS_ONE), matchConstraints={"resourceRules": [{**ALL["resourceRules"][0], "scope": "Cluster"}]}),
        (BAD,),
    ),
    PolicyCase(
        policy(check(IS_ONE), matchConstraints={"resourceRules": [{**ALL["resourceRules"][0], "scope": "Namespaced"}]}),
        (BAD,),
    ),
    PolicyCase(policy(check(IS_ONE), matchConstraints=rules("*", groups=("*",), resources=("*",))), (BAD,)),
    PolicyCase(policy(check(IS_ONE), matchConstraints=rules("*", groups=("*",), resources=("*/*",))), (BAD,)),
    PolicyCase(policy(check(IS_ONE), matchConstraints=rules("*", groups=("apps",))), (BAD,)),
    PolicyCase(policy(check(IS_ONE), matchConstraints=rules("*", resources=("configmaps/status",))), (BAD,)),
    PolicyCase(policy(check("object.metadata.labels.exists(k, k == 'case')")), (OK,)),
    PolicyCase(
        policy(check("object.data.all(k, object.data[k].size() < 3)")), (OK, Write("update", {"a": "long text"}))
    ),
    PolicyCase(policy(check("object.?data.?zz.orValue('none') == 'none'")), (OK, Write("update", {"zz": "1"}))),
    PolicyCase(policy(check("quantity(object.data.a).isLessThan(quantity('2'))")), (OK, Write("update", {"a": "3"}))),
)

CHECKED = policy(check(IS_ONE), matchConstraints=ALL)


def spec(*validations: Node, **more: Any) -> Node:
    made = {"matchConstraints": ALL, **policy(*validations, **more)}
    return {key: value for key, value in made.items() if value is not None}


PLAIN_SPECS: tuple[Node, ...] = (
    spec(check(IS_ONE)),
    {},
    {"matchConstraints": ALL},
    spec(validations=[]),
    {"validations": [check(IS_ONE)]},
    spec(check(IS_ONE), matchConstraints={}),
    spec(check(IS_ONE), matchConstraints={"resourceRules": []}),
    spec(check(IS_ONE), matchConstraints=rules()),
    spec(check(IS_ONE), matchConstraints=rules("READ")),
    spec(check(IS_ONE), matchConstraints=rules("*", "CREATE")),
    spec(check(IS_ONE), matchConstraints=rules("CREATE", resources=())),
    spec(check(IS_ONE), matchConstraints=rules("CREATE", resources=("*", "pods"))),
    spec(check(IS_ONE), matchConstraints=rules("CREATE", groups=())),
    spec(check(IS_ONE), matchConstraints=rules("CREATE", groups=("*", "apps"))),
    spec(check(IS_ONE), matchConstraints={**ALL, "matchPolicy": "Some"}),
    spec(check(IS_ONE), matchConstraints={"resourceRules": [{**ALL["resourceRules"][0], "scope": "Village"}]}),
    spec(check(IS_ONE), matchConstraints={"resourceRules": [{**ALL["resourceRules"][0], "apiVersions": []}]}),
    spec(check(IS_ONE), matchConstraints={"resourceRules": [{**ALL["resourceRules"][0], "resourceNames": ["a", "a"]}]}),
    spec(
        check(IS_ONE),
        matchConstraints={**ALL, "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}},
    ),
    spec(check("")),
    spec(check("  ")),
    spec(check("object.data.a ==")),
    spec(check("objekt.data.a == '1'")),
    spec(check("1 + 1")),
    spec(check("'text'")),
    spec(check("object.data.a == 1")),
    spec(check("1 == 'a'")),
    spec(check("request.operatoin == 'CREATE'")),
    spec(check("request.operation == 1")),
    spec(check("namespaceObject.metadata.nam == 'a'")),
    spec(check("namespaceObject.spec.finalizers.size() == 0")),
    spec(check("variables.twice == 'a'")),
    spec(check("params.a == 1")),
    spec(check("params.a == 1"), paramKind=PARAM_KIND),
    spec(check(IS_ONE), paramKind={"apiVersion": "", "kind": "X"}),
    spec(check(IS_ONE), paramKind={"apiVersion": "v1", "kind": ""}),
    spec(check(IS_ONE), paramKind={"apiVersion": "a/b/c", "kind": "X"}),
    spec(check(IS_ONE), failurePolicy="Sometimes"),
    spec(check(IS_ONE, reason="Sad")),
    spec(check(IS_ONE, message="  ")),
    spec(check(IS_ONE, message="two\nlines")),
    spec(check("object.data.a ==\n'1'")),
    spec(check("object.data.a ==\n'1'", message="a")),
    spec(check(IS_ONE, messageExpression="  ")),
    spec(check(IS_ONE, messageExpression="1")),
    spec(check(IS_ONE, messageExpression="'a' +")),
    spec(check(IS_ONE), variables=[{"name": "a", "expression": "object.data.a"}, {"name": "a", "expression": "'b'"}]),
    spec(check(IS_ONE), variables=[{"name": "a-b", "expression": "'b'"}]),
    spec(check(IS_ONE), variables=[{"name": "", "expression": "'b'"}]),
    spec(check(IS_ONE), variables=[{"name": "a", "expression": ""}]),
    spec(check(IS_ONE), variables=[{"name": "a", "expression": "b +"}]),
    spec(check(IS_ONE), variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "'b'"}]),
    spec(check("variables.a == 1"), variables=[{"name": "a", "expression": "'text'"}]),
    spec(check("variables.a + 1 == 2"), variables=[{"name": "a", "expression": "1"}]),
    spec(check(IS_ONE), matchConditions=[{"name": "", "expression": "true"}]),
    spec(check(IS_ONE), matchConditions=[{"name": "a b", "expression": "true"}]),
    spec(check(IS_ONE), matchConditions=[{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
    spec(check(IS_ONE), matchConditions=[{"name": "a", "expression": ""}]),
    spec(check(IS_ONE), matchConditions=[{"name": "a", "expression": "1"}]),
    spec(check(IS_ONE), matchConditions=[{"name": "a", "expression": "objekt == 1"}]),
    spec(check(IS_ONE), matchConditions=[{"name": f"a{index}", "expression": "true"} for index in range(65)]),
    spec(check(IS_ONE), auditAnnotations=[{"key": "", "valueExpression": "'a'"}]),
    spec(check(IS_ONE), auditAnnotations=[{"key": "a b", "valueExpression": "'a'"}]),
    spec(check(IS_ONE), auditAnnotations=[{"key": "a", "valueExpression": ""}]),
    spec(check(IS_ONE), auditAnnotations=[{"key": "a", "valueExpression": "1"}]),
    spec(
        check(IS_ONE), auditAnnotations=[{"key": "a", "valueExpression": "'a'"}, {"key": "a", "valueExpression": "'b'"}]
    ),
    spec(check(IS_ONE), auditAnnotations=[{"key": f"a{index}", "valueExpression": "'a'"} for index in range(21)]),
    spec(check(IS_ONE, reason="Unauthorized")),
    spec(check("object.data.a")),
    spec(check("params.data.want == '1'")),
    spec(check(IS_ONE), auditAnnotations=[{"key": "a", "valueExpression": "object.data.zz"}]),
    spec(check("url('http://a').getHost() == 'a'")),
    spec(check("isQuantity('1') && '10.0.0.1'.matches('[0-9.]+') && ip.isCanonical('10.0.0.1')")),
)
"""Specs of policies, each written once with dryRun."""

BINDING: Node = {"policyName": "some-policy", "validationActions": ["Deny"]}
BINDINGS: tuple[Node, ...] = (
    BINDING,
    {},
    {"policyName": "some-policy"},
    {**BINDING, "policyName": ""},
    {**BINDING, "policyName": "a b"},
    {**BINDING, "validationActions": []},
    {**BINDING, "validationActions": ["Deny", "Deny"]},
    {**BINDING, "validationActions": ["Deny", "Warn"]},
    {**BINDING, "validationActions": ["Shout"]},
    {**BINDING, "paramRef": {}},
    {**BINDING, "paramRef": {"name": "a"}},
    {**BINDING, "paramRef": {"name": "a", "parameterNotFoundAction": "Shout"}},
    {**BINDING, "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
    {**BINDING, "paramRef": {"parameterNotFoundAction": "Deny"}},
    {**BINDING, "paramRef": {"name": "a b", "parameterNotFoundAction": "Deny"}},
    {**BINDING, "paramRef": {"name": "a", "namespace": "a b", "parameterNotFoundAction": "Deny"}},
    {**BINDING, "paramRef": {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}},
    {**BINDING, "matchResources": {}},
    {**BINDING, "matchResources": {"matchPolicy": "Some"}},
    {**BINDING, "matchResources": {"objectSelector": {"matchLabels": {"a": "b c"}}}},
    {**BINDING, "matchResources": rules("READ")},
    {**BINDING, "matchResources": {"resourceRules": []}},
)
"""Specs of bindings, each written once with dryRun."""


def filled(value: Any, case: int) -> Any:
    """Return a value with the number of its case in place of {case}."""
    if isinstance(value, dict):
        return {key: filled(inner, case) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [filled(inner, case) for inner in value]
    return value.replace("{case}", str(case)) if isinstance(value, str) else value

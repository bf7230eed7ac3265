"""Schemas with rules and writes that follow or break them; definitions whose rules are refused."""

from __future__ import annotations

from typing import Any, NamedTuple

Node = dict[str, Any]

GROUP = "cel.example.com"
INT: Node = {"type": "integer"}
TEXT: Node = {"type": "string", "maxLength": 64}


class Case(NamedTuple):
    """A schema of `spec`, and the spec of a write. `old`: the stored spec; None: the object is created."""

    schema: Node
    new: Any
    old: Any = None


def rule(text: str, **more: Any) -> Node:
    return {"rule": text, **more}


def obj(*rules: Node, **properties: Node) -> Node:
    """Return the schema of an object with these rules."""
    return {"type": "object", "properties": properties} | ({"x-kubernetes-validations": list(rules)} if rules else {})


def ruled(node: Node, *rules: Node) -> Node:
    return {**node, "x-kubernetes-validations": list(rules)}


def array(items: Node, **more: Any) -> Node:
    return {"type": "array", "maxItems": 20, "items": items, **more}


def mapping(values: Node, **more: Any) -> Node:
    return {"type": "object", "maxProperties": 20, "additionalProperties": values, **more}


ITEM = obj(rule("self.low <= self.high", message="low must not exceed high"), name=TEXT, low=INT, high=INT)
GROWING = obj(rule("self.size >= oldSelf.size", message="may only grow"), name=TEXT, size=INT)
KEYED: Node = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
NAMED = {**GROWING, "required": ["name"]}

WRITES = [
    Case(obj(rule("self.x > 1"), x=INT), {"x": 2}),
    Case(obj(rule("self.x > 1"), x=INT), {"x": 1}),
    Case(obj(rule("self.x > 1", message="x is too small"), x=INT), {"x": 1}),
    Case(obj(rule("self.x > 1", messageExpression="'t is ' + self.t"), x=INT, t=TEXT), {"x": 1, "t": "b"}),
    Case(obj(rule("self.x > 1", message="plain", messageExpression="'a' + self.t"), x=INT, t=TEXT), {"x": 1}),
    Case(obj(rule("self.x > 1", message="plain", messageExpression="'  '"), x=INT), {"x": 1}),
    Case(obj(rule("self.x > 1", reason="FieldValueForbidden", fieldPath=".x"), x=INT), {"x": 1}),
    Case(obj(rule("has(self.x)", reason="FieldValueRequired", fieldPath=".x", message="say x"), x=INT), {}),
    Case(obj(rule("self.x > 1", reason="FieldValueDuplicate", message="again"), x=INT), {"x": 1}),
    Case(obj(x=ruled(INT, rule("self % 2 == 0", message="must be even"))), {"x": 3}),
    Case(obj(t=ruled(TEXT, rule("self.startsWith('a')"))), {"t": "b"}),
    Case(obj(items=array(ITEM)), {"items": [{"low": 1, "high": 2}, {"low": 3, "high": 2}]}),
    Case(obj(named=mapping(ITEM)), {"named": {"a": {"low": 3, "high": 2}, "b.c": {"low": 1, "high": 2}}}),
    Case(obj(named=mapping(ITEM)), {"named": {"b.c": {"low": 3, "high": 2}}}),
    Case(obj(rule("self.x == oldSelf.x", message="is immutable"), x=INT), {"x": 2}),
    Case(obj(rule("self.x == oldSelf.x", message="is immutable"), x=INT), {"x": 2}, {"x": 1}),
    Case(obj(rule("self.x == oldSelf.x", message="is immutable"), x=INT), {"x": 1}, {"x": 1}),
    Case(obj(x=ruled(INT, rule("self >= oldSelf"))), {"x": 1}, {"x": 2}),
    Case(obj(x=ruled(INT, rule("self >= oldSelf"))), {"x": 1}, {}),
    Case(
        obj(x=ruled(INT, rule("oldSelf.hasValue() || self == 1", optionalOldSelf=True, message="begins with 1"))),
        {"x": 2},
    ),
    Case(
        obj(x=ruled(INT, rule("!oldSelf.hasValue() || self > oldSelf.value()", optionalOldSelf=True))),
        {"x": 2},
        {"x": 3},
    ),
    Case(
        obj(items=array(NAMED, **KEYED)),
        {"items": [{"name": "b", "size": 1}, {"name": "a", "size": 1}]},
        {"items": [{"name": "a", "size": 2}, {"name": "b", "size": 1}]},
    ),
    Case(obj(named=mapping(GROWING)), {"named": {"a": {"size": 1}}}, {"named": {"a": {"size": 2}}}),
    Case(obj(named=mapping(GROWING)), {"named": {"c": {"size": 1}}}, {"named": {"a": {"size": 2}}}),
    Case(obj(rule("self.items.all(i, i.low > 0)"), items=array(ITEM)), {"items": [{"low": 0, "high": 1}]}),
    Case(obj(rule("self.f < 1.5"), f={"type": "number"}), {"f": 2}),
    Case(obj(rule("self.f == 2.0"), f={"type": "number"}), {"f": 2}),
    Case(obj(rule("self.foo__dash__bar > 1"), **{"foo-bar": INT}), {"foo-bar": 1}),
    Case(obj(rule("self.__namespace__ == 'a'"), namespace=TEXT), {"namespace": "b"}),
    Case(obj(rule("self.d > duration('1m')"), d={"type": "string", "format": "duration"}), {"d": "30s"}),
    Case(
        obj(rule("self.t > timestamp('2020-01-01T00:00:00Z')"), t={"type": "string", "format": "date-time"}),
        {"t": "2019-01-01T00:00:00Z"},
    ),
    Case(obj(rule("self.p == 80 || self.p == 'http'"), p={"x-kubernetes-int-or-string": True}), {"p": "https"}),
    Case(obj(rule("quantity(self.q).isLessThan(quantity('1Gi'))"), q=TEXT), {"q": "2Gi"}),
    Case(obj(rule("quantity(self.q).isLessThan(quantity('1Gi'))"), q=TEXT), {"q": "500Mi"}),
    Case(obj(rule("cidr('10.0.0.0/8').containsIP(self.ip)"), ip=TEXT), {"ip": "11.0.0.1"}),
    Case(obj(rule("isIP(self.ip) && ip(self.ip).family() == 4"), ip=TEXT), {"ip": "::1"}),
    Case(obj(rule("url(self.u).getScheme() == 'https'"), u=TEXT), {"u": "http://a.b/c"}),
    Case(obj(rule("self.l.isSorted() && self.l.sum() < 10"), l=array(INT)), {"l": [1, 2, 9]}),
    Case(obj(rule("self.t.find('[0-9]+') == '12'"), t=TEXT), {"t": "ab 13"}),
    Case(obj(rule("self.?t.orValue('a') == 'b'"), t=TEXT), {}),
    Case(obj(rule("self.x > 1"), x=INT), {}),
    Case(obj(rule("self.x > 1"), rule("self.x > 2"), x=INT), {"x": 1}),
    Case(obj(rule("self.x > 1 "), x={**INT, "maximum": 5}), {"x": 9}),
    Case(obj(inner=obj(rule("self.x > 1", fieldPath=".deep.y"), x=INT, deep=obj(y=INT))), {"inner": {"x": 1}}),
    Case(obj(rule("self.m.all(k, k.size() < 3)", fieldPath=".m['a-b']"), m=mapping(INT)), {"m": {"abc": 1}}),
    Case(obj(rule("self.b == b'abc'"), b={"type": "string", "format": "byte", "maxLength": 9}), {"b": "YWJj"}),
    Case(
        obj(rule("self.s == oldSelf.s"), s=array(TEXT, **{"x-kubernetes-list-type": "set"})),
        {"s": ["a", "b"]},
        {"s": ["b", "a"]},
    ),
]

DEFINITIONS = [
    obj(rule("self.x > 1 &&"), x=INT),
    obj(rule("self.nope > 1"), x=INT),
    obj(rule("self.x"), x=INT),
    obj(rule("self.x > 'a'"), x=INT),
    obj(rule("unknown(self.x)"), x=INT),
    obj(rule(""), x=INT),
    obj(rule("self.x > 1", message=" "), x=INT),
    obj(rule("self.x > 1", message="a\nb"), x=INT),
    obj(rule("self.x > 1\n|| true"), x=INT),
    obj(rule("self.x > 1", messageExpression="self.x"), x=INT),
    obj(rule("self.x > 1", messageExpression="self.nope"), x=INT),
    obj(rule("self.x > 1", messageExpression=" "), x=INT),
    obj(rule("self.x > 1", reason="Bad"), x=INT),
    obj(rule("self.x > 1", fieldPath=".nope"), x=INT),
    obj(rule("self.x > 1", fieldPath="x"), x=INT),
    obj(rule("self.x > 1", fieldPath=".l[0]"), x=INT, l=array(INT)),
    obj(rule("self.x > 1", fieldPath=".m['a']"), x=INT, m=mapping(INT)),
    obj(rule("self.x > 1", optionalOldSelf=True), x=INT),
    obj(items=array(GROWING)),
    obj(items=array(NAMED, **KEYED)),
    obj(rule("self.x > oldSelf.x"), x=INT),
    obj(rule("self.items.all(i, i.nope > 1)"), items=array(ITEM)),
    obj(rule("self.m.a > 1"), m=mapping(INT)),
    obj(rule("self.x == self.t"), x=INT, t=TEXT),
    obj(rule("quantity(self.t) > 1"), t=TEXT),
]


def definition(index: int, schema: Node) -> Node:
    """Return a CustomResourceDefinition whose objects have a spec of this schema."""
    names = {"plural": f"cases{index}", "kind": f"Case{index}"}
    root = {"type": "object", "properties": {"spec": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def instance(index: int, spec: Any) -> Node:
    return {"apiVersion": f"{GROUP}/v1", "kind": f"Case{index}", "metadata": {"name": "a"}, "spec": spec}

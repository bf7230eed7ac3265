"""Expressions as the definitions of well-known projects have them compile with their types and give the right value."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.wire.cel.rule_faults import faults
from controlplane.wire.cel.rules import RuledNode, violations

TEXT: dict[str, Any] = {"type": "string"}
INT: dict[str, Any] = {"type": "integer"}
LISTENER = {
    "type": "object",
    "properties": {"name": TEXT, "port": INT, "tls": {"type": "object", "properties": {"mode": TEXT}}},
}
FIELDS: dict[str, Any] = {
    "type": TEXT,
    "ratio": {"type": "number"},
    "count": INT,
    "listeners": {"type": "array", "items": LISTENER},
    "labels": {"type": "object", "additionalProperties": TEXT},
    "matrix": {"type": "array", "items": {"type": "array", "items": INT}},
    "groups": {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}},
    "filter": {"type": "object", "properties": {"a": TEXT}},
    "port": {"x-kubernetes-int-or-string": True},
    "names": {"type": "array", "items": TEXT},
    "lasts": {"type": "string", "format": "duration"},
}
VALUE: dict[str, Any] = {
    "type": "A",
    "ratio": 2,
    "count": 1,
    "listeners": [{"name": "a", "port": 1, "tls": {"mode": "x"}}, {"name": "b"}],
    "labels": {"a/b": "c"},
    "matrix": [[1, 2]],
    "groups": {"k": ["v"]},
    "filter": {"a": "x"},
    "port": "80",
    "names": ["a", "b"],
    "lasts": "1h30m",
}
TRUE = (
    "self.ratio < 3 && self.ratio > self.count",
    "self.type == 'A' ? has(self.filter) : true",
    "self.listeners.all(l1, self.listeners.exists_one(l2, l1.name == l2.name && has(l1.port) == has(l2.port)))",
    "self.listeners.filter(l, l.name == 'a').size() <= 1",
    "'a/b' in self.labels && self.labels.all(k, k.contains('/'))",
    "self.matrix[0][0] == 1 && self.matrix.all(row, row.all(cell, cell > 0)) && self.matrix[0].max() == 2",
    "self.groups['k'].exists(v, v == 'v') && self.groups.k[0] == 'v'",
    "type(self.port) == string && string(self.port).matches('^[0-9]+$')",
    "self.names.map(x, x.size()).sum() == 2 && self.names.join(',') == 'a,b' && self.names.indexOf('b') == 1",
    "self.lasts == duration('90m') && self.lasts < duration('24h')",
    "self.listeners[0].?tls.mode.orValue('') == 'x' && self.?filter.?a.hasValue()",
    "self.listeners.exists(l, l.?port.optMap(p, p > 0).orValue(false))",
    "'%s-%d'.format([self.type, self.count]) == 'A-1' && self.type.lowerAscii() == 'a'",
    "quantity('1Gi').add(quantity('1Mi')).isGreaterThan(quantity('1Gi')) && sets.contains(self.names, ['a'])",
)
REFUSED = (
    ("self.ratio == self.count", "no matching overload"),
    ("self.listeners.all(l, l.nam == '')", "undefined field 'nam'"),
    ("self.listeners.all(index, l, l.name != '')", "undeclared reference"),
    ("!format.dns1123Label().validate(self.type).hasValue()", "undeclared reference"),
    ("authorizer.path('/').check('get').allowed()", "undeclared reference"),
    ("self.type == '" + "a" * 20000 + "'", "at most 16384"),
)


def node(rule: str) -> dict[str, Any]:
    return {"type": "object", "properties": FIELDS, "x-kubernetes-validations": [{"rule": rule}]}


def ignore(field: str, rule: str) -> None:
    """Rules of tests need no time limit."""


@pytest.mark.parametrize("rule", TRUE)
def test_an_expression_compiles_and_is_true(rule: str) -> None:
    assert faults(node(rule), "schema", begins=ignore) == []
    assert violations(RuledNode(node(rule)), VALUE, begins=ignore) == []


@pytest.mark.parametrize(("rule", "why"), REFUSED)
def test_an_expression_that_cannot_be_run_is_refused_with_the_reason(rule: str, why: str) -> None:
    (fault,) = faults(node(rule), "schema", begins=ignore)
    assert fault.field == "schema.x-kubernetes-validations[0].rule"
    assert why in fault.why


def test_loops_beyond_the_limit_of_steps_are_a_refusal_that_says_what_to_do() -> None:
    rule = "self.names.all(a, self.names.all(b, a.size() == b.size()))"
    (cause,) = violations(RuledNode(node(rule)), {"names": ["a"] * 200}, begins=ignore)
    assert "more than 10000 steps: add maxItems" in cause.message

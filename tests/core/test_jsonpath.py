from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.jsonpath import MAX_TEMPLATE_LENGTH, JSONPathError, evaluate

STATUS = {
    "jobStatus": {"jobId": "fd72", "my.key": "dotted", "checkpoint": {"id": 42}},
    "conditions": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Stale", "status": "False", "n": 2}],
    "list": ["a", "b", "c"],
    "big": 12345678901,
    "small": 0.00000012,
    "nothing": None,
    "empty": [],
    "nested": [[], []],
    "markup": "<a&b>",
    "*": "star",
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{.jobStatus.jobId}", "fd72"),
        (r"{.jobStatus.my\.key}", "dotted"),
        ("{.list[0]}{.list[-1]}", "ac"),
        ("{.list[0:2]}", "a b"),
        ("{.list[::2]}", "a c"),
        ("{.list[0,2]}", "a c"),
        ("{.conditions[?(@.type=='Ready')].status}", "True"),
        ("{.conditions[?(@.n>1.0)].type}", "Stale"),
        ("{..id}", "42"),
        ("{range .conditions[*]}{.type}={.status};{end}", "Ready=True;Stale=False;"),
        ("{range .conditions[*]}{range $}{.type}{end},{end}!", "Ready,Stale,!"),
        ('id: {.jobStatus.jobId}{"\\n"}', "id: fd72\n"),
        ("jobStatus.jobId", "jobStatus.jobId"),
        ("{.jobStatus.checkpoint}", '{"id":42}'),
        ("{.big}", "1.2345678901e+10"),
        ("{.small}", "1.2e-07"),
        ("{.nothing}", "null"),
        ('{"\\u00e9\\t\\x41"}', "é\tA"),
        (r'{"\xc3\xa9\303\251"}', "éé"),
        (r"{.\*}", "star"),
        (
            "{9223372036854775807}{-9223372036854775808}{9223372036854775808}",
            f"{2**63 - 1}{-(2**63)}9.223372036854776e+18",
        ),
        ("{.list[0000000000000000000001]}", "b"),
        ("{.conditions[?(@['type','missing'])].type}", "Ready Stale"),
        ("{.conditions[?(@.missing)].type}", ""),
        ("{.nested[?(@[*]==nonsense)]}", ""),
        ("{range .list[*] range}{@}{end}!", "!bc!"),
    ],
)
def test_templates_find_what_kubernetes_finds(template: str, value: str) -> None:
    assert evaluate(template, STATUS) == value


def test_objects_are_printed_as_go_prints_them() -> None:
    document = {"markup": "<a&b>", "a": 1e21, "b": [1, 0.5, None, True]}

    printed = evaluate("{}", document)

    assert printed == '{"a":1e+21,"b":[1,0.5,null,true],"markup":"\\u003ca\\u0026b\\u003e"}'


@pytest.mark.parametrize(
    "template",
    [
        "{.missing}",
        "{.jobStatus.missing.deep}",
        "{.list[3]}",
        "{.list[2:1]}",
        "{.list[0:2:0]}",
        "{.jobStatus[0]}",
        "{.conditions[?(@.missing=='x')]}",
        "{.conditions[?(@.n==1)]}",
        "{.conditions[?(@.type=Ready)]}",
        "{.jobStatus[?(@.a)]}",
        "{name}",
        "{end}",
        "{range .empty[*]}{.name}{end}",
        "{.list[0,9]}",
        "{.conditions[?(@['type','n']=='Ready')]}",
        "{range .list[*]}{@}{end end}",
    ],
)
def test_what_is_not_there_is_an_error_that_names_the_template(template: str) -> None:
    with pytest.raises(JSONPathError) as missing:
        evaluate(template, STATUS)

    assert repr(template) in str(missing.value)


@pytest.mark.parametrize(
    "template",
    [
        "{.a",
        "{.a[0}",
        "{.a[b]}",
        "{.a[-]}",
        "{.a[?(@.b]}",
        "{.a[?(@.b)}",
        "{'a}",
        "{a|b}|{.a |b}",
        "{[ 'a' ]}",
        "{....a}",
        "{1.2.3}",
        '{"\\q"}',
        r'{"a\\"b"}',
        "{\n}",
    ],
)
def test_what_cannot_be_read_is_refused_with_a_position_and_an_example(template: str) -> None:
    with pytest.raises(JSONPathError, match=r"position \d+.*write for example"):
        evaluate(template, STATUS)


def test_a_number_no_fraction_can_hold_is_an_error() -> None:
    with pytest.raises(JSONPathError, match="too large"):
        evaluate("{.a}", {"a": 10**400})


def _nested(depth: int) -> Any:
    document: Any = "end"
    for _ in range(depth):
        document = {"a": document}
    return document


@pytest.mark.parametrize(
    ("template", "document"),
    [
        ("{..a}" * 200, {"a": [{"a": list(range(1000))}] * 50}),
        ("{." + ",".join(["a"] * 500) + "}", {"a": "x" * 1000}),
        ("{[" + ",".join(["'a'"] * 200) + "]" + ".*" * 50 + "}", {"a": "x" * 100_000}),
        ("{" + ".*" * 400 + "}", {str(number): "x" * 1000 for number in range(1000)}),
        ("{..}", _nested(2000)),
        ("{.a}" * 200, {"a": "x" * 10_000}),
        ("{" * (MAX_TEMPLATE_LENGTH + 1), {}),
    ],
)
def test_neither_a_hostile_template_nor_a_huge_document_can_hold_up_a_decision(template: str, document: Any) -> None:
    with pytest.raises(JSONPathError):
        evaluate(template, document)


def test_loops_within_loops_are_bounded() -> None:
    rows: Any = [1] * 100
    template = "{range .rows[*]}x{end}"

    assert evaluate(template, {"rows": rows}) == "x" * 100
    with pytest.raises(JSONPathError, match="values were touched"):
        evaluate("{range .rows[*]}" + "{range @[*]}" * 3 + "x", {"rows": [[[rows] * 100] * 100] * 100})

from __future__ import annotations

import msgspec
import pytest

from controlplane.apimachinery import selectors
from controlplane.apimachinery.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    SelectorError,
    matches,
    matches_fields,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "gold", "size": "7"}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=gold", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("app in (db, web)", True),
        ("app notin (db)", True),
        ("missing notin (db)", True),
        ("missing in (db)", False),
        ("app", True),
        ("!app", False),
        ("!missing,app", True),
        ("missing=", False),
        ("size>6", True),
        ("size<7", False),
        ("app>6", False),
        ("tier in (gold),app in (web)", True),
    ],
)
def test_a_label_query_chooses_as_kubernetes_does(text: str, chosen: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is chosen


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("=web", 0),
        ("app=web tier", 8),
        ("app in web", 7),
        ("app in (web", 11),
        ("app in ()", 8),
        ("app=web,", 8),
        ("app,,tier", 4),
        ("a b", 2),
        ("!", 1),
        ("size>big", 5),
        ("-app=web", 0),
        ("app=-web", 4),
        ("(app)", 0),
        ("app==!web", 5),
    ],
)
def test_a_broken_label_query_is_refused_with_position_and_example(text: str, position: int) -> None:
    with pytest.raises(SelectorError, match=f"position {position},.*app=web,tier in"):
        parse_label_selector(text)


def test_no_selector_chooses_nothing_and_the_empty_one_everything() -> None:
    assert not matches(None, LABELS)
    assert matches(LabelSelector(), {})


@pytest.mark.parametrize(
    ("operator", "values", "chosen"),
    [
        ("In", ("web",), True),
        ("NotIn", ("web",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Like", ("web",), False),
    ],
)
def test_each_operator_of_a_selector_object(operator: str, values: tuple[str, ...], chosen: bool) -> None:
    selector = LabelSelector({"tier": "gold"}, (LabelSelectorRequirement("app", operator, values),))

    assert selector.matches(LABELS) is chosen
    assert not selector.matches({"app": "web"})


def test_selectors_are_spelled_in_camel_case_and_can_be_keys() -> None:
    selector = msgspec.json.decode(
        b'{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"Exists"}]}', type=LabelSelector
    )

    assert {selector: 1}[LabelSelector({"a": "b"}, (LabelSelectorRequirement("c", "Exists"),))] == 1


def test_a_selector_object_is_refused_with_everything_that_is_wrong_with_it() -> None:
    selector = LabelSelector(
        {"a b": "ok"},
        (
            LabelSelectorRequirement("c", "In"),
            LabelSelectorRequirement("d", "Exists", ("x",)),
            LabelSelectorRequirement("e", "Like"),
            LabelSelectorRequirement("f", "In", ("-bad",)),
        ),
    )

    assert [field for field, _ in selectors.selector_errors(selector)] == [
        "matchLabels",
        "matchExpressions[0].values",
        "matchExpressions[1].values",
        "matchExpressions[2].operator",
        "matchExpressions[3].values",
    ]


POD = {"metadata": {"name": "web", "namespace": "a,b"}, "spec": {"paused": True, "replicas": 3}}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==db", False),
        ("metadata.name!=db,spec.paused=true", True),
        ("spec.replicas=3", True),
        ("spec.nodeName=", True),
        ("spec.nodeName!=node1", True),
        (r"metadata.namespace=a\,b", True),
    ],
)
def test_a_field_query_compares_what_stands_at_a_path(text: str, chosen: bool) -> None:
    assert matches_fields(parse_field_selector(text), POD) is chosen


@pytest.mark.parametrize("text", ["metadata.name", "a=b,c", "a=b=c", r"a=\n"])
def test_a_broken_field_query_is_refused_with_the_position(text: str) -> None:
    with pytest.raises(SelectorError, match="position"):
        parse_field_selector(text)


@pytest.mark.parametrize("read", [parse_label_selector, parse_field_selector])
def test_an_endless_selector_is_refused_before_it_is_read(read: object) -> None:
    assert callable(read)
    with pytest.raises(SelectorError, match="longer than 16384"):
        read("a=b," * 5000)


@pytest.mark.parametrize("key", ["app", "example.com/app", "a_b.c-d", "A1", "x" * 63, "kubernetes.io/x"])
def test_good_label_keys_pass(key: str) -> None:
    assert selectors.label_key_errors(key) == []


@pytest.mark.parametrize("key", ["", "-a", "a-", "a b", "x" * 64, "/a", "A.com/a", "a/b/c", "example.com/", "é", "a\n"])
def test_bad_label_keys_are_refused(key: str) -> None:
    assert selectors.label_key_errors(key)


@pytest.mark.parametrize(
    ("value", "good"), [("", True), ("a.B_1", True), ("-", False), ("x" * 64, False), ("a/b", False)]
)
def test_label_values(value: str, good: bool) -> None:
    assert (selectors.label_value_errors(value) == []) is good


@pytest.mark.parametrize(
    ("name", "label", "subdomain"),
    [("member1", True, True), ("a.b", False, True), ("A", False, False), ("", False, False), ("a..b", False, False)],
)
def test_dns_names(name: str, label: bool, subdomain: bool) -> None:
    assert (selectors.dns1123_label_errors(name) == []) is label
    assert (selectors.dns1123_subdomain_errors(name) == []) is subdomain


def test_names_that_are_too_long_say_so() -> None:
    assert "no more than 63" in selectors.dns1123_label_errors("x" * 64)[0]
    assert "no more than 253" in selectors.dns1123_subdomain_errors("x" * 254)[0]

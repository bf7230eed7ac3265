"""Decoding of request bodies, and undeclared fields."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.errors import BadRequest, StatusError, TooLarge, UnsupportedMediaType
from controlplane.wire.body import decode_body
from controlplane.wire.prune import prune, validate_fields
from controlplane.wire.schema import Schema
from tests.builders.schemas import DEPLOYMENT, containers, deployment


@pytest.mark.parametrize(
    ("content_type", "raw", "expected"),
    [
        (None, b'{"a":1}', {"a": 1}),
        ("application/json; charset=utf-8", b'{"a":[true,null]}', {"a": [True, None]}),
        ("application/yaml", b"a: 1\nb:\n- x", {"a": 1, "b": ["x"]}),
        ("application/apply-patch+yaml", b'{"a": 1}', {"a": 1}),
        (
            "application/yaml",
            b"a: &x {k: 1}\nb: *x\nc: {<<: *x, l: 2}",
            {"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1, "l": 2}},
        ),
        ("application/yaml", b"when: 2026-11-20\nports: 22:22", {"when": "2026-11-20", "ports": "22:22"}),
        (
            "application/yaml",
            b"on: yes\n1: x\nmode: 0644\ncpu: 1e3\nhalf: .5",
            {"true": True, "1": "x", "mode": 420, "cpu": 1000.0, "half": 0.5},
        ),
        ("application/yaml", b"cpu: 100m\nversion: '1'", {"cpu": "100m", "version": "1"}),
    ],
)
def test_json_and_yaml_become_the_same_plain_documents(content_type: str | None, raw: bytes, expected: Any) -> None:
    assert decode_body(content_type, raw) == expected


NINE_TIMES_TEN = b"a: &a [1,1,1,1,1,1,1,1,1,1]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 10)) for i in range(8)
)
MERGED_NINE_TIMES = (
    NINE_TIMES_TEN.replace(b"[1,1,1,1,1,1,1,1,1,1]", b"{x: 1, y: 2}").replace(b"[", b"{<<: [").replace(b"]", b"]}")
)


@pytest.mark.parametrize(
    ("content_type", "raw", "error", "words"),
    [
        ("application/json", b'{"a":\n x}', BadRequest, "line 2, column 2"),
        ("application/yaml", b"a: [1\nb: 2", BadRequest, "line 2, column 2"),
        ("application/json", b"", BadRequest, "not JSON"),
        ("application/json", b"[]", BadRequest, "a list"),
        ("application/yaml", b"", BadRequest, "empty"),
        ("application/json", b'{"a":{"b":1,"b":2}}', BadRequest, 'duplicate field "a.b"'),
        ("application/yaml", b"a: 1\na: 2", BadRequest, 'duplicate field "a" (line 2)'),
        ("application/yaml", b"a: b\n---\nc: d", BadRequest, "another document"),
        ("application/yaml", b"{[a]: b}", BadRequest, "plain strings"),
        ("application/yaml", b"a: !!python/object:os.system x", BadRequest, "python/object"),
        ("application/yaml", b"a: !!binary aGk=", BadRequest, "does not know"),
        ("application/yaml", b"a: \xff", BadRequest, "UTF-8"),
        ("application/yaml", b"a: &a [*a]", BadRequest, "contains itself"),
        ("application/yaml", NINE_TIMES_TEN, BadRequest, "aliases unfold"),
        ("application/yaml", MERGED_NINE_TIMES, BadRequest, "<< brings in"),
        ("application/yaml", b"[" * 500_000 + b"]" * 500_000, BadRequest, "deeper than"),
        ("application/json", b'{"a":' * 200 + b"1" + b"}" * 200, BadRequest, "deeper than 100"),
        ("application/json", b"[" * 50_000, BadRequest, "not JSON"),
        ("application/json", b'"' + b"x" * 4_000_000 + b'"', TooLarge, "limit"),
        ("text/plain", b"a", UnsupportedMediaType, "text/plain"),
        ("application/vnd.kubernetes.protobuf", b"k8s", UnsupportedMediaType, "protobuf"),
    ],
)
def test_a_harmful_body_is_refused_with_its_place(
    content_type: str, raw: bytes, error: type[StatusError], words: str
) -> None:
    with pytest.raises(error) as caught:
        decode_body(content_type, raw)

    assert words in caught.value.message


def test_duplicates_can_be_collected_instead_and_the_last_value_counts() -> None:
    duplicates: list[str] = []

    document = decode_body(None, b'{"l":[{"x":1,"x":2}],"a":1,"a":3}', duplicates=duplicates)

    assert document == {"l": [{"x": 2}], "a": 3}
    assert duplicates == ['duplicate field "a"', 'duplicate field "l[0].x"']


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a":1,"b":{"a":"","":"a"}}', []),
        (b'{"a":"","a":""}', ["a"]),
        (b'{"":1,"":1}', [""]),
        (b'{"a\\u0022\\"":1,"b":1,"b":2}', ["b"]),  # escaped quotation marks
        (b'{"\\u0062":1,"b":2}', ["b"]),  # the same name, written in two ways
        ('{"ä":1,"ä":[]}'.encode(), ["ä"]),
    ],
)
def test_each_duplicate_key_is_found_however_it_is_written(text: bytes, found: list[str]) -> None:
    duplicates: list[str] = []
    decode_body(None, text, duplicates=duplicates)
    assert duplicates == [f'duplicate field "{name}"' for name in found]


def test_unknown_fields_are_named_by_their_path() -> None:
    document = deployment(
        replica=1,
        extra={"anything": {"goes": 1}},
        template={"nodeSelector": {"any": "key"}, **containers({"name": "web", "img": "x"})},
    )
    document["metadata"]["lables"] = {"a": "b"}
    document["specc"] = {}

    assert validate_fields(document, DEPLOYMENT) == [
        'unknown field "metadata.lables"',
        'unknown field "spec.replica"',
        'unknown field "spec.template.containers[0].img"',
        'unknown field "specc"',
    ]


def test_pruning_leaves_out_exactly_the_unknown_fields() -> None:
    document = deployment(replicas=1, replica=1, template=containers({"name": "web", "img": "x"}))

    pruned = prune(document, DEPLOYMENT)

    assert pruned == deployment(replicas=1, template=containers({"name": "web"}))
    assert validate_fields(pruned, DEPLOYMENT) == []


def test_a_document_without_unknown_fields_comes_back_as_it_is() -> None:
    document = deployment(replicas=1, template=containers({"name": "web"}))

    assert prune(document, DEPLOYMENT) is document


def test_a_kind_without_schema_has_every_field_but_metadata_is_metadata() -> None:
    document = {"spec": {"x": 1}, "metadata": {"name": "a", "nmae": "b"}}

    assert validate_fields(document, Schema.OPEN) == ['unknown field "metadata.nmae"']


@pytest.mark.parametrize("number", [".nan", ".inf", "-.Inf"])
def test_a_number_that_json_does_not_have_is_refused_and_does_not_become_null(number: str) -> None:
    with pytest.raises(BadRequest, match=r"no number that an object can have at line 2, column 9"):
        decode_body("application/yaml", f"spec:\n  size: {number}\n".encode())


@pytest.mark.parametrize("text", ["12e4567", "-1e999", "1.5e400"])
def test_a_number_beyond_all_numbers_is_a_text_as_in_kubernetes(text: str) -> None:
    """A commit such as 12e4567 in a label or an argument, without quotes, was refused."""
    assert decode_body("application/yaml", f"metadata:\n  labels: {{commit: {text}}}\n".encode()) == {
        "metadata": {"labels": {"commit": text}}
    }

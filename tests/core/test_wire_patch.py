"""JSON Patch, merge patch and strategic merge patch."""

from __future__ import annotations

import copy
import time
from typing import Any

import orjson
import pytest

from controlplane.apimachinery.errors import BadRequest, Invalid, StatusError, TooLarge, UnsupportedMediaType
from controlplane.wire import patch
from controlplane.wire.patch import apply_patch, json_patch, merge_patch
from controlplane.wire.schema import Schema
from controlplane.wire.strategic import strategic_merge_patch
from tests.builders.schemas import DEPLOYMENT

_KEY = "x-kubernetes-patch-merge-key"
_MERGED = {"type": "array", "x-kubernetes-patch-strategy": "merge", _KEY: "name", "items": {"type": "object"}}
JSON_PATCHES = [
    ("add a member", {"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ("add at the end", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ("add in the middle", {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ("remove", {"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    ("remove from a list", {"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ("replace", {"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": None}], {"a": {"b": None}}),
    ("replace adds a member", {"a": {}}, [{"op": "replace", "path": "/a/b", "value": 1}], {"a": {"b": 1}}),
    ("replace all", {"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ("move", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    (
        "copy is independent",
        {"a": [1]},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}],
        {"a": [1], "b": [1, 2]},
    ),
    ("test then write", {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}, {"op": "remove", "path": "/a"}], {}),
    ("escaped names", {"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
    ("remove the last", {"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1, 2]}),
    (
        "replace in the last",
        {"a": [1, {"b": 2}]},
        [{"op": "replace", "path": "/a/-1/b", "value": 3}],
        {"a": [1, {"b": 3}]},
    ),
    ("replace from the end", {"a": [1, 2]}, [{"op": "replace", "path": "/a/-2", "value": 3}], {"a": [3, 2]}),
    ("add after the last", {"a": [1, 2]}, [{"op": "add", "path": "/a/-1", "value": 3}], {"a": [1, 2, 3]}),
    ("add before the last", {"a": [1, 2]}, [{"op": "add", "path": "/a/-2", "value": 3}], {"a": [1, 3, 2]}),
    ("a key that looks like an index", {"0": 1}, [{"op": "replace", "path": "/0", "value": 2}], {"0": 2}),
]


@pytest.mark.parametrize(
    ("doc", "operations", "expected"), [row[1:] for row in JSON_PATCHES], ids=[r[0] for r in JSON_PATCHES]
)
def test_a_json_patch_does_what_rfc_6902_says(doc: Any, operations: Any, expected: Any) -> None:
    """And as in Kubernetes an index below 0 counts from the end."""
    before = copy.deepcopy(doc)

    assert json_patch(doc, operations) == expected
    assert doc == before


@pytest.mark.parametrize(
    ("operations", "error", "words"),
    [
        ([{"op": "test", "path": "/a", "value": True}], Invalid, "testing value /a failed"),
        ([{"op": "remove", "path": "/x/y"}], Invalid, "there is no /x"),
        ([{"op": "replace", "path": "/l/01", "value": 1}], Invalid, "no /l/01"),
        ([{"op": "replace", "path": "/nothing/b", "value": 1}], Invalid, "no /nothing"),
        ([{"op": "add", "path": "/l/5", "value": 1}], Invalid, "no such place"),
        ([{"op": "add", "path": "/l/-3", "value": 1}], Invalid, "no such place"),
        ([{"op": "remove", "path": "/l/-2"}], Invalid, "no /l/-2"),
        ([{"op": "add", "path": "/a/b", "value": 1}], Invalid, "no such place"),
        ([{"op": "move", "from": "/l", "path": "/l/0"}], Invalid, "into itself"),
        ([{"op": "add", "path": "/b"}], BadRequest, "has no value"),
        ([{"op": "add", "path": "b", "value": 1}], BadRequest, "JSON pointer"),
        ([{"op": "jump", "path": "/b"}], BadRequest, "'jump'"),
        (["x"], BadRequest, "not an object"),
        ({"op": "add"}, BadRequest, "list of operations"),
        ([{"op": "test", "path": "/a", "value": 1}] * (patch.MAX_OPERATIONS + 1), TooLarge, "10001 operations"),
        ([{"op": "copy", "from": "/l", "path": f"/l/{i}"} for i in range(60)], TooLarge, "copies more"),
        ([{"op": "copy", "from": "", "path": "/b"}] * 400, BadRequest, "copies / into itself until it is nested too"),
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused_by_name(
    operations: Any, error: type[StatusError], words: str
) -> None:
    with pytest.raises(error) as caught:
        json_patch({"a": 1, "l": [1]}, operations)

    assert words in caught.value.message


@pytest.mark.parametrize(
    ("doc", "changes", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_a_merge_patch_does_what_rfc_7386_says(doc: Any, changes: Any, expected: Any) -> None:
    assert merge_patch(doc, changes) == expected


WEB = {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
SIDE = {"name": "side", "image": "side:1"}
STRATEGIC = [
    (
        "an item is changed by its key",
        {"containers": [WEB, SIDE]},
        {"containers": [{"name": "side", "image": "side:2"}]},
        {"containers": [WEB, {"name": "side", "image": "side:2"}]},
    ),
    (
        "an item inside an item",
        {"containers": [WEB]},
        {"containers": [{"name": "web", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]},
        {"containers": [{**WEB, "env": [WEB["env"][0], {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]},
    ),
    (
        "an item is deleted",
        {"containers": [WEB, SIDE]},
        {"containers": [{"name": "web", "$patch": "delete"}]},
        {"containers": [SIDE]},
    ),
    (
        "the list is replaced",
        {"containers": [WEB]},
        {"containers": [SIDE, {"$patch": "replace"}]},
        {"containers": [SIDE]},
    ),
    (
        "a map is replaced",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2", "$patch": "replace"}},
        {"nodeSelector": {"b": "2"}},
    ),
    (
        "a map is deleted",
        {"nodeSelector": {"a": "1"}, "containers": []},
        {"nodeSelector": {"$patch": "delete"}},
        {"containers": []},
    ),
    (
        "the order is set",
        {"containers": [WEB, SIDE]},
        {
            "$setElementOrder/containers": [{"name": "side"}, {"name": "web"}],
            "containers": [{"name": "web", "image": None}],
        },
        {"containers": [SIDE, {"name": "web", "env": WEB["env"]}]},
    ),
    (
        "only the order is set, and an item only the server knows keeps its place",
        {"containers": [{"name": "a"}, {"name": "b"}, {"name": "injected"}, {"name": "c"}]},
        {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
        {"containers": [{"name": "injected"}, {"name": "c"}, {"name": "b"}, {"name": "a"}]},
    ),
]


@pytest.mark.parametrize(
    ("template", "changes", "expected"), [row[1:] for row in STRATEGIC], ids=[r[0] for r in STRATEGIC]
)
def test_a_strategic_merge_patch_follows_the_schema(template: Any, changes: Any, expected: Any) -> None:
    doc = {"spec": {"template": template}}
    before = copy.deepcopy(doc)

    assert strategic_merge_patch(doc, {"spec": {"template": changes}}, DEPLOYMENT) == {"spec": {"template": expected}}
    assert doc == before


@pytest.mark.parametrize(
    ("spec", "changes", "expected"),
    [
        ({"zones": ["a", "b"]}, {"zones": ["c", "a"]}, {"zones": ["c", "a", "b"]}),
        ({"zones": ["a", "b"]}, {"$deleteFromPrimitiveList/zones": ["a"]}, {"zones": ["b"]}),
        ({"zones": ["a", "b"]}, {"$deleteFromPrimitiveList/zones": ["a"], "zones": ["c"]}, {"zones": ["c", "b"]}),
        (
            {"strategy": {"type": "A", "rollingUpdate": {"x": "1"}}},
            {"strategy": {"$retainKeys": ["type"], "type": "B"}},
            {"strategy": {"type": "B"}},
        ),
        ({"replicas": 1, "paused": True}, {"paused": None}, {"replicas": 1}),
    ],
)
def test_lists_of_words_and_retained_keys_merge_by_their_directives(spec: Any, changes: Any, expected: Any) -> None:
    assert strategic_merge_patch({"spec": spec}, {"spec": changes}, DEPLOYMENT) == {"spec": expected}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": {"$patch": "explode"}}, "spec: $patch: 'explode'"),
        (
            {"spec": {"template": {"containers": [{"image": "x"}]}}},
            "spec.template.containers: an item of this list has no name",
        ),
        ({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}, "'rollingUpdate'"),
        ({"spec": {"template": {"containers": ["web"]}}}, "spec.template.containers: 'web' is not an object"),
        ({"spec": {"template": {"containers": [{"name": "a"}, []]}}}, "spec.template.containers: [] is not an object"),
        ({"spec": {"template": {"containers": [{"name": ["a"]}]}}}, "not by ['a']"),
        ({"spec": {"template": {"containers": [], "$setElementOrder/containers": 5}}}, "has to be a list"),
        ({"spec": {"template": {"$setElementOrder/containers": [["a"]]}}}, "not by ['a']"),
        ({"spec": {"zones": [["a"]]}}, "spec.zones: items are identified by a plain value, not by ['a']"),
    ],
)
def test_an_unreadable_strategic_merge_patch_is_refused(changes: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        strategic_merge_patch({"spec": {"template": {"containers": [{"name": "web"}]}}}, changes, DEPLOYMENT)

    assert words in caught.value.message


def test_long_lists_merge_in_linear_time() -> None:
    schema = Schema({"type": "object", "properties": {"env": _MERGED, "words": {**_MERGED, _KEY: ""}}})
    names = [f"n{number}" for number in range(30_000)]
    doc = {"env": [{"name": name, "value": "1"} for name in names], "words": names}
    changes = {
        "env": [{"name": name, "value": "2"} for name in reversed(names)],
        "words": [f"{name}-new" for name in names],
        "$deleteFromPrimitiveList/words": names,
    }
    begun = time.thread_time()

    made = strategic_merge_patch(doc, changes, schema)

    assert time.thread_time() - begun < 5  # if each item is compared with all others: minutes
    assert made == {"env": changes["env"], "words": changes["words"]}


def test_long_lists_with_one_name_only_merge_in_linear_time() -> None:
    schema = Schema({"type": "object", "properties": {"env": _MERGED}})
    doc = {"env": [{"name": "a", "value": "1"}] * 30_000}
    begun = time.thread_time()

    made = strategic_merge_patch(doc, {"env": [{"name": "a", "value": "2"}] * 30_000}, schema)

    assert time.thread_time() - begun < 5  # if each item is merged into all others: an hour
    assert made["env"][:2] == [{"name": "a", "value": "2"}, {"name": "a", "value": "1"}]  # as a kube-apiserver does
    assert strategic_merge_patch(doc, {"env": [{"name": "a", "$patch": "delete"}]}, schema) == {"env": []}


def test_a_kind_without_merge_keys_takes_no_strategic_patch_and_the_answer_says_what_it_takes() -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        apply_patch("application/strategic-merge-patch+json", {}, b"{}", None)

    assert (
        "accepted media types include: application/json-patch+json, application/merge-patch+json"
        in caught.value.message
    )


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json-patch+json", b'[{"op":"replace","path":"/spec/replicas","value":3}]'),
        ("application/merge-patch+json", b'{"spec":{"replicas":3}}'),
        ("application/strategic-merge-patch+json; charset=utf-8", b'{"spec":{"replicas":3}}'),
    ],
)
def test_the_content_type_chooses_the_patch(content_type: str, body: bytes) -> None:
    assert apply_patch(content_type, {"spec": {"replicas": 1}}, body, DEPLOYMENT) == {"spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("content_type", "body", "error"),
    [
        ("application/merge-patch+json", b"[1]", BadRequest),
        ("application/merge-patch+json", b"{", BadRequest),
        ("application/json-patch+json", b'[{"op":"replace","path":"","value":1}]', Invalid),
        ("application/merge-patch+json", b'{"a":' * 200 + b"1" + b"}" * 200, BadRequest),
        ("application/merge-patch+json", orjson.dumps({"a": "x" * 4_000_000}), TooLarge),
    ],
)
def test_a_patch_out_of_bounds_is_refused(content_type: str, body: bytes, error: type[StatusError]) -> None:
    with pytest.raises(error):
        apply_patch(content_type, {"a": {}}, body, DEPLOYMENT)

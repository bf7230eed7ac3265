"""Reading what kubectl sends as protobuf: bodies recorded from kubectl 1.32, and what it says it means by them."""

import base64
import gzip
import struct
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apimachinery.errors import BadRequest, UnsupportedMediaType
from controlplane.wire import protobuf

RECORDED = orjson.loads(gzip.decompress((Path(__file__).parents[1] / "wire_data" / "created.json.gz").read_bytes()))


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes, content_type: str = "") -> bytes:
    envelope = chunk(1, chunk(1, api_version) + chunk(2, kind)) + chunk(2, raw) + chunk(4, content_type)
    return protobuf.MAGIC + envelope


def stated(value):
    """Return a document without what says nothing: kubectl's JSON spells out empty objects and null times."""
    if isinstance(value, dict):
        kept = {key: stated(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {}}
    return [stated(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["command"])
def test_what_kubectl_sends_is_what_it_says_it_would_create(recorded):
    document = protobuf.decode(base64.b64decode(recorded["body"]))

    assert stated(document) == stated(recorded["document"])


def test_no_replicas_is_a_number_and_not_unset():
    deployment = next(entry for entry in RECORDED if "--replicas=0" in entry["command"])

    document = protobuf.decode(base64.b64decode(deployment["body"]))

    assert document["spec"]["replicas"] == 0
    assert "paused" not in document["spec"]
    assert "status" not in document


def test_zeros_of_plain_fields_are_dropped_and_those_of_pointers_kept():
    spec = number(1, 0) + number(5, 0) + number(6, 0) + number(7, 0)

    document = protobuf.decode(body("apps/v1", "Deployment", chunk(2, spec)))

    assert document["spec"] == {"replicas": 0, "revisionHistoryLimit": 0}


def test_an_empty_message_that_json_always_has_is_there() -> None:
    """A NetworkPolicy for every pod of its namespace, as Go's typed client sends it."""
    policy = chunk(2, chunk(1, b"") + chunk(4, "Ingress"))

    document = protobuf.decode(body("networking.k8s.io/v1", "NetworkPolicy", chunk(1, chunk(1, "all")) + policy))

    assert document["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


def test_messages_folded_into_their_parent_come_out_flat():
    volume = chunk(1, "data") + chunk(2, chunk(2, b""))  # a source of its own message: an empty emptyDir
    probe = chunk(1, chunk(2, chunk(1, "/") + chunk(2, number(1, 0) + number(2, 80)))) + number(2, 5)
    container = chunk(1, "web") + chunk(11, probe)

    spec = protobuf.decode(body("v1", "Pod", chunk(2, chunk(1, volume) + chunk(2, container))))["spec"]

    assert spec["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert spec["containers"] == [
        {"name": "web", "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 5}}
    ]


def test_times_come_out_as_rfc3339_and_times_of_zero_not_at_all():
    lease = chunk(4, number(1, 1_795_176_000) + number(2, 123_456_789)) + number(2, 15)
    meta = chunk(1, "leader") + chunk(8, b"") + chunk(9, number(1, 1_795_176_000) + number(2, 999))

    document = protobuf.decode(body("coordination.k8s.io/v1", "Lease", chunk(1, meta) + chunk(2, lease)))

    assert document["metadata"] == {"name": "leader", "deletionTimestamp": "2026-11-20T12:00:00Z"}
    assert document["spec"] == {"renewTime": "2026-11-20T12:00:00.123456Z", "leaseDurationSeconds": 15}


def test_delete_options_are_read_whatever_api_version_they_carry():
    raw = number(1, 0) + chunk(4, "Background") + chunk(5, "All")

    for api_version in ("v1", "meta.k8s.io/v1", "apps/v1"):
        document = protobuf.decode(body(api_version, "DeleteOptions", raw))
        assert document == {
            "apiVersion": api_version,
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
            "dryRun": ["All"],
        }


def test_the_extra_of_a_user_is_a_map_of_lists():
    entry = chunk(1, "scopes") + chunk(2, chunk(1, "a") + chunk(1, "b"))
    spec = chunk(3, "ann") + chunk(5, entry)

    document = protobuf.decode(body("authorization.k8s.io/v1", "SubjectAccessReview", chunk(2, spec)))

    assert document["spec"] == {"user": "ann", "extra": {"scopes": ["a", "b"]}}


def test_fields_of_a_newer_release_are_passed_over():
    raw = chunk(1, chunk(1, "a")) + number(900, 7) + chunk(901, "new") + varint(902 << 3 | 1) + struct.pack("<d", 1.5)

    assert protobuf.decode(body("v1", "ConfigMap", raw))["metadata"] == {"name": "a"}


def test_an_envelope_may_hold_json():
    document = protobuf.decode(body("v1", "ConfigMap", b'{"kind":"ConfigMap","data":{"a":"b"}}', "application/json"))

    assert document["data"] == {"a": "b"}


def test_a_kind_without_protobuf_form_is_refused_with_the_way_out():
    with pytest.raises(UnsupportedMediaType, match=r'"Thing" of apiVersion "example.io/v1".*application/json'):
        protobuf.decode(body("example.io/v1", "Thing", b""))


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b'{"kind":"Pod"}', "begins with b'"),
        (body("v1", "ConfigMap", chunk(1, b"\x0a\x05ab")), "says 5 bytes follow, but 2 do"),
        (body("v1", "ConfigMap", b"\xff" * 12), "a number has no end"),
        (body("v1", "ConfigMap", number(1, 3)), "a number stands where"),
        (body("scheduling.k8s.io/v1", "PriorityClass", chunk(2, "12")), "stands where a number belongs"),
        (body("v1", "ConfigMap", chunk(1, chunk(1, b"\xff\xfe"))), "not UTF-8"),
        (body("v1", "ConfigMap", b"\x0b"), "wire type 3"),
        (body("v1", "ConfigMap", b"[]", "application/json"), "no object"),
        (body("v1", "Pod", chunk(1, chunk(9, number(1, 1 << 60)))), "in no calendar"),
    ],
)
def test_a_damaged_body_is_refused_and_the_message_says_where(damaged, words):
    with pytest.raises(BadRequest) as refused:
        protobuf.decode(damaged)

    assert words in refused.value.message


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Service", "Event", "ConfigMap"]))
def test_no_body_whatever_makes_the_decoder_stumble(raw, kind):
    try:
        document = protobuf.decode(body("v1", kind, raw))
    except BadRequest:
        return

    assert document["kind"] == kind
    orjson.dumps(document)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.integers(-(2**31), 2**31 - 1))
def test_maps_and_numbers_arrive_as_they_were_written(data, priority):
    entries = b"".join(chunk(2, chunk(1, key) + chunk(2, value)) for key, value in data.items())

    config = protobuf.decode(body("v1", "ConfigMap", entries))
    klass = protobuf.decode(body("scheduling.k8s.io/v1", "PriorityClass", number(2, priority)))

    assert config.get("data", {}) == data
    assert klass["value"] == priority

"""What the API answers with: Status, Table, the negotiated representation, watch frames."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from controlplane.apimachinery import errors
from controlplane.apimachinery.errors import BadRequest, Cause, NotAcceptable
from controlplane.wire import watch
from controlplane.wire.negotiate import DISCOVERY, OBJECTS, go_bool, representation
from controlplane.wire.resource import Column, Resource
from controlplane.wire.status import status_of, success
from controlplane.wire.table import include_object_of, partial_object_metadata_list, table

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TABLE_V1 = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL_GET = f"{TABLE_V1},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
WIDGETS = Resource(
    "example.io",
    "v1",
    "Widget",
    "widgets",
    "widget",
    namespaced=True,
    columns=(
        Column("Wheels", lambda document, now: document["spec"]["wheels"], type="integer"),
        Column("Colour", lambda document, now: document["spec"].get("colour"), priority=1),
    ),
)
WIDGET = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "w1", "creationTimestamp": "2026-11-20T11:00:00Z", "managedFields": [{"manager": "x"}]},
    "spec": {"wheels": 4},
}


@pytest.mark.parametrize(
    ("accept", "offered", "expected"),
    [
        (None, OBJECTS, ("application/json", "")),
        ("*/*", OBJECTS, ("application/json", "")),
        (KUBECTL_GET, OBJECTS, ("application/json", "Table")),
        ("application/json;g=meta.k8s.io;v=v1;as=Table", OBJECTS, ("application/json", "Table")),
        ("application/vnd.kubernetes.protobuf,application/json", OBJECTS, ("application/json", "")),
        (
            f"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,{TABLE_V1}",
            OBJECTS,
            ("application/json", "Table"),
        ),
        ("application/yaml", OBJECTS, ("application/yaml", "")),
        ("application/json;q=0.5, application/yaml", OBJECTS, ("application/yaml", "")),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            OBJECTS,
            ("application/json", "PartialObjectMetadata"),
        ),
        ("text/html, application/json;q=0.9", OBJECTS, ("application/json", "")),
        (KUBECTL_DISCOVERY, DISCOVERY, ("application/json", "APIGroupDiscoveryList")),
        (KUBECTL_DISCOVERY, OBJECTS, ("application/json", "")),
    ],
)
def test_the_first_representation_we_have_is_chosen(
    accept: str | None, offered: Any, expected: tuple[str, str]
) -> None:
    chosen = representation(accept, offered=offered)

    assert (chosen.media_type, chosen.convert) == expected


def test_discovery_echoes_the_type_it_was_asked_for() -> None:
    asked = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    assert representation(KUBECTL_DISCOVERY, offered=DISCOVERY).content_type == asked


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "application/vnd.kubernetes.protobuf",
        "application/json;q=0",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_what_we_do_not_have_is_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        representation(accept)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("True", True), ("1", True), ("t", True), ("", True), ("0", False), ("F", False), (None, False)],
)
def test_booleans_are_read_as_go_reads_them(text: str | None, expected: bool) -> None:
    assert go_bool("watch", text) is expected


def test_a_boolean_that_is_none_is_named() -> None:
    with pytest.raises(BadRequest, match="watch='yes'"):
        go_bool("watch", "yes")


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (errors.NotFound.of("deployments", "web", group="apps"), 404, "NotFound", 'deployments.apps "web" not found'),
        (errors.AlreadyExists.of("secrets", "s"), 409, "AlreadyExists", 'secrets "s" already exists'),
        (
            errors.Conflict.of("secrets", "s"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on secrets "s": the object has been modified; '
            "please apply your changes to the latest version and try again",
        ),
        (errors.Expired("too old"), 410, "Expired", "too old"),
        (errors.TooLarge("big"), 413, "RequestEntityTooLarge", "big"),
        (errors.UnsupportedMediaType("what"), 415, "UnsupportedMediaType", "what"),
        (errors.ServiceUnavailable("later"), 503, "ServiceUnavailable", "later"),
    ],
)
def test_an_error_becomes_the_status_kubectl_knows(error: Any, code: int, reason: str, message: str) -> None:
    status = status_of(error)

    assert (status["code"], status["reason"], status["message"]) == (code, reason, message)
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")


def test_an_invalid_object_is_refused_with_every_cause() -> None:
    causes = [
        Cause("FieldValueInvalid", "must not be negative", "spec.replicas"),
        Cause("FieldValueRequired", "Required value", "spec.selector"),
    ]

    status = status_of(errors.Invalid.of("Deployment", "web", causes, group="apps"))

    assert status["message"] == (
        'Deployment.apps "web" is invalid: [spec.replicas: must not be negative, spec.selector: Required value]'
    )
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.replicas", "spec.selector"]
    assert status["details"]["kind"] == "Deployment"


def test_a_retry_hint_is_part_of_the_details() -> None:
    assert status_of(errors.TooManyRequests("slow", retry_after_seconds=3))["details"] == {"retryAfterSeconds": 3}


def test_a_delete_that_went_well_names_what_went() -> None:
    assert success(kind="deployments", name="web", group="apps", uid="u")["details"] == {
        "name": "web",
        "kind": "deployments",
        "group": "apps",
        "uid": "u",
    }


def test_a_table_has_name_first_age_last_and_wide_columns_behind() -> None:
    shown = table(WIDGETS, [WIDGET], now=NOW, list_meta={"resourceVersion": "5"})

    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Wheels", "Age", "Colour"]
    assert [column["priority"] for column in shown["columnDefinitions"]] == [0, 0, 0, 1]
    assert shown["rows"][0]["cells"] == ["w1", 4, "60m", None]
    assert shown["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert "managedFields" not in shown["rows"][0]["object"]["metadata"]
    assert shown["metadata"] == {"resourceVersion": "5"}
    orjson.dumps(shown)


@pytest.mark.parametrize(
    ("asked", "kind"), [("Object", "Widget"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
def test_a_row_carries_as_much_of_its_object_as_asked(asked: str, kind: str | None) -> None:
    shown = table(WIDGETS, [WIDGET], now=NOW, include_object=include_object_of(asked))

    assert shown["rows"][0].get("object", {}).get("kind") == kind


def test_only_the_first_event_of_a_watch_brings_the_columns() -> None:
    assert table(WIDGETS, [WIDGET], now=NOW, definitions=False)["columnDefinitions"] == []


def test_a_list_can_be_reduced_to_metadata() -> None:
    reduced = partial_object_metadata_list([WIDGET], {"resourceVersion": "9"})

    assert reduced["metadata"] == {"resourceVersion": "9"}
    assert [(item["kind"], item["metadata"]["name"]) for item in reduced["items"]] == [("PartialObjectMetadata", "w1")]


def test_a_frame_is_one_line_around_the_stored_bytes() -> None:
    line = watch.frame(watch.ADDED, b'{"a":1}')

    assert line.endswith(b"\n")
    assert orjson.loads(line) == {"type": "ADDED", "object": {"a": 1}}


def test_a_bookmark_says_up_to_where_and_ends_the_initial_events() -> None:
    plain = orjson.loads(watch.bookmark("v1", "Secret", 7))
    last = orjson.loads(watch.bookmark("v1", "Secret", "7", initial_events_end=True))

    assert plain == {
        "type": "BOOKMARK",
        "object": {"kind": "Secret", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}},
    }
    assert last["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_bookmark_in_a_table_watch_is_a_table() -> None:
    shown = orjson.loads(watch.bookmark("v1", "Secret", 7, form="Table"))["object"]

    assert (shown["kind"], shown["metadata"]["resourceVersion"]) == ("Table", "7")


def test_an_error_frame_carries_the_status() -> None:
    line = orjson.loads(watch.error_frame(errors.Expired("too old resource version: 1 (5)")))

    assert (line["type"], line["object"]["code"], line["object"]["reason"]) == ("ERROR", 410, "Expired")

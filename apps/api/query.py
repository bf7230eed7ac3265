"""Query parameters of a request as typed options for lists and writes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from django.http import QueryDict

from apps.objects.encryption import opened
from controlplane.apimachinery.errors import BadRequest, Cause, Invalid
from controlplane.wire.negotiate import go_bool
from controlplane.wire.request import Choice, choice_of
from controlplane.wire.resource import Resource

Document = dict[str, Any]
Parameters = Mapping[str, str]

MAX_LIMIT = 10_000  # objects on a page; `continue` leads to the next page
MAX_MANAGER = 128


class Continue(msgspec.Struct, frozen=True, array_like=True):
    """Where a list continues: the version at which its first page was read, and the last object of the page before.

    remaining: how many objects follow, from the count of the first page. 0: they were not counted.
    """

    version: Annotated[int, msgspec.Meta(ge=0)]
    namespace: str
    name: str
    remaining: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0

    def token(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()

    @classmethod
    def read(cls, token: str) -> Continue:
        """Return the position in a `continue` token. Raises BadRequest if the token is not from this server."""
        message = "query parameter continue is not a token of this server; list again without it"
        try:
            position = msgspec.json.decode(base64.urlsafe_b64decode(token), type=cls)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise BadRequest(message) from None
        if not 0 <= position.version < 1 << 63 or "\0" in position.namespace + position.name:
            raise BadRequest(message)
        return position


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a list or watch."""

    choice: Choice
    limit: int = 0
    start: Continue | None = None  # None: the first page
    version: int = 0  # resourceVersion; 0: any
    match: Literal["", "Exact", "NotOlderThan"] = ""
    has_version: bool = False
    most_counted: int = 0  # objects after each page that are counted; 0: all, once for all pages
    opening: Any = opened  # how Secrets are decrypted: an `Opening`, which msgspec cannot check


def listing_of(query: Parameters, resource: Resource, *, namespace: str, name: str = "") -> Listing:
    """Return the list options of a query. Raises BadRequest, which names the wrong parameter."""
    token = query.get("continue", "")
    match = query.get("resourceVersionMatch", "")
    version = number(query, "resourceVersion")
    if match not in ("", "Exact", "NotOlderThan"):
        raise BadRequest(f"query parameter resourceVersionMatch={match!r} is not one of Exact, NotOlderThan")
    if match and "resourceVersion" not in query and "sendInitialEvents" not in query:
        raise BadRequest("query parameter resourceVersionMatch needs a resourceVersion to match")
    if match == "Exact" and version == 0:
        raise BadRequest("query parameter resourceVersionMatch=Exact needs a resourceVersion that is not 0")
    if token and version:
        raise BadRequest(
            "query parameters continue and resourceVersion cannot both be set: the token contains the version"
        )
    return Listing(
        choice=choice_of(
            resource,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            namespace=namespace,
            name=name,
        ),
        limit=min(number(query, "limit"), MAX_LIMIT),
        start=Continue.read(token) if token else None,
        version=version,
        match=match,  # type: ignore[arg-type]  # checked above
        has_version=bool(query.get("resourceVersion")),
    )


class Writing(msgspec.Struct, frozen=True):
    """Options of a write."""

    manager: str
    dry_run: bool
    validation: Literal["Strict", "Warn", "Ignore"]
    force: bool


def writing_of(query: Parameters, *, user_agent: str) -> Writing:
    """Return the write options of a query. The default field manager is the program name in User-Agent."""
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        raise BadRequest(f"query parameter fieldValidation={validation!r} is not one of Ignore, Strict, Warn")
    manager = query.get("fieldManager") or user_agent.partition("/")[0][:MAX_MANAGER] or "unknown"
    if len(manager) > MAX_MANAGER or not manager.isprintable():
        message = f"fieldManager: Invalid value: at most {MAX_MANAGER} printable characters"
        raise Invalid(message, causes=[Cause("FieldValueInvalid", message, "fieldManager")])
    return Writing(manager, dry_run(query), validation, go_bool("force", query.get("force")))  # type: ignore[arg-type]


def dry_run(query: Parameters, options: Document | None = None) -> bool:
    """Return whether the write is a dry run. Raises BadRequest for any value but All.

    The parameter may be there several times, as it is a list in Kubernetes. An empty one alone says nothing.
    """
    stated = query.getlist("dryRun") if isinstance(query, QueryDict) else [query.get("dryRun", "")]
    if not any(stated):
        stated = list((options or {}).get("dryRun") or ())
    for value in stated:
        if value != "All":
            raise BadRequest(f"dryRun={value!r}: the only value is All")
    return "All" in stated


def number(query: Parameters, name: str) -> int:
    """Return a whole number from the query. 0: the parameter is absent. Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return 0
    found = whole_number(text)
    if found is None:
        raise BadRequest(f"query parameter {name}={text!r} is not a whole number of 0 or more")
    return found


def whole_number(text: str) -> int | None:
    """Return a whole number of 0 or more with at most 18 digits, which fits a bigint; None: the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None

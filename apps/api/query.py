"""The query of a request, typed: how to list, how to write, how to delete."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import orjson

from controlplane.errors import BadRequest, Cause, Invalid
from controlplane.selectors import (
    FieldSelectorTerm,
    LabelSelector,
    SelectorError,
    matches_fields,
    parse_field_selector,
    parse_label_selector,
)
from controlplane.wire.negotiate import go_bool
from controlplane.wire.resource import Resource, check_fields

Document = dict[str, Any]
Parameters = Mapping[str, str]

MAX_LIMIT = 10_000  # objects a page: more are had with continue
MAX_SELECTOR = 8_192  # characters
MAX_MANAGER = 128
_WHICH = frozenset(("metadata.name", "metadata.namespace"))


class Choice(msgspec.Struct, frozen=True):
    """Which objects of a list or watch are meant."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: tuple[FieldSelectorTerm, ...]

    @property
    def is_everything(self) -> bool:
        """Test whether the namespace alone decides."""
        return not self.name and not self.fields and self.labels.is_empty()

    @property
    def needs_documents(self) -> bool:
        """Test whether the database cannot decide alone: other fields than the name, or labels compared as numbers."""
        other = any(term.field not in _WHICH for term in self.fields)
        return other or any(one.operator in ("Gt", "Lt") for one in self.labels.match_expressions)

    def takes(self, document: Document) -> bool:
        """Test whether an object is chosen."""
        metadata = document["metadata"]
        if self.namespace and metadata.get("namespace", "") != self.namespace:
            return False
        if self.name and metadata["name"] != self.name:
            return False
        if not self.labels.is_empty() and not self.labels.matches(metadata.get("labels") or {}):
            return False
        return not self.fields or matches_fields(self.fields, document)


class Continue(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: the version its first page was read at, and the last object it has shown."""

    version: int
    namespace: str
    name: str

    def token(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps([self.version, self.namespace, self.name])).decode()

    @classmethod
    def read(cls, token: str) -> Continue:
        """Return what a token says. Raises BadRequest where this server gave no such token."""
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(token), type=cls)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise BadRequest(
                "query parameter continue is not a token this server gave; list again without it"
            ) from None


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """How to list or watch."""

    choice: Choice
    limit: int = 0
    start: Continue | None = None  # None: the first page
    version: int = 0  # resourceVersion; 0: any
    match: Literal["", "Exact", "NotOlderThan"] = ""
    has_version: bool = False


def listing_of(query: Parameters, resource: Resource, *, namespace: str, name: str = "") -> Listing:
    """Return the list options of a query. Raises BadRequest naming the parameter that cannot be read."""
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
            "query parameters continue and resourceVersion exclude each other: the token holds the version"
        )
    return Listing(
        choice=choice_of(query, resource, namespace=namespace, name=name),
        limit=min(number(query, "limit"), MAX_LIMIT),
        start=Continue.read(token) if token else None,
        version=version,
        match=match,  # type: ignore[arg-type]  # checked above
        has_version=bool(query.get("resourceVersion")),
    )


def choice_of(query: Parameters, resource: Resource, *, namespace: str, name: str = "") -> Choice:
    """Return which objects a query chooses. Raises BadRequest for selectors nobody can read, and for fields that
    objects of the kind cannot be selected by."""
    texts = [query.get(which, "") for which in ("labelSelector", "fieldSelector")]
    for which, text in zip(("labelSelector", "fieldSelector"), texts, strict=True):
        if len(text) > MAX_SELECTOR:
            raise BadRequest(f"query parameter {which} has {len(text)} characters, the limit is {MAX_SELECTOR}")
    try:
        choice = Choice(namespace, name, parse_label_selector(texts[0]), parse_field_selector(texts[1]))
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    check_fields(resource, choice.fields)
    return choice


class Writing(msgspec.Struct, frozen=True):
    """How to write."""

    manager: str
    dry_run: bool
    validation: Literal["Strict", "Warn", "Ignore"]
    force: bool


def writing_of(query: Parameters, *, user_agent: str) -> Writing:
    """Return the write options of a query; the field manager is the program's name where none is asked for."""
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        raise BadRequest(f"query parameter fieldValidation={validation!r} is not one of Ignore, Strict, Warn")
    manager = query.get("fieldManager") or user_agent.partition("/")[0][:MAX_MANAGER] or "unknown"
    if len(manager) > MAX_MANAGER or not manager.isprintable():
        told = f"fieldManager: Invalid value: at most {MAX_MANAGER} printable characters"
        raise Invalid(told, causes=[Cause("FieldValueInvalid", told, "fieldManager")])
    return Writing(manager, dry_run(query), validation, go_bool("force", query.get("force")))  # type: ignore[arg-type]


def dry_run(query: Parameters, options: Document | None = None) -> bool:
    """Return whether only to rehearse. Raises BadRequest for anything but All."""
    asked = query.get("dryRun") or ",".join((options or {}).get("dryRun") or ())
    if asked not in ("", "All"):
        raise BadRequest(f"dryRun={asked!r}: the only value is All")
    return asked == "All"


def number(query: Parameters, name: str) -> int:
    """Return a whole number from the query, 0 where it is absent. Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequest(f"query parameter {name}={text!r} is not a whole number")
    return int(text)

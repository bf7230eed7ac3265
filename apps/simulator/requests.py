"""One request to a member as data: what it is about, and what was asked of it in the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apps.simulator.catalogue import Catalogue
from apps.simulator.objects import Writer
from apps.simulator.store import Stored, key_of
from controlplane.errors import BadRequest, NotFound
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

_OF_NAMESPACE = ("status", "finalize")  # what stands behind namespaces/<name>/ without being a kind


class Target(msgspec.Struct, frozen=True):
    """What a URL names."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Request(msgspec.Struct, frozen=True):
    """A request, read once; `query` holds the first value of every parameter."""

    method: str
    target: Target
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter. Raises BadRequest."""
        return go_bool(name, self.query.get(name))

    def number(self, name: str, default: int = 0) -> int:
        """Return a whole number from the query. Raises BadRequest."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise BadRequest(f"query parameter {name}={text!r} is not a whole number")
        return int(text)

    @property
    def writer(self) -> Writer:
        """Return who writes: the field manager asked for, else the program's name in User-Agent."""
        manager = self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"
        dry_run = self.query.get("dryRun", "")
        if dry_run not in ("", "All"):
            raise BadRequest(f"query parameter dryRun={dry_run!r}: the only value is All")
        return Writer(manager, self.target.subresource, dry_run=dry_run == "All", force=self.flag("force"))

    @property
    def choice(self) -> Choice:
        """Return which objects of a list or watch are meant. Raises BadRequest for selectors nobody can read, and for
        fields that objects of the kind cannot be selected by."""
        try:
            labels = parse_label_selector(self.query.get("labelSelector", ""))
            fields = parse_field_selector(self.query.get("fieldSelector", ""))
        except SelectorError as error:
            raise BadRequest(str(error)) from None
        check_fields(self.target.resource, fields)
        return Choice(self.target.namespace, self.target.name, labels, fields)


class Choice(msgspec.Struct, frozen=True):
    """Which objects are meant; a name in the URL of a watch chooses as well."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: tuple[FieldSelectorTerm, ...]

    @property
    def selects(self) -> bool:
        """Test whether a selector chooses, and not the namespace alone."""
        return bool(self.fields) or not self.labels.is_empty()

    def takes(self, stored: Stored | None) -> bool:
        """Test whether an object is chosen."""
        if stored is None:
            return False
        namespace, name = key_of(stored.document)
        if (self.namespace and namespace != self.namespace) or (self.name and name != self.name):
            return False
        if not self.labels.is_empty() and not self.labels.matches(stored.document["metadata"].get("labels") or {}):
            return False
        return not self.fields or matches_fields(self.fields, stored.document)


def target_of(parts: list[str], catalogue: Catalogue) -> Target:
    """Return what the path /api/v1/… or /apis/<group>/<version>/… names, split at its slashes. Raises NotFound."""
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise nothing_here()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (rest[2] in _OF_NAMESPACE and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    resource = catalogue.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise nothing_here()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        raise nothing_here()
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "")


def nothing_here() -> NotFound:
    """Return the error for a URL nothing is served under."""
    return NotFound("the server could not find the requested resource")
